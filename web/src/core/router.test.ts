import assert from "node:assert/strict";
import { test } from "node:test";
import { Routes, address } from "./router.ts";

const routes = new Routes({ home: "", service: "services/{name}/{tab?}", services: "services" });

test("an address stands for its page, with what is in it", () => {
  assert.equal(routes.match("", "")?.name, "home");
  assert.equal(routes.match("services", "?q=a")?.query.get("q"), "a");
  assert.deepEqual(routes.match("services/web%401/logs", "")?.params, { name: "web@1", tab: "logs" });
  assert.deepEqual(routes.match("services/web/", "")?.params, { name: "web" });
  assert.equal(routes.match("nowhere", ""), null);
  assert.deepEqual(routes.match("services/%E0%A4%A", "")?.params, { name: "%E0%A4%A" });
});

test("an address is made of parts, and empty values are left out", () => {
  assert.equal(address(["services", "web@1"], { q: "", at: null, n: 2 }), "services/web@1?n=2");
  assert.equal(address(["logs"], { s: "a,b", wrap: true }), "logs?s=a,b&wrap=1");
});
