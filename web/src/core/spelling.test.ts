import assert from "node:assert/strict";
import { test } from "node:test";
import { quoted, spellings } from "./spelling.ts";

const ROOT = ["http:", "", "holdfast.localhost:3001", ""].join("/");

test("words that a shell would take apart are quoted", () => {
  assert.equal(quoted("web-1"), "web-1");
  assert.equal(quoted("not today"), "'not today'");
  assert.equal(quoted("it's"), "'it'\\''s'");
});

test("a deed is spelled for every door, with a variable for the token", () => {
  const ways = spellings(
    {
      cli: ["reject", "approval-1", "--reason", "it's late"],
      method: "POST",
      path: "api/approvals/approval-1/reject",
      fields: { reason: "it's late" },
    },
    ROOT,
  );
  assert.deepEqual(Object.keys(ways), ["CLI", "curl", "Python"]);
  assert.equal(ways.CLI, "holdfast reject approval-1 --reason 'it'\\''s late'");
  assert.match(ways.curl!, /^curl -X POST http:\/\/holdfast\.localhost:3001\/api\/approvals/);
  assert.ok(ways.curl!.endsWith(`-d '{"reason":"it'\\''s late"}'`));
  assert.match(ways.Python!, /"\{\\"reason\\":\\"it's late\\"\}"\.encode\(\)/);
  assert.ok(Object.values(ways).every((text) => text.startsWith("holdfast") || text.includes("HOLDFAST_TOKEN")));
});

test("what only asks has its fields in the address", () => {
  const ways = spellings(
    {
      method: "GET",
      path: "api/mcp/tools",
      fields: { services: ["a", "b"] },
      tool: { name: "find_tools", arguments: { query: "issue" } },
    },
    ROOT,
  );
  assert.deepEqual(Object.keys(ways), ["curl", "Python", "MCP call"]);
  assert.match(ways.curl!, /api\/mcp\/tools\?services=a&services=b' -H/);
  assert.match(ways.Python!, /Request\("[^"]+", None, \{/);
});
