import type { ComponentChildren, JSX } from "preact";
import { useRef } from "preact/hooks";

/** Tabs, each with an address: `href` is relative to the page's base. */
export function Tabs(props: {
  label: string;
  tabs: readonly { key: string; title: ComponentChildren; href: string }[];
  current: string;
  onChange: (key: string) => void;
}): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  function onKey(event: KeyboardEvent): void {
    const place = props.tabs.findIndex((tab) => tab.key === props.current);
    const moves: Record<string, number> = {
      ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: props.tabs.length - 1,
    };
    const to = moves[event.key];
    const tab = to === undefined ? undefined : props.tabs[(to + props.tabs.length) % props.tabs.length];
    if (!tab) return;
    event.preventDefault();
    props.onChange(tab.key);
    list.current?.querySelector<HTMLElement>(`[data-tab="${tab.key}"]`)?.focus();
  }
  return (
    <div class="tabs" role="tablist" aria-label={props.label} ref={list} onKeyDown={onKey}>
      {props.tabs.map(({ key, title, href }) => (
        <a
          key={key}
          role="tab"
          id={`tab-${key}`}
          data-tab={key}
          href={href}
          aria-selected={key === props.current}
          aria-controls={key === props.current ? "tab-panel" : undefined}
          tabIndex={key === props.current ? 0 : -1}
        >
          {title}
        </a>
      ))}
    </div>
  );
}

/** What the current tab shows. */
export function TabPanel(props: { current: string; children: ComponentChildren; class?: string }): JSX.Element {
  return (
    <div id="tab-panel" role="tabpanel" aria-labelledby={`tab-${props.current}`} class={props.class ?? "fill"}>
      {props.children}
    </div>
  );
}
