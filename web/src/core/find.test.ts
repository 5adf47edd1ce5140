import assert from "node:assert/strict";
import { test } from "node:test";
import { type CellRow, findInRows } from "./find.ts";

const row = (text: string, columns = [...text].map((_, at) => at)): CellRow => ({ text, columns });
const rows = [row("one two one"), row("three"), row("日本 One", [0, 2, 4, 5, 6, 7])];
const at = (place: number) => rows[place] as CellRow;

test("the next and the previous place are found, and behind the last comes the first", () => {
  const next = (from: { row: number; column: number }) => findInRows("one", 3, at, from, false);
  assert.deepEqual(next({ row: 0, column: -1 }), { row: 0, column: 0, length: 3 });
  assert.deepEqual(next({ row: 0, column: 0 }), { row: 0, column: 8, length: 3 });
  assert.deepEqual(next({ row: 0, column: 8 }), { row: 2, column: 5, length: 3 });
  assert.deepEqual(next({ row: 2, column: 5 }), { row: 0, column: 0, length: 3 });
  assert.deepEqual(findInRows("one", 3, at, { row: 0, column: 0 }, true), { row: 2, column: 5, length: 3 });
});

test("a wide letter takes two cells, and nothing is found nowhere", () => {
  assert.deepEqual(findInRows("本", 3, at, { row: 0, column: 0 }, false), { row: 2, column: 2, length: 2 });
  assert.equal(findInRows("four", 3, at, { row: 0, column: 0 }, false), null);
  assert.equal(findInRows("", 3, at, { row: 0, column: 0 }, false), null);
});
