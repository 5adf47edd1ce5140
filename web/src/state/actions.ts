// THE registry of what can be done: the palette, menus and keys run the same actions.
import { signal } from "@preact/signals";
import type { IconName } from "../ui/icon.tsx";

export interface Action {
  id: string;
  title: string;
  /** In the palette: deeds first, then places, then copies. */
  group: "do" | "go" | "copy";
  /** `r`, `g s`, `Shift+e`, `Ctrl+k`: as the person presses it. */
  keys?: string;
  icon?: IconName;
  hint?: string;
  run: () => void;
}

/** What can be done now, with what is on the screen. */
export const actions = signal<readonly Action[]>([]);

/** Offer actions until the returned function is called. The newest come first. */
export function offer(added: Action[]): () => void {
  actions.value = [...added, ...actions.peek()];
  return () => {
    actions.value = actions.peek().filter((action) => !added.includes(action));
  };
}
