// Short notices: done things leave by themselves, failures stay until somebody closes them.
import { signal } from "@preact/signals";
import { CommandError } from "../core/socket.ts";

export interface Toast {
  id: number;
  kind: "ok" | "bad" | "info";
  text: string;
  hint?: string;
  action?: { title: string; run: () => void };
}

const SECONDS = 6;
let count = 0;
export const toasts = signal<readonly Toast[]>([]);

export function toast(kind: Toast["kind"], text: string, more: Partial<Toast> = {}): void {
  const made: Toast = { ...more, id: ++count, kind, text };
  toasts.value = [...toasts.peek().slice(-4), made];
  if (kind !== "bad") setTimeout(() => dismiss(made.id), SECONDS * 1000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.peek().filter((one) => one.id !== id);
}

/** Show why something failed, in the server's words. */
export function fail(error: unknown): void {
  if (error instanceof CommandError) {
    if (error.code !== "cancelled") toast("bad", error.message, { hint: error.hint });
  } else {
    toast("bad", error instanceof Error ? error.message : String(error));
  }
}
