import assert from "node:assert/strict";
import { test } from "node:test";
import { sentenceOf } from "./eventwords.ts";
import { DEBUG, ERROR, GAP, INFO, LINE, type LogLine, LogStream, MARKER, WARN, levelOf } from "./loglines.ts";
import { EVENT, EVENT_LANE, NOTE, OUTPUT, PLACE, byteLength, cursorAt, positionOf } from "./wire.ts";

type Raw = [service: number, type: number, stream: number, time: number, position: number, data: string | Uint8Array];

function frame(...records: Raw[]): DataView<ArrayBuffer> {
  const parts = records.map(([, , , , , data]) => (typeof data === "string" ? new TextEncoder().encode(data) : data));
  const bytes = new Uint8Array(5 + parts.reduce((sum, part) => sum + 24 + part.length, 0));
  const view = new DataView(bytes.buffer);
  view.setUint8(0, 3);
  view.setUint32(1, 9);
  let at = 5;
  for (const [place, [service, type, stream, time, position]] of records.entries()) {
    const part = parts[place] as Uint8Array;
    view.setUint16(at, service);
    view.setUint8(at + 2, type);
    view.setUint8(at + 3, stream);
    view.setFloat64(at + 4, time);
    view.setBigUint64(at + 12, BigInt(position));
    view.setUint32(at + 20, part.length);
    bytes.set(part, at + 24);
    at += 24 + part.length;
  }
  return view;
}

function made(...frames: DataView<ArrayBuffer>[]): { lines: LogLine[]; stream: LogStream } {
  const lines: LogLine[] = [];
  const stream = new LogStream(["web", "db"], sentenceOf, (line) => lines.push(line));
  for (const one of frames) stream.push(one);
  return { lines, stream };
}

test("lines are put together over records and frames, with the place where they begin", () => {
  const { lines } = made(
    frame([0, OUTPUT, 0, 1000, 0, "one\ntw"], [1, OUTPUT, 0, 1001, 50, "db\n"]),
    frame([0, OUTPUT, 0, 1002, 6, "o\nthree\n"]),
  );
  assert.deepEqual(
    lines.map((line) => [line.service, line.plain, line.position, line.time]),
    [
      [0, "one", 0, 1000],
      [1, "db", 50, 1001],
      [0, "two", 4, 1000],
      [0, "three", 8, 1002],
    ],
  );
});

test("a character that two frames share is whole", () => {
  const bytes = new TextEncoder().encode("grün\n");
  const { lines } = made(
    frame([0, OUTPUT, 0, 1, 0, bytes.slice(0, 3)]),
    frame([0, OUTPUT, 0, 1, 3, bytes.slice(3)]),
  );
  assert.deepEqual(lines.map((line) => line.plain), ["grün"]);
});

test("the two streams of a service do not tear each other's lines", () => {
  const { lines } = made(
    frame([0, OUTPUT, 0, 1, 0, "out "], [0, OUTPUT, 1, 2, 4, "err\n"], [0, OUTPUT, 0, 3, 8, "again\n"]),
  );
  assert.deepEqual(lines.map((line) => [line.stream, line.plain]), [[1, "err"], [0, "out again"]]);
});

test("gaps, events and places are what they are", () => {
  const note = JSON.stringify({ kind: "slow", text: "too fast", run: 0, bytes: 77, from: "P0", to: "P5" });
  const event = JSON.stringify({ kind: "exit", service: "db", time: 5, data: { code: 1, seconds: 0.4 } });
  const { lines, stream } = made(
    frame(
      [0, OUTPUT, 0, 1, 0, "half"],
      [0, NOTE, 0, 0, 5, note],
      [EVENT_LANE, EVENT, 0, 5000, 0, event],
      [0, PLACE, 0, 0, 0, "Pa"],
    ),
  );
  assert.deepEqual(lines.map((line) => [line.kind, line.plain]), [
    [LINE, "half"],
    [GAP, "too fast"],
    [MARKER, "db exited with code 1 after 400ms"],
  ]);
  assert.equal(lines[1]?.gap?.bytes, 77);
  assert.equal(lines[2]?.service, 1);
  assert.equal(stream.cursors.get(0), "Pa");
});

test("a line without an end is told when the stream ends, and cut when it is endless", () => {
  const { lines, stream } = made(frame([0, OUTPUT, 0, 1, 0, "prompt> "]));
  assert.equal(lines.length, 0);
  stream.end();
  assert.deepEqual(lines.map((line) => line.plain), ["prompt> "]);
  const long = made(frame([0, OUTPUT, 0, 1, 0, "x".repeat(20_000)]));
  assert.equal(long.lines.length, 1);
});

test("levels are read from the words in front", () => {
  const cases: [string, number][] = [
    ["2026-01-01 ERROR cannot open", ERROR],
    ["FATAL: out of memory", ERROR],
    ["ValueError: no", ERROR],
    ["0 failed, errors=0", INFO],
    ['{"level":"warn","error":null}', WARN],
    ["level=info msg='error budget fine'", INFO],
    ["WARNING: slow", WARN],
    ["DEBUG x", DEBUG],
    ["GET / 200", INFO],
    ["terrors of the deep", INFO],
  ];
  for (const [text, level] of cases) assert.equal(levelOf(text), level, text);
});

test("positions and cursors are the same thing", () => {
  assert.equal(cursorAt(1295), "Pzz");
  assert.equal(positionOf("Pzz.10"), 36);
  assert.equal(byteLength("aé日👍"), 1 + 2 + 3 + 4);
});
