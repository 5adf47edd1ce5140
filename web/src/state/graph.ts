// Which service needs which, and the groups and tags of each; current while somebody looks.
import { signal } from "@preact/signals";
import type { ServiceNeeds } from "../api.gen.ts";
import { isLive, read } from "./connection.ts";
import { onEvent } from "./services.ts";

export const graph = signal<Readonly<Record<string, ServiceNeeds>>>({});
export const isGraphLoaded = signal(false);

const GATHER_MS = 400;
const KINDS =
  /^(service:(added|removed|changed|ready|waiting|scaled)|config:reloaded|transition|health:changed|process:)/;
let followers = 0;
let stop: (() => void) | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

async function load(): Promise<void> {
  timer = undefined;
  try {
    graph.value = (await read("dependencies", {})).services;
    isGraphLoaded.value = true;
  } catch {
    // Who may not look at it sees the pages without it; a lost connection comes back and asks again.
  }
}

/** Keep the graph current until the returned function is called. */
export function followGraph(): () => void {
  followers += 1;
  if (followers === 1) {
    stop = onEvent((event) => {
      if (KINDS.test(event.kind)) timer ??= setTimeout(load, GATHER_MS);
    });
    if (isLive.peek() || !isGraphLoaded.peek()) void load();
  }
  return () => {
    followers -= 1;
    if (followers > 0) return;
    stop?.();
    clearTimeout(timer);
    timer = undefined;
  };
}

/** The graph is there, or cannot be had. */
export async function ensureGraph(): Promise<void> {
  if (!isGraphLoaded.peek()) await load();
}

/** Services that need this one and should run. */
export function dependents(name: string): string[] {
  const known = graph.peek();
  return (known[name]?.needed_by ?? []).filter((other) => known[other]?.desired === "running");
}
