import assert from "node:assert/strict";
import { test } from "node:test";
import { type Facts, parse } from "./query.ts";

const shop: Facts = {
  name: "checkout",
  state: "backoff",
  health: "unhealthy",
  tags: ["shop", "web"],
  groups: ["front"],
  template: "",
  cpu: 60,
  memory: 512,
  restarts: 4,
  uptime: 90,
  origin: "config",
};

function fits(text: string, more: Partial<Facts> = {}): boolean {
  return parse(text)({ ...shop, ...more });
}

test("no words fit everything", () => {
  assert.ok(fits(""));
  assert.ok(fits("   "));
});

test("words name state, tag, group and health", () => {
  assert.ok(fits("state:backoff tag:shop group:front health:unhealthy"));
  assert.ok(fits("state:failed,backoff"));
  assert.ok(!fits("state:running"));
});

test("numbers are compared in their units", () => {
  assert.ok(fits("cpu>50 restarts>3 mem>=512mb up<2m"));
  assert.ok(fits("mem<1gb"));
  assert.ok(!fits("cpu>50", { cpu: null }));
});

test("a minus turns a word round", () => {
  assert.ok(fits("-name:worker"));
  assert.ok(!fits("-tag:shop"));
});

test("a plain word is part of the name, a state or a tag", () => {
  assert.ok(fits("check"));
  assert.ok(fits("backoff"));
  assert.ok(!fits("pay"));
});

test("an unfinished word hides nothing", () => {
  assert.ok(fits("state:"));
});
