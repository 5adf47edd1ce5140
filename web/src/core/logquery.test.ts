import assert from "node:assert/strict";
import { test } from "node:test";
import { INFO, LINE, type LogLine, MARKER, WARN } from "./loglines.ts";
import { EVERYTHING, expressionOf, fits, matches, ripgrepPattern } from "./logquery.ts";

const line = (more: Partial<LogLine>): LogLine => ({
  kind: LINE, service: 0, stream: 0, time: 1000, position: 0, text: "", plain: "", level: INFO, ...more,
});

test("what is typed is plain text unless it is said to be an expression", () => {
  assert.ok(expressionOf({ ...EVERYTHING, text: "a.b" })?.test("xA.Bx"));
  assert.ok(!expressionOf({ ...EVERYTHING, text: "a.b" })?.test("axb"));
  assert.ok(expressionOf({ ...EVERYTHING, text: "a.b", isRegex: true })?.test("axb"));
  assert.ok(!expressionOf({ ...EVERYTHING, text: "a", isCase: true })?.test("A"));
  assert.ok(!expressionOf({ ...EVERYTHING, text: "err", isWord: true })?.test("errors"));
  assert.ok(expressionOf({ ...EVERYTHING, text: "err", isWord: true })?.test("(err)"));
  assert.equal(expressionOf(EVERYTHING), null);
  assert.throws(() => expressionOf({ ...EVERYTHING, text: "(", isRegex: true }));
});

test("level, stream and time choose lines; what happened is always told", () => {
  assert.ok(!fits({ ...EVERYTHING, level: WARN }, line({})));
  assert.ok(fits({ ...EVERYTHING, level: WARN }, line({ kind: MARKER })));
  assert.ok(!fits({ ...EVERYTHING, stream: 1 }, line({})));
  assert.ok(!fits({ ...EVERYTHING, since: 2000 }, line({})));
  assert.ok(!fits({ ...EVERYTHING, until: 1000 }, line({})));
});

test("matches have a begin and an end, and empty ones are none", () => {
  assert.deepEqual(matches(/a*/g, "baac"), [[1, 3]]);
  assert.deepEqual(ripgrepPattern({ ...EVERYTHING, text: "a.b", isWord: true }), {
    pattern: "\\b(?:a\\.b)\\b",
    literal: false,
  });
});
