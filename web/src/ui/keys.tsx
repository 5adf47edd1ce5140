// Keys run the same actions as menus and the palette; `?` lists them.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { KeySequence, nameOf } from "../core/keys.ts";
import { actions } from "../state/actions.ts";
import { singleKeys } from "../state/prefs.ts";
import { Dialog } from "./dialog.tsx";

const sequence = new KeySequence();
export const areKeysShown = signal(false);

/** Programs in a terminal and fields of a form get their keys themselves. */
function belongsElsewhere(event: KeyboardEvent): boolean {
  const target = event.target as Element;
  if (event.key === "Enter" || event.key === " ")
    if (target.closest("button, a, summary, input, [role=tab], tr[tabindex]")) return true;
  const fields = "input:not([type=checkbox]), textarea, select, [contenteditable]";
  return target.closest(`${fields}, .xterm, dialog, [role=menu]`) !== null;
}

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    const isSingle = !name.includes("Ctrl+") && !name.includes("Alt+");
    if (isSingle && (belongsElsewhere(event) || singleKeys.value === "off")) {
      sequence.forget();
      return;
    }
    for (const keys of sequence.take(name, event.timeStamp)) {
      const action = actions.value.find((one) => one.keys?.toLowerCase() === keys.toLowerCase());
      if (!action) continue;
      event.preventDefault();
      sequence.forget();
      action.run();
      return;
    }
  });
}

const TERMINAL = [
  ["Ctrl+Shift+F", "Find in the terminal"],
  ["Ctrl+Shift+C", "Copy"],
  ["Ctrl+Shift+V", "Paste"],
  ["F6", "Leave the terminal"],
] as const;

/** All keys; those of the page that is open come first. */
export function KeyHelp(): JSX.Element | null {
  if (!areKeysShown.value) return null;
  const known = actions.value.filter((action) => action.keys);
  return (
    <Dialog title="Keys" onClose={() => (areKeysShown.value = false)}>
      <dl class="facts" style={{ maxHeight: "60vh", overflowY: "auto" }} tabIndex={0}>
        {known.map((action) => (
          <>
            <dt key={action.id}>
              <kbd>{action.keys}</kbd>
            </dt>
            <dd>{action.title}</dd>
          </>
        ))}
        {TERMINAL.map(([keys, title]) => (
          <>
            <dt key={keys}>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{title} (in a terminal)</dd>
          </>
        ))}
      </dl>
      <p class="dim">Keys without Ctrl can be turned off in the settings.</p>
    </Dialog>
  );
}
