import assert from "node:assert/strict";
import { test } from "node:test";
import { layout, reached } from "./layout.ts";

const shop = new Map([
  ["db", []],
  ["cache", []],
  ["api", ["db", "cache"]],
  ["web", ["api"]],
  ["alone", []],
  ["odd", ["missing"]],
]);

test("what is needed stands left of what needs it", () => {
  const { places, layers, edges } = layout({ needs: shop });
  assert.equal(layers, 3);
  for (const [provider, user] of edges) assert.ok(places.get(provider)!.layer < places.get(user)!.layer);
});

test("what has no edge has no place", () => {
  const { places } = layout({ needs: shop });
  assert.deepEqual([...places.keys()].sort(), ["api", "cache", "db", "web"]);
});

test("edges of two straight chains do not cross", () => {
  const chains = new Map([
    ["a1", []],
    ["b1", []],
    ["b2", ["b1"]],
    ["a2", ["a1"]],
  ]);
  const { places } = layout({ needs: chains });
  const isAbove = places.get("a1")!.row < places.get("b1")!.row;
  assert.equal(places.get("a2")!.row < places.get("b2")!.row, isAbove);
});

test("a cycle does not hang", () => {
  const { places } = layout({
    needs: new Map([
      ["a", ["b"]],
      ["b", ["a"]],
    ]),
  });
  assert.equal(places.size, 2);
});

test("everything that is reached is found once", () => {
  assert.deepEqual([...reached("web", (name) => shop.get(name) ?? [])].sort(), ["api", "cache", "db"]);
});
