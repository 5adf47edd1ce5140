// Services that are not as they should be, with the cause in words and the next step.
import { signal } from "@preact/signals";
import type { Explanation } from "../api.gen.ts";
import { isLive, read } from "./connection.ts";
import { onEvent } from "./services.ts";

export const attention = signal<readonly Explanation[]>([]);
export const isAttentionLoaded = signal(false);

const GATHER_MS = 500;
const KINDS =
  /^(transition|health:|service:(ready|suppressed|removed|waiting)|limit:|config:|lockdown:|supervisor:)/;
let isFollowing = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Begin to follow; called by every page that shows it. */
export function followAttention(): void {
  if (isFollowing) return;
  isFollowing = true;
  onEvent((event) => {
    if (KINDS.test(event.kind)) timer ??= setTimeout(load, GATHER_MS);
  });
  void load();
}

async function load(): Promise<void> {
  timer = undefined;
  if (!isLive.peek() && isAttentionLoaded.peek()) return;
  try {
    attention.value = (await read("explain", {} as never)).explanations;
    isAttentionLoaded.value = true;
  } catch {
    // Somebody who may see some services only, or a lost connection: the next event asks again.
  }
}
