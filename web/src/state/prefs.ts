// Preferences of this browser: what must be known before anybody is logged in.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "dark" | "light";

function stored<T extends string>(name: string, otherwise: T) {
  const kept = signal((localStorage.getItem(name) as T | null) ?? otherwise);
  effect(() => {
    if (kept.value === otherwise) localStorage.removeItem(name);
    else localStorage.setItem(name, kept.value);
  });
  return kept;
}

export const theme = stored<Theme>("holdfast-theme", "system");
/** Whether keys without Ctrl or Alt do something (WCAG 2.1.4). */
export const singleKeys = stored<"on" | "off">("holdfast-keys", "on");
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
