// The last ten minutes of what services use, for those whose line is on the screen.
import { signal } from "@preact/signals";
import type { HostMetrics, MetricPoint } from "../api.gen.ts";
import { isLive, read } from "./connection.ts";

export const SPARK_SECONDS = 600;
const RESOLUTION = 10;
const EVERY_MS = 10_000;
const GATHER_MS = 80;
/** Services of one request; more rows are on no screen. */
const MOST = 200;

export const recent = signal<ReadonlyMap<string, readonly MetricPoint[]>>(new Map());
export const host = signal<HostMetrics | null>(null);

const wanted = new Map<string, number>();
let timer: ReturnType<typeof setTimeout> | undefined;
let due = 0;

/** Show the line of a service until the returned function is called. */
export function wantRecent(name: string): () => void {
  wanted.set(name, (wanted.get(name) ?? 0) + 1);
  if (!recent.peek().has(name)) schedule(GATHER_MS);
  else schedule(EVERY_MS);
  return () => {
    const left = (wanted.get(name) ?? 1) - 1;
    if (left > 0) wanted.set(name, left);
    else wanted.delete(name);
  };
}

function schedule(milliseconds: number): void {
  const at = Date.now() + milliseconds;
  if (timer !== undefined && due <= at) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(load, milliseconds);
}

async function load(): Promise<void> {
  timer = undefined;
  if (wanted.size === 0) return;
  if (!document.hidden && isLive.peek()) {
    const names = [...wanted.keys()].slice(-MOST);
    try {
      const answer = await read("metrics", {
        services: names,
        history: SPARK_SECONDS,
        resolution: RESOLUTION,
      });
      const next = new Map<string, readonly MetricPoint[]>();
      for (const name of wanted.keys()) {
        const points = answer.history?.[name] ?? recent.peek().get(name);
        if (points) next.set(name, points);
      }
      recent.value = next;
      host.value = answer.host;
    } catch {
      // A name is gone; the next request is about those that are left.
    }
  }
  schedule(EVERY_MS);
}
