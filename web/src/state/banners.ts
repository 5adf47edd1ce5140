// The supervisor's banners, and what the page itself knows of a restart that was planned.
import { computed, effect, signal } from "@preact/signals";
import type { Banner } from "../api.gen.ts";
import { link } from "./connection.ts";
import { onEvent, refresh, supervisor } from "./services.ts";

/** The most urgent first; they come with every status. */
export const banners = computed<readonly Banner[]>(() => supervisor.value?.banners ?? []);
/** What is going on while the supervisor is being replaced on purpose; null: nothing is planned. */
export const planned = signal<string | null>(null);

const PLANNED_MS = 60_000;
const RELOADED = "holdfast-reloaded";
let isFollowing = false;

/** Begin to follow; called once. */
export function followBanners(): void {
  if (isFollowing) return;
  isFollowing = true;
  onEvent((event) => {
    if (event.kind === "mode:switching") plan("Mode switching…");
    else if (event.kind === "holdfast:stopping") plan("Holdfast was stopped");
    else if (event.kind === "mode:switched" || event.kind === "holdfast:upgraded") reloadOnce(event.seq);
    else if (event.kind === "supervisor:started") planned.value = null;
  });
  effect(() => {
    // A notice leaves by itself: what the supervisor says then tells.
    const times = banners.value.flatMap((one) => (one.expires_at ? [one.expires_at] : []));
    if (times.length === 0) return;
    const timer = setTimeout(refresh, Math.max(0, Math.min(...times) * 1000 - Date.now()) + 300);
    return () => clearTimeout(timer);
  });
  effect(() => {
    if (link.value === "live") refresh();
  });
}

function plan(title: string): void {
  planned.value = title;
  setTimeout(() => {
    if (planned.peek() === title) planned.value = null;
  }, PLANNED_MS);
}

/** The pages of another mode or version are others. The address stays, and so does what is typed in
    a field of the address; the same event never reloads twice. */
function reloadOnce(seq: number): void {
  planned.value = null;
  if (sessionStorage.getItem(RELOADED) === String(seq)) return;
  sessionStorage.setItem(RELOADED, String(seq));
  location.reload();
}
