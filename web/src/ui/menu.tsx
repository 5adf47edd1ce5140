// Menus: of a button, of a row (right click or the Menu key). They end with «Copy as».
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon.tsx";

export type MenuItem =
  | {
      title: string;
      run: () => void;
      icon?: IconName;
      keys?: string;
      kind?: "danger";
      why?: string | undefined;
      checked?: boolean;
    }
  | { heading: string }
  | "line";

interface Opened {
  label: string;
  items: MenuItem[];
  x: number;
  y: number;
  opener: HTMLElement | null;
}

const opened = signal<Opened | null>(null);

/** Open a menu below an element, or at the place of a right click. */
export function openMenu(at: HTMLElement | MouseEvent, label: string, items: MenuItem[]): void {
  const opener = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  if (at instanceof HTMLElement) {
    const box = at.getBoundingClientRect();
    opened.value = { label, items, x: box.left, y: box.bottom + 4, opener: at };
  } else {
    at.preventDefault();
    opened.value = { label, items, x: at.clientX, y: at.clientY, opener };
  }
}

export function closeMenu(): void {
  const opener = opened.peek()?.opener;
  opened.value = null;
  if (opener?.isConnected) opener.focus();
}

/** Where menus appear; once in the page. */
export function Menus(): JSX.Element | null {
  return opened.value && <Menu key={opened.value.label} {...opened.value} />;
}

function Menu({ label, items, x, y }: Opened): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const entries = () => [...(box.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
  useLayoutEffect(() => {
    const menu = box.current;
    if (!menu) return;
    const { width, height } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(8, Math.min(x, innerWidth - width - 8))}px`;
    menu.style.top = `${Math.max(8, Math.min(y, innerHeight - height - 8))}px`;
    entries()[0]?.focus();
  }, [x, y]);
  useEffect(() => {
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) opened.value = null;
    };
    addEventListener("pointerdown", outside, true);
    addEventListener("resize", closeMenu);
    return () => {
      removeEventListener("pointerdown", outside, true);
      removeEventListener("resize", closeMenu);
    };
  }, []);

  function onKey(event: KeyboardEvent): void {
    const all = entries();
    const place = all.indexOf(document.activeElement as HTMLElement);
    const moves: Record<string, number> = {
      ArrowDown: place + 1,
      ArrowUp: place - 1,
      Home: 0,
      End: all.length - 1,
    };
    const to = moves[event.key];
    if (to !== undefined) all[(to + all.length) % all.length]?.focus();
    else if (event.key === "Escape" || event.key === "Tab") closeMenu();
    else if (event.key.length === 1 && /\S/.test(event.key))
      [...all.slice(place + 1), ...all]
        .find((one) => one.textContent?.toLowerCase().startsWith(event.key.toLowerCase()))
        ?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <div class="menu" role="menu" aria-label={label} ref={box} onKeyDown={onKey}>
      {items.map((item, place) => {
        if (item === "line") return <hr key={place} />;
        if ("heading" in item)
          return (
            <div key={place} class="heading" role="presentation">
              {item.heading}
            </div>
          );
        return (
          <button
            key={place}
            type="button"
            tabIndex={-1}
            role={item.checked === undefined ? "menuitem" : "menuitemcheckbox"}
            aria-checked={item.checked}
            aria-disabled={item.why ? true : undefined}
            data-kind={item.kind}
            title={item.why}
            onClick={() => {
              if (item.why) return;
              closeMenu();
              item.run();
            }}
          >
            {item.checked === undefined ? (
              item.icon && <Icon name={item.icon} />
            ) : (
              <span class="icon">{item.checked && <Icon name="check" />}</span>
            )}
            <span class="grow">{item.title}</span>
            {item.keys && <kbd>{item.keys}</kbd>}
          </button>
        );
      })}
    </div>
  );
}
