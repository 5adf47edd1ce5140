import type { ComponentChildren, JSX } from "preact";
import { Icon, type IconName } from "./icon.tsx";

/** One banner: what, in words; how far; what can be done. */
export function Banner(props: {
  severity: "info" | "ok" | "warn" | "bad";
  title: ComponentChildren;
  detail?: ComponentChildren;
  icon?: IconName;
  progress?: { value: number; of: number; label: string } | undefined;
  children?: ComponentChildren;
}): JSX.Element {
  const { severity, progress } = props;
  return (
    <div class="banner" data-severity={severity} role={severity === "bad" ? "alert" : "status"}>
      <span class={`is-${severity}`}>
        <Icon name={props.icon ?? (severity === "info" || severity === "ok" ? "info" : "warn")} />
      </span>
      <b>{props.title}</b>
      {props.detail && <span class="dim">{props.detail}</span>}
      {progress && (
        <progress value={progress.value} max={progress.of} aria-label={progress.label} />
      )}
      <span class="grow" />
      {props.children}
    </div>
  );
}
