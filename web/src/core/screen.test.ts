import assert from "node:assert/strict";
import { test } from "node:test";
import { clipboardText, firstLine, pasteable, safePoint } from "./screen.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

test("a replay begins at the last clear of the screen that is seen", () => {
  assert.equal(safePoint(bytes("a\x1b[2Jb\x1b[2Jc")), 6);
  assert.equal(safePoint(bytes("plain \x1b[31m text")), -1);
  assert.equal(safePoint(bytes("x\x1bcy")), 1);
});

test("the other screen counts only while it is shown", () => {
  assert.equal(safePoint(bytes("\x1b[2J one \x1b[?1049h vim \x1b[2J file")), 9);
  const left = "\x1b[2J one \x1b[?1049h vim \x1b[2J file \x1b[?1049l two";
  assert.equal(safePoint(bytes(left)), 0);
});

test("a paste has no controls, and says how many lines it has", () => {
  assert.deepEqual(pasteable("ls\n"), { text: "ls\r", lines: 1, hadControls: false });
  assert.deepEqual(pasteable("a\r\nb\x1b[201~rm"), { text: "a\rb[201~rm", lines: 2, hadControls: true });
});

test("programs may ask to write the clipboard, never to read it", () => {
  assert.equal(clipboardText("c;aGVsbG8="), "hello");
  assert.equal(clipboardText("c;?"), null);
  assert.equal(clipboardText("c;%%%"), null);
});

test("a text that begins anywhere is shown from its first whole line", () => {
  assert.equal(firstLine(bytes("half\nwhole")), 5);
  assert.equal(firstLine(bytes("none")), 0);
});
