import assert from "node:assert/strict";
import { test } from "node:test";
import { KeySequence, nameOf } from "./keys.ts";

const press = (key: string, more = {}) =>
  nameOf({ key, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, ...more });

test("a press has the name that people read", () => {
  assert.equal(press("r"), "r");
  assert.equal(press("E", { shiftKey: true }), "Shift+e");
  assert.equal(press("?", { shiftKey: true }), "?");
  assert.equal(press("k", { metaKey: true }), "Ctrl+k");
  assert.equal(press(" "), "Space");
  assert.equal(press("End"), "End");
});

test("two keys in a row are one action, unless too much time is between them", () => {
  const keys = new KeySequence();
  assert.deepEqual(keys.take("g", 0), ["g"]);
  assert.deepEqual(keys.take("s", 500), ["g s", "s"]);
  assert.deepEqual(keys.take("s", 5000), ["s"]);
});
