import assert from "node:assert/strict";
import { test } from "node:test";
import { isEventful, strips } from "./strips.ts";

const turn = (time: number, from: string, to: string, service = "web") => ({
  time,
  kind: "transition",
  service,
  data: { from, to },
});

test("pieces join without a gap from one end to the other", () => {
  const found = strips([turn(10, "running", "backoff"), turn(15, "backoff", "running")], 0, 20, new Map());
  assert.deepEqual(found.get("web"), [
    { state: "running", from: 0, to: 10 },
    { state: "backoff", from: 10, to: 15 },
    { state: "running", from: 15, to: 20 },
  ]);
});

test("transitions before the range only say how it began", () => {
  const found = strips([turn(-5, "starting", "running")], 0, 20, new Map());
  assert.deepEqual(found.get("web"), [{ state: "running", from: 0, to: 20 }]);
});

test("a service without events has one piece since it is in its state", () => {
  const found = strips([], 0, 20, new Map([["db", { status: "running", since: 5 }]]));
  assert.deepEqual(found.get("db"), [{ state: "running", from: 5, to: 20 }]);
  assert.ok(!isEventful(found.get("db")!));
});

test("a service that only began has nothing to tell", () => {
  const found = strips([turn(5, "pending", "starting"), turn(6, "starting", "running")], 0, 20, new Map());
  assert.deepEqual(
    found.get("web")!.map((piece) => piece.from),
    [5, 6],
  );
  assert.ok(!isEventful(found.get("web")!));
});

test("other events are no states", () => {
  const found = strips([{ time: 3, kind: "exit", service: "web", data: {} }], 0, 20, new Map());
  assert.equal(found.size, 0);
});
