// The one connection of the page: who is logged in, whether it is live, and how commands are asked.
import { computed, signal } from "@preact/signals";
import type { Commands } from "../api.gen.ts";
import { CommandError, type Frame, type Link, Socket } from "../core/socket.ts";
import { BASE, ROOT } from "../routes.ts";

export interface Session {
  actor: string;
  role: string;
  version: string;
  project: string;
}

const PAGE_KEY = "holdfast-page";
const RETRY_MS = 400;
const RETRIES = 40;
const RANKS: Record<string, number> = { viewer: 1, agent: 1, operator: 2, admin: 3, owner: 3 };
const NEEDED = { view: 1, operate: 2, administer: 3 };

/** Who is logged in; null: nobody, or not known yet. */
export const session = signal<Session | null>(null);
export const link = signal<Link>("connecting");
export const linkReason = signal("");
/** Unix milliseconds since when the link is lost; 0: it is not. */
export const lostAt = signal(0);
export const isLive = computed(() => link.value === "live");
/** Frames that belong to nothing that was asked: alerts. */
export const notice = signal<Frame | null>(null);

export const socket = new Socket({
  open: () => {
    const url = `${location.origin.replace("http", "ws")}${ROOT}ws`;
    const page = pageProof();
    return new WebSocket(url, page ? ["holdfast", `holdfast.page.${page}`] : ["holdfast"]);
  },
  onLink: (now, why) => {
    linkReason.value = why;
    if (now !== "lost") lostAt.value = 0;
    else if (link.peek() !== "lost") lostAt.value = Date.now();
    link.value = now;
    if (now === "refused") session.value = null;
  },
  onNotice: (frame) => {
    notice.value = frame;
  },
});

/** The half of the cookie that only pages of this origin know. */
function pageProof(): string {
  return localStorage.getItem(PAGE_KEY) ?? "";
}

/** Ask the gate for something that is no command. */
export function request(path: string, options: RequestInit = {}): Promise<Response> {
  return fetch(ROOT + path, {
    ...options,
    headers: { ...options.headers, "X-Holdfast-Page": pageProof() || "login" },
  });
}

/** Find out who is logged in, and connect. Returns false if nobody is. */
export async function begin(): Promise<boolean> {
  for (let tries = 0; ; tries++) {
    try {
      const answer = await request("session");
      if (answer.status === 401 || answer.status === 403) return false;
      if (answer.ok) {
        session.value = await answer.json();
        socket.connect();
        return true;
      }
    } catch {
      // the gate does not answer yet
    }
    lostAt.value ||= Date.now();
    link.value = "lost";
    await pause(Math.min(5000, RETRY_MS * 2 ** tries));
  }
}

/** Exchange the secret of a link for a login. */
export async function logIn(code: string): Promise<void> {
  const answer = await request("login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const told = await answer.json();
  if (!answer.ok)
    throw new CommandError({ code: told.code, message: told.detail ?? told.title, hint: told.hint });
  localStorage.setItem(PAGE_KEY, told.page);
}

export async function logOut(): Promise<void> {
  const answer = await request("logout", { method: "POST" });
  if (!answer.ok) throw new CommandError({ code: "failed", message: (await answer.json()).detail });
  localStorage.removeItem(PAGE_KEY);
  socket.close();
  location.assign(`${BASE}login`);
}

interface Asking {
  signal?: AbortSignal;
  /** The same key stands for the same deed: asked again under it, nothing is done twice. */
  key?: string;
  onItem?: (item: any) => void;
}

/** Whether the role of this login may do what needs this permission. Limits of a single token are
    known to the supervisor only, which decides about everything anyway. */
export function may(permission: "view" | "operate" | "administer"): boolean {
  return (RANKS[session.value?.role ?? ""] ?? 0) >= NEEDED[permission];
}

/** A key of a deed: random, so that no other deed has it. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Ask for a command that only reads. It is asked again after a lost connection. */
export function read<Name extends keyof Commands>(
  command: Name,
  fields: Commands[Name]["takes"],
  asking: Asking = {},
): Promise<Commands[Name]["answers"]> {
  return ask(command, fields as Record<string, unknown>, asking);
}

/** Do something. It has a key, so it is done once however often the connection is lost meanwhile. */
export function act<Name extends keyof Commands>(
  command: Name,
  fields: Commands[Name]["takes"],
  asking: Asking = {},
): Promise<Commands[Name]["answers"]> {
  return ask(command, { ...fields, key: asking.key ?? newKey() }, asking);
}

/** Take what a command tells that has no end, until the returned function is called. Whenever it is
    asked again, it tells everything from the same place on. */
export function follow<Name extends keyof Commands>(
  command: Name,
  fields: Commands[Name]["takes"],
  onItem: (item: any) => void,
  onError: (error: unknown) => void,
): () => void {
  const abort = new AbortController();
  const { signal: ended } = abort;
  const run = async (): Promise<void> => {
    while (!ended.aborted) {
      await ask(command, { ...fields, follow: true }, { signal: ended, onItem });
      // The supervisor is being replaced.
      await pause(RETRY_MS);
    }
  };
  run().catch((error) => ended.aborted || onError(error));
  return () => abort.abort();
}

async function ask(command: string, fields: Record<string, unknown>, asking: Asking): Promise<any> {
  const { signal: abort, onItem } = asking;
  const options = { again: true, ...(abort && { signal: abort }), ...(onItem && { onItem }) };
  for (let tries = 1; ; tries++) {
    try {
      const answer = await socket.request("command:execute", { command, ...fields }, options);
      return answer.result;
    } catch (error) {
      // The supervisor is being replaced: what reads or has a key may be asked again.
      const isAway = error instanceof CommandError && error.code === "no_daemon";
      if (!isAway || tries > RETRIES || abort?.aborted) throw error;
      await pause(RETRY_MS);
    }
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

addEventListener("online", () => socket.connect());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && link.peek() === "lost") socket.connect();
});
