// Events of the past and of now, for strips, counts and lists.
import { signal } from "@preact/signals";
import { read } from "./connection.ts";
import { type HoldfastEvent, onEvent } from "./services.ts";

const MOST = 6000;
/** The newest events, the oldest first. */
export const past = signal<readonly HoldfastEvent[]>([]);
export const isPastLoaded = signal(false);
let isFollowing = false;
let waiting: HoldfastEvent[] = [];
let frame = 0;

/** Load the newest events once, and add new ones as they come. */
export function followPast(): void {
  if (isFollowing) return;
  isFollowing = true;
  onEvent((event) => {
    waiting.push(event);
    frame ||= requestAnimationFrame(take);
  });
  void load();
}

async function load(): Promise<void> {
  try {
    const told = (await read("events", { limit: MOST })).events as unknown as HoldfastEvent[];
    const first = past.peek()[0]?.seq ?? Number.POSITIVE_INFINITY;
    past.value = [...told.filter((event) => event.seq < first), ...past.peek()];
    isPastLoaded.value = true;
  } catch {
    isFollowing = false;
  }
}

function take(): void {
  frame = 0;
  const last = past.peek().at(-1)?.seq ?? 0;
  const fresh = waiting.filter((event) => event.seq > last);
  waiting = [];
  if (fresh.length) past.value = [...past.peek(), ...fresh].slice(-2 * MOST);
}

export const RANGES = [
  { value: "1h", title: "1h", seconds: 3600 },
  { value: "6h", title: "6h", seconds: 21_600 },
  { value: "24h", title: "24h", seconds: 86_400 },
  { value: "7d", title: "7d", seconds: 604_800 },
] as const;
export type Range = (typeof RANGES)[number]["value"];

export function secondsOf(range: string | null): number {
  return RANGES.find((one) => one.value === range)?.seconds ?? 3600;
}
