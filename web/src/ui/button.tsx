import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icon.tsx";

interface Props {
  children?: ComponentChildren;
  onClick?: (event: MouseEvent) => void;
  kind?: "primary" | "danger" | "plain";
  icon?: IconName;
  /** What it does, where only an icon is seen. */
  label?: string;
  keys?: string;
  busy?: boolean;
  /** Why it cannot be used now; it stays reachable and says so. */
  why?: string | undefined;
  pressed?: boolean;
  type?: "button" | "submit";
  expanded?: boolean;
  hasMenu?: boolean;
  autoFocus?: boolean;
  class?: string;
}

export function Button(props: Props): JSX.Element {
  const { children, onClick, kind, icon, label, keys, busy, why, pressed } = props;
  const isOff = Boolean(why) || Boolean(busy);
  return (
    <button
      type={props.type ?? "button"}
      class={`button ${props.class ?? ""}`}
      data-kind={kind}
      aria-label={label}
      aria-disabled={isOff || undefined}
      aria-busy={busy || undefined}
      aria-pressed={pressed}
      aria-expanded={props.expanded}
      aria-haspopup={props.hasMenu ? "menu" : undefined}
      autofocus={props.autoFocus}
      title={why ?? (label && keys ? `${label} (${keys})` : label)}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      {children}
      {keys && children && <kbd class="only-wide" aria-hidden="true">{keys}</kbd>}
    </button>
  );
}

/** One of several choices, all seen. */
export function Segments<T extends string>(props: {
  label: string;
  options: readonly { value: T; title: string }[];
  value: T;
  onChange: (value: T) => void;
}): JSX.Element {
  return (
    <span class="segments" role="group" aria-label={props.label}>
      {props.options.map(({ value, title }) => (
        <button
          key={value}
          type="button"
          class="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {title}
        </button>
      ))}
    </span>
  );
}
