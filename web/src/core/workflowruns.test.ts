import assert from "node:assert/strict";
import { test } from "node:test";
import { type WorkflowEvent, runsOf } from "./workflowruns.ts";

const NAMES = () => ["build", "restart web", "wait"];

function told(kind: string, data: Record<string, unknown>): WorkflowEvent {
  return { kind: `workflow:${kind}`, service: null, time: 5, data: { id: "w-1", name: "workflow release", ...data } };
}

const BEGUN = told("started", { steps: 3, by: "ci" });
const FIRST = told("step", { step: 1, steps: 3, what: "build", outcome: "begun" });

test("steps that are still to come have their names", () => {
  const [run] = runsOf([BEGUN, FIRST], NAMES);
  assert.equal(run!.outcome, "running");
  assert.deepEqual(run!.steps.map((one) => [one.what, one.outcome]), [
    ["build", "begun"],
    ["restart web", "waiting"],
    ["wait", "waiting"],
  ]);
});

test("names of another number of steps are of another declaration", () => {
  const [run] = runsOf([BEGUN], () => ["only one"]);
  assert.deepEqual(run!.steps.map((one) => one.what), ["step 1", "step 2", "step 3"]);
});

test("what did not end is told as the run, the rest was not begun", () => {
  const [run] = runsOf([BEGUN, FIRST, told("finished", { outcome: "interrupted", reason: "replaced" })], NAMES);
  assert.deepEqual(run!.steps.map((one) => one.outcome), ["interrupted", "skipped", "skipped"]);
  assert.equal(run!.reason, "replaced");
});

test("a run whose begin was forgotten has the steps that are told", () => {
  const [run] = runsOf([told("step", { step: 2, steps: 3, what: "restart web", outcome: "done" })], NAMES);
  assert.deepEqual(run!.steps.map((one) => one.outcome), ["waiting", "done", "waiting"]);
});

test("the newest run is the first, and other events are none", () => {
  const other = { ...told("started", { id: "w-2", steps: 1 }), time: 9 };
  assert.deepEqual(runsOf([BEGUN, { ...BEGUN, kind: "command:started" }, other], NAMES).map((one) => one.id), [
    "w-2",
    "w-1",
  ]);
});
