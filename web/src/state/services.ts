// What every service is doing, kept current by events.
import { computed, signal } from "@preact/signals";
import type { ServiceStatus, StatusResult, SupervisorStatus } from "../api.gen.ts";
import { read, socket } from "./connection.ts";

/** By name. A service that did not change is the same object as before. */
export const services = signal<ReadonlyMap<string, ServiceStatus>>(new Map());
export const supervisor = signal<SupervisorStatus | null>(null);
/** Whether the services were told at least once. */
export const isLoaded = computed(() => supervisor.value !== null);
/** Unix milliseconds of the last answer. */
export const toldAt = signal(0);

export interface HoldfastEvent {
  seq: number;
  time: number;
  kind: string;
  service: string | null;
  run_id: string | null;
  data: Record<string, any>;
}
type Listener = (event: HoldfastEvent) => void;

const GATHER_MS = 60;
const USAGE_MS = 2000;
/** Names beyond this are not worth asking for one by one. */
const MOST_NAMES = 200;
const GLOBAL =
  /^(holdfast|supervisor|keeper|mode|lockdown|approval|alert|config|door|database|workflow|rolling):/;
const SILENT = new Set(["health:failed", "health:passed", "events:dropped"]);
const listeners = new Set<Listener>();
const changed = new Set<string>();
let isEverything = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let isAsking = false;
let watchers = 0;
let usage: ReturnType<typeof setInterval> | undefined;

/** Hear of every event from now on. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Begin to follow; called once, when somebody is logged in. */
export function followServices(): void {
  socket.follow(
    (event: HoldfastEvent) => {
      for (const listener of listeners) listener(event);
      if (SILENT.has(event.kind)) return;
      if (event.kind === "service:removed" && event.service) drop(event.service);
      else if (event.service) changed.add(event.service);
      if (GLOBAL.test(event.kind) || event.kind === "service:added") isEverything = true;
      schedule(GATHER_MS);
    },
    () => refresh(),
  );
}

/** Ask for everything now. */
export function refresh(): void {
  isEverything = true;
  schedule(0);
}

/** While something on the screen shows what services use: keep that current. */
export function watchUsage(): () => void {
  watchers += 1;
  usage ??= setInterval(() => {
    if (!document.hidden && socket.link === "live") refresh();
  }, USAGE_MS);
  return () => {
    watchers -= 1;
    if (watchers > 0) return;
    clearInterval(usage);
    usage = undefined;
  };
}

function schedule(milliseconds: number): void {
  if (isAsking || (timer !== undefined && milliseconds > 0)) return;
  clearTimeout(timer);
  timer = setTimeout(ask, milliseconds);
}

async function ask(): Promise<void> {
  timer = undefined;
  if (isAsking || (!isEverything && changed.size === 0)) return;
  isAsking = true;
  const names = isEverything || changed.size > MOST_NAMES ? [] : [...changed];
  const wasEverything = names.length === 0;
  changed.clear();
  isEverything = false;
  try {
    take(await read("status", { services: names }), wasEverything);
  } catch {
    // A name is gone, or nobody may look: everything tells. What is refused stays as it was.
    isEverything ||= !wasEverything;
  } finally {
    isAsking = false;
    if (isEverything || changed.size > 0) schedule(GATHER_MS);
  }
}

function take(answer: StatusResult, isWhole: boolean): void {
  const known = services.peek();
  const next = new Map(isWhole ? [] : known);
  for (const [name, status] of Object.entries(answer.services)) {
    const before = known.get(name);
    next.set(name, before && isSame(before, status) ? before : status);
  }
  services.value = next;
  supervisor.value = answer.supervisor;
  toldAt.value = Date.now();
}

function drop(name: string): void {
  if (!services.peek().has(name)) return;
  const next = new Map(services.peek());
  next.delete(name);
  services.value = next;
}

function isSame(one: ServiceStatus, other: ServiceStatus): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
