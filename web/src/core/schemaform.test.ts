import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf, filled } from "./schemaform.ts";

const SCHEMA = {
  type: "object",
  required: ["path", "count"],
  properties: {
    note: { type: "string", description: "for the record", default: "none" },
    path: { type: "string" },
    count: { type: "integer" },
    how: { enum: ["fast", "slow"] },
    deep: { anyOf: [{ type: "boolean" }, { type: "null" }] },
    names: { type: "array", items: { type: "string" } },
    more: { type: "object" },
  },
};

test("required fields come first, and each has a kind", () => {
  const fields = fieldsOf(SCHEMA);
  assert.deepEqual(
    fields.map(({ name, kind }) => `${name} ${kind}`),
    ["path text", "count number", "note text", "how choice", "deep choice", "names lines", "more json"],
  );
  assert.deepEqual(fields.find(({ name }) => name === "how")?.choices, ['"fast"', '"slow"']);
  assert.deepEqual(fields.find(({ name }) => name === "deep")?.choices, ["true", "false"]);
});

test("what is typed becomes values of their types; empty ones are left out", () => {
  const typed = { path: "a.txt", count: "3", how: '"slow"', deep: "false", names: "a\nb\n", more: '{"x": 1}' };
  assert.deepEqual(filled(fieldsOf(SCHEMA), typed), {
    values: { path: "a.txt", count: 3, note: "none", how: "slow", deep: false, names: ["a", "b"], more: { x: 1 } },
    problems: {},
  });
});

test("what cannot be sent is said at its field", () => {
  const { problems } = filled(fieldsOf(SCHEMA), { count: "1.5", more: "{" });
  assert.deepEqual(problems, {
    path: "this is required",
    count: "this is no whole number",
    more: "this is not JSON",
  });
});

test("a schema of nothing is a form without fields", () => {
  assert.deepEqual(fieldsOf(undefined), []);
  assert.deepEqual(fieldsOf({ type: "object" }), []);
});
