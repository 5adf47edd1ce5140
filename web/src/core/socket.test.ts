import assert from "node:assert/strict";
import { test } from "node:test";
import { type Link, Socket, type SocketLike } from "./socket.ts";

class FakeSocket implements SocketLike {
  binaryType = "";
  readyState = 0;
  sent: any[] = [];
  onopen: ((event: any) => void) | null = null;
  onmessage: ((event: any) => void) | null = null;
  onclose: ((event: any) => void) | null = null;
  onerror: ((event: any) => void) | null = null;

  send(data: string | ArrayBufferView): void {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : data);
  }
  close(): void {
    this.onclose?.({ code: 1006, reason: "" });
  }
  tell(frame: object | ArrayBuffer): void {
    this.onmessage?.({ data: frame instanceof ArrayBuffer ? frame : JSON.stringify(frame) });
  }
}

function connected(t: { after: (end: () => void) => void }) {
  const sockets: FakeSocket[] = [];
  const links: Link[] = [];
  const socket = new Socket({
    open: () => {
      const made = new FakeSocket();
      sockets.push(made);
      return made;
    },
    onLink: (link) => links.push(link),
  });
  t.after(() => socket.close());
  const next = () => {
    socket.connect();
    const made = sockets.at(-1) as FakeSocket;
    made.tell({ event: "auth:ok", data: {} });
    return made;
  };
  return { socket, sockets, links, next };
}

test("an answer goes to its request, an error becomes one", async (t) => {
  const { socket, next } = connected(t);
  const first = next();
  const one = socket.request("ping", {});
  const two = socket.request("ping", {});
  first.tell({ event: "error", id: 2, data: { data: { code: "usage", message: "no", hint: "so" } } });
  first.tell({ event: "pong", id: 1, data: { timestamp: 1 } });
  assert.deepEqual(await one, { timestamp: 1 });
  await assert.rejects(two, { code: "usage", message: "no", hint: "so" });
});

test("after a loss, what may be asked again is asked again, the rest fails", async (t) => {
  const { socket, links, next } = connected(t);
  const first = next();
  const kept = socket.request("command:execute", { command: "status" }, { again: true });
  const gone = socket.request("terminal:take", {});
  first.close();
  await assert.rejects(gone, { code: "connection_lost" });
  const second = next();
  assert.deepEqual(second.sent[0].data, { command: "status" });
  second.tell({ event: "command:result", id: second.sent[0].id, data: { result: 1 } });
  assert.deepEqual(await kept, { result: 1 });
  assert.deepEqual(links, ["live", "lost", "live"]);
});

test("events are followed from the last one on", async (t) => {
  const { socket, next } = connected(t);
  const told: number[] = [];
  let begun = 0;
  socket.follow((event) => told.push(event.n), () => (begun += 1));
  const first = next();
  first.tell({ event: "subscribed", id: first.sent[0].id, data: { subscription: 7, since: 3 } });
  await Promise.resolve();
  await Promise.resolve();
  first.tell({ event: "event", subscription: 7, seq: 4, data: { n: 4 } });
  first.close();
  const second = next();
  assert.deepEqual(second.sent[0].data, { services: [], since: 4 });
  assert.deepEqual(told, [4]);
  assert.equal(begun, 1);
});

test("more requests than the server takes wait their turn", (t) => {
  const { socket, next } = connected(t);
  const first = next();
  for (let count = 0; count < 40; count++) void socket.request("ping", {}).catch(() => undefined);
  assert.equal(first.sent.length, 24);
  first.tell({ event: "pong", id: first.sent[0].id, data: {} });
  assert.equal(first.sent.length, 25);
});

test("a refused login is no lost connection", (t) => {
  const { socket, links, next } = connected(t);
  next().onclose?.({ code: 4401, reason: "revoked" });
  assert.equal(socket.link, "refused");
  assert.deepEqual(links, ["live", "refused"]);
});
