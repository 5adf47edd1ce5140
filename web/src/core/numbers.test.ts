import assert from "node:assert/strict";
import { test } from "node:test";
import { Numbers } from "./numbers.ts";

test("what is forgotten is gone, and the rest is found", () => {
  const numbers = new Numbers();
  for (let number = 0; number < 100_000; number += 2) {
    numbers.push(number);
    numbers.forgetBefore(number - 20);
  }
  assert.deepEqual([...numbers], [99978, 99980, 99982, 99984, 99986, 99988, 99990, 99992, 99994, 99996, 99998]);
  assert.equal(numbers.length, 11);
  assert.equal(numbers.at(0), 99978);
  assert.equal(numbers.at(-1), undefined);
  assert.equal(numbers.lowerBound(99981), 2);
  numbers.clear();
  assert.equal(numbers.length, 0);
});
