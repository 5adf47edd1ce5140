// What somebody chose for the pages. The supervisor keeps it for each actor; a copy in the browser
// is for the moment before anybody is logged in.
import { type Signal, effect, signal } from "@preact/signals";
import { act, isLive, read } from "./connection.ts";
import { fail } from "./toasts.ts";

export type Theme = "system" | "dark" | "light";

interface Preference {
  name: string;
  /** Its value when the page began. */
  first: string;
  values: readonly string[];
  kept: Signal<string>;
}

const all: Preference[] = [];
/** What the supervisor knows; null: it was not asked yet. */
let known: Record<string, unknown> | null = null;
let isFollowing = false;

/** A preference: the first value is the default. */
function preference<T extends string>(name: string, values: readonly T[]): Signal<T> {
  const key = `holdfast-${name}`;
  const before = localStorage.getItem(key) as T | null;
  const kept = signal(before !== null && values.includes(before) ? before : values[0]!);
  effect(() => {
    if (kept.value === values[0]) localStorage.removeItem(key);
    else localStorage.setItem(key, kept.value);
  });
  all.push({ name, first: kept.peek(), values, kept: kept as Signal<string> });
  return kept;
}

export const THEMES = ["system", "dark", "light"] as const;
export const theme = preference<Theme>("theme", THEMES);
/** Whether keys without Ctrl or Alt do something (WCAG 2.1.4). */
export const singleKeys = preference("keys", ["on", "off"]);
/** The range of the overview, unless its address names one. */
export const firstRange = preference("range", ["1h", "6h", "24h", "7d"]);
/** How services are shown, unless the address says so. */
export const firstView = preference("view", ["table", "tiles", "graph"]);

const systemDark = matchMedia("(prefers-color-scheme: dark)");
/** Whether the page is dark now. */
export const isDark = signal(systemDark.matches);

systemDark.addEventListener("change", apply);
effect(() => {
  void theme.value;
  apply();
});

function apply(): void {
  isDark.value = theme.value === "system" ? systemDark.matches : theme.value === "dark";
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

/** Take the choices of this actor, and keep those made here; called once, when logged in. */
export function followPreferences(): void {
  if (isFollowing) return;
  isFollowing = true;
  effect(() => {
    if (isLive.value) void take();
  });
  // Another browser of the same actor may have chosen meanwhile.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isLive.peek()) void take();
  });
  for (const { name, kept } of all)
    effect(() => {
      const value = kept.value;
      if (known === null || (known[name] ?? value) === value) return;
      void keep({ [name]: value });
    });
}

async function take(): Promise<void> {
  try {
    const told = (await read("preferences", {})).values;
    const isFirst = known === null;
    // What was never chosen there is as this browser shows it.
    known = { ...Object.fromEntries(all.map(({ name, kept }) => [name, kept.peek()])), ...told };
    for (const { name, first, values, kept } of all) {
      const value = told[name];
      // What was chosen here while we asked is newer.
      if (isFirst && kept.peek() !== first) void keep({ [name]: kept.peek() });
      else if (typeof value === "string" && values.includes(value)) kept.value = value;
    }
  } catch {
    // A lost connection comes back and asks again; until then the browser's copy holds.
  }
}

async function keep(values: Record<string, unknown>): Promise<void> {
  known = { ...known, ...values };
  try {
    await act("set_preferences", { values });
  } catch (error) {
    fail(error);
  }
}

/** Choose everything anew: the defaults, in all browsers. */
export async function forgetPreferences(): Promise<void> {
  for (const { name, values, kept } of all) {
    known = { ...known, [name]: values[0] };
    kept.value = values[0]!;
  }
  await act("set_preferences", { values: Object.fromEntries(all.map(({ name }) => [name, null])) });
}
