// The command palette: everything that can be done, everywhere one can go, what can be copied.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type Action, actions } from "../state/actions.ts";
import { services } from "../state/services.ts";
import { address, navigate } from "../routes.ts";
import { Icon } from "./icon.tsx";

const MOST = 60;
const HEADINGS = { do: "Actions", go: "Go to", copy: "Copy" };
export const isPaletteOpen = signal(false);

/** Where the palette appears; once in the page. */
export function Palette(): JSX.Element | null {
  return isPaletteOpen.value ? <OpenPalette /> : null;
}

/** All words of what was typed, in any order; the earlier they stand the better. */
function score(title: string, words: readonly string[]): number {
  const text = title.toLowerCase();
  let total = 0;
  for (const word of words) {
    const place = text.indexOf(word);
    if (place < 0) return -1;
    total += place === 0 || /[\s:/-]/.test(text[place - 1] as string) ? 0 : 10 + place;
  }
  return total;
}

function found(typed: string): Action[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const places = [...services.value.keys()].map(
    (name): Action => ({
      id: `service:${name}`,
      title: name,
      group: "go",
      icon: "services",
      hint: "service",
      run: () => navigate(address(["services", name])),
    }),
  );
  const all = [...actions.value, ...(words.length ? places : places.slice(0, 5))];
  const order = ["do", "go", "copy"];
  return all
    .map((action) => ({ action, score: score(action.title, words) }))
    .filter((one) => one.score >= 0)
    .sort(
      (a, b) =>
        order.indexOf(a.action.group) - order.indexOf(b.action.group) || a.score - b.score,
    )
    .slice(0, MOST)
    .map((one) => one.action);
}

function OpenPalette(): JSX.Element {
  const [typed, setTyped] = useState("");
  const [place, setPlace] = useState(0);
  const box = useRef<HTMLDialogElement>(null);
  const list = useId();
  const shown = found(typed);
  useEffect(() => {
    box.current?.showModal();
  }, []);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [place, typed]);
  function close(): void {
    isPaletteOpen.value = false;
  }
  function run(action: Action | undefined): void {
    if (!action) return;
    close();
    action.run();
  }
  function onKey(event: KeyboardEvent): void {
    if (event.key === "ArrowDown") setPlace((place + 1) % Math.max(1, shown.length));
    else if (event.key === "ArrowUp") setPlace((place + shown.length - 1) % Math.max(1, shown.length));
    else if (event.key === "Enter") run(shown[place]);
    else return;
    event.preventDefault();
  }
  return (
    <dialog
      class="palette"
      ref={box}
      aria-label="Command palette"
      onClose={close}
      onClick={(event) => event.target === box.current && close()}
    >
      <input
        class="input"
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={shown[place] && `${list}-${place}`}
        aria-label="Search services and actions"
        placeholder="Search services and actions"
        autocomplete="off"
        spellcheck={false}
        autofocus
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setPlace(0);
        }}
        onKeyDown={onKey}
      />
      <ul id={list} role="listbox" aria-label="Results">
        {shown.map((action, at) => (
          <>
            {shown[at - 1]?.group !== action.group && (
              <li key={`h-${action.group}`} class="heading" role="presentation">
                {HEADINGS[action.group]}
              </li>
            )}
            <li
              key={action.id}
              id={`${list}-${at}`}
              role="option"
              aria-selected={at === place}
              onClick={() => run(action)}
              onPointerMove={() => setPlace(at)}
            >
              {action.icon && <Icon name={action.icon} />}
              <span class="grow ellipsis">{action.title}</span>
              {action.hint && <span class="dim">{action.hint}</span>}
              {action.keys && <kbd>{action.keys}</kbd>}
            </li>
          </>
        ))}
        {shown.length === 0 && (
          <li class="heading" role="presentation">
            Nothing is called so.
          </li>
        )}
      </ul>
    </dialog>
  );
}
