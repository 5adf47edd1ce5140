import assert from "node:assert/strict";
import { test } from "node:test";
import { Ring } from "./ring.ts";

test("the newest stay, and each keeps its number", () => {
  const ring = new Ring<string>(3);
  for (const item of "abcde") ring.push(item);
  assert.deepEqual(ring.toArray(), ["c", "d", "e"]);
  assert.equal(ring.first, 2);
  assert.equal(ring.end, 5);
  assert.equal(ring.at(4), "e");
  assert.equal(ring.at(1), undefined);
});

test("what is inserted moves the earlier ones, never the later", () => {
  const ring = new Ring<string>(6);
  for (const item of "abc") ring.push(item);
  ring.insert(ring.first, ["x", "y"]);
  assert.deepEqual(ring.toArray(), ["x", "y", "a", "b", "c"]);
  assert.equal(ring.at(0), "a");
  assert.equal(ring.first, -2);
  ring.insert(1, ["1", "2"]);
  assert.deepEqual(ring.toArray(), ["y", "a", "1", "2", "b", "c"]);
  assert.equal(ring.at(1), "b");
  ring.push("d");
  assert.deepEqual(ring.toArray(), ["a", "1", "2", "b", "c", "d"]);
  assert.equal(ring.at(1), "b");
  ring.clear();
  assert.equal(ring.length, 0);
  ring.push("z");
  assert.equal(ring.at(ring.first), "z");
});
