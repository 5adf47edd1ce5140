import assert from "node:assert/strict";
import { test } from "node:test";
import { type AgentEvent, type Paragraph, hear } from "./conversation.ts";

function told(...events: Omit<AgentEvent, "seq">[]): Paragraph[] {
  const said: Paragraph[] = [];
  events.forEach((event, place) => hear(said, { ...event, seq: place + 1 } as AgentEvent));
  return said;
}

test("pieces of an answer are one paragraph; a tool between them parts it", () => {
  const said = told(
    { kind: "turn.started", turn: 1, text: "fix it" },
    { kind: "text.delta", text: "I lo" },
    { kind: "text.delta", text: "ok" },
    { kind: "tool.started", id: "t", tool: "Bash", title: "ls", input: { command: "ls" } },
    { kind: "tool.finished", id: "t", is_error: false, text: "a.txt" },
    { kind: "text.delta", text: "done" },
  );
  assert.deepEqual(said.map((one) => [one.kind, one.text]), [
    ["prompt", "fix it"],
    ["text", "I look"],
    ["tool", "a.txt"],
    ["text", "done"],
  ]);
  assert.deepEqual([said[2]!.state, said[2]!.input], ["done", 'Bash ls {"command":"ls"}']);
});

test("why a turn failed and how a permission was decided are said, a good end is not", () => {
  const said = told(
    { kind: "approval.settled", is_approved: false, by: "eva", reason: "not today" },
    { kind: "turn.finished", reason: "done" },
    { kind: "turn.finished", reason: "failed", text: "no key" },
    { kind: "usage", input_tokens: 3 },
  );
  assert.deepEqual(said.map((one) => one.text), ["Refused by eva: not today", "The turn failed: no key"]);
});

test("a paragraph that was shown is never changed, and what is long is cut", () => {
  const said = told({ kind: "text.delta", text: "a" });
  const before = said[0];
  hear(said, { seq: 2, kind: "text.delta", text: "b" });
  assert.equal(before!.text, "a");
  assert.equal(said[0]!.text, "ab");
  for (let seq = 3; seq < 1000; seq++) hear(said, { seq, kind: "warning", text: "x" });
  assert.equal(said.length, 400);
});
