import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces, plain, visible } from "./ansi.ts";

test("a line without escapes is one piece", () => {
  assert.deepEqual(pieces("hello"), [{ text: "hello", look: "" }]);
  assert.deepEqual(pieces(""), []);
});

test("colours have names, of 256 and of all kinds", () => {
  assert.deepEqual(pieces("\x1b[1;31mbad\x1b[0m ok"), [
    { text: "bad", look: "a1 bold" },
    { text: " ok", look: "" },
  ]);
  assert.deepEqual(pieces("\x1b[38;5;9mx"), [{ text: "x", look: "a9" }]);
  assert.equal(pieces("\x1b[38;5;196mx")[0]?.color, "#ff0000");
  assert.equal(pieces("\x1b[48;2;1;2;300mx")[0]?.ground, "#0102ff");
  assert.equal(pieces("\x1b[38:2:9:9:9mx")[0]?.color, "#090909");
  assert.equal(pieces("\x1b[92mx")[0]?.look, "a10");
  assert.equal(pieces("\x1b[7mx")[0]?.look, "on turned");
  assert.equal(pieces("\x1b[1mx\x1b[22my")[1]?.look, "");
});

test("what a terminal would do is left out, whatever it is", () => {
  const hostile = "\x1b]0;title\x07a\x1b[2Jb\x1bPq#0\x1b\\c\x1b]52;c;ZXZpbA==\x1b\\d\x9b31me\x1b(Bf";
  assert.equal(plain(hostile), "abcd31mef");
  assert.equal(pieces(hostile).map((piece) => piece.text).join(""), "abcd31mef");
  assert.equal(plain("\x1b]8;;http://x\x07link\x1b]8;;\x07"), "link");
  assert.equal(plain("\x1b[31munfinished\x1b["), "unfinished");
});

test("a carriage return leaves what was written last", () => {
  assert.equal(plain("10%\r50%\r100%"), "100%");
  assert.equal(plain("windows\r"), "windows");
  assert.equal(pieces("\x1b[32m10%\r\x1b[33m100%").map((piece) => piece.text).join(""), "100%");
});

test("what could deceive is seen", () => {
  assert.equal(visible("a\u202eb"), "a\u27e8U+202E\u27e9b");
  assert.equal(visible("a\u0000b\u0007"), "a\u2400b\u2407");
  assert.equal(visible("zero\u200bwidth"), "zero\u27e8U+200B\u27e9width");
  assert.equal(visible("a\tb"), "a       b");
  assert.equal(visible("\tb"), "        b");
  assert.equal(visible("grüße 日本 👍"), "grüße 日本 👍");
});

test("markup stays text", () => {
  const evil = "<img src=x onerror=alert(1)><script>alert(2)</script>";
  assert.deepEqual(pieces(evil), [{ text: evil, look: "" }]);
});
