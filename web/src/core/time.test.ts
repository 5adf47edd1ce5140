import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, clock, count, duration, size } from "./time.ts";

test("a duration has its two largest units", () => {
  assert.equal(duration(0), "0s");
  assert.equal(duration(0.0123), "12ms");
  assert.equal(duration(8.04), "8s");
  assert.equal(duration(8.45), "8.4s");
  assert.equal(duration(65), "1m 5s");
  assert.equal(duration(7860), "2h 11m");
  assert.equal(duration(3600 * 24 * 21 + 8 * 3600 + 59), "21d 8h");
  assert.equal(duration(Number.NaN), "–");
});

test("a moment is told from now, before and after", () => {
  assert.equal(ago(100, 100_000), "now");
  assert.equal(ago(40, 100_000), "1m ago");
  assert.equal(ago(108, 100_000), "in 8s");
});

test("a clock has milliseconds", () => {
  assert.equal(clock(1_760_000_000_112, true), "08:53:20.112");
});

test("sizes and counts are short", () => {
  assert.equal(size(0), "0 B");
  assert.equal(size(999), "999 B");
  assert.equal(size(1_234), "1.2 kB");
  assert.equal(size(312_400_000), "312 MB");
  assert.equal(size(999_960), "1.0 MB");
  assert.equal(count(1_204_331), "1,204,331");
});
