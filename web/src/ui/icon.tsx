// Icons as SVG: a font may lack the signs. 16 units wide, drawn with the colour of the text.
import type { JSX } from "preact";

const STROKES = {
  overview: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
  services: "M2.5 4h11M2.5 8h11M2.5 12h11",
  logs: "M3.5 2.5h9v11h-9zM5.5 5.5h5M5.5 8h5M5.5 10.5h3",
  metrics: "M1.5 8.5h3l2-5 3 9 2-4h3",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8 10.5h3.5",
  sessions: "M8 1.5l1.7 4.8 4.8 1.7-4.8 1.7L8 14.5l-1.7-4.8L1.5 8l4.8-1.7z",
  agents: "M2 3h12v8H8l-3 3v-3H2z",
  workflows: "M13 5.5A5.5 5.5 0 1 0 13.5 8M13.5 2.5v3h-3",
  schedules: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.5V8l2.5 1.5",
  audit: "M8 1.5l5 2v4c0 3.5-2 5.5-5 7-3-1.5-5-3.5-5-7v-4zM5.5 8l2 2 3-3.5",
  access: "M10.5 2.5a3 3 0 1 1-2.2 5L3 12.8V14h2v-1.5h1.5V11H8l1.5-1.5",
  mcp: "M5.5 1.5v4M10.5 1.5v4M3.5 5.5h9V8a4.5 4.5 0 0 1-9 0zM8 12.5v2",
  connect: "M2 5.5h9M8.5 3L11 5.5 8.5 8M14 10.5H5M7.5 8L5 10.5 7.5 13",
  settings:
    "M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4" +
    "M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4",
  security: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5l3.5 3.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.5 3.5L13 5",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  right: "M6 3l5 5-5 5",
  expand: "M4 6l4 4 4-4",
  plus: "M8 3v10M3 8h10",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M2.5 13.5h11",
  play: "M5 3l8 5-8 5z",
  stop: "M4 4h8v8H4z",
  pause: "M5.5 3v10M10.5 3v10",
  restart: "M12.5 8A4.5 4.5 0 1 1 11 4.7M11.5 2v3h-3",
  keys: "M1.5 4h13v8h-13zM4 6.5h.01M6.5 6.5h.01M9 6.5h.01M11.5 6.5h.01M5 9.5h6",
  user: "M8 8a2.75 2.75 0 1 0 0-5.5A2.75 2.75 0 0 0 8 8zM2.5 14c.5-3 2.5-4.5 5.5-4.5s5 1.5 5.5 4.5",
  warn: "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.5h.01",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.5v3.5M8 5h.01",
  mark: "M4.5 2.5h7v11L8 10.5l-3.5 3z",
  wrap: "M2 4h12M2 8h9.5a2 2 0 0 1 0 4H8M10 10l-2 2 2 2M2 12h3",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.5V8h3",
  external: "M9.5 2.5h4v4M13.5 2.5L7.5 8.5M12 9.5v4H2.5V4h4",
  graph: "M2 3.5h4v3H2zM10 2h4v3h-4zM10 11h4v3h-4zM6 5h2M8 3.5v9M8 3.5h2M8 12.5h2",
} as const;

export type IconName = keyof typeof STROKES;

export function Icon({ name, title }: { name: IconName; title?: string }): JSX.Element {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      {...(title ? { role: "img", "aria-label": title } : { "aria-hidden": true })}
    >
      <path d={STROKES[name]} />
    </svg>
  );
}

export type Tone = "ok" | "warn" | "bad" | "info" | "idle";

interface StateLook {
  tone: Tone;
  shape: JSX.Element;
}

const disc = <circle cx="8" cy="8" r="4.5" fill="currentColor" />;
const half = (
  <>
    <circle cx="8" cy="8" r="4.5" fill="none" stroke="currentColor" stroke-width="1.5" />
    <path d="M8 3.5a4.5 4.5 0 0 0 0 9z" fill="currentColor" />
  </>
);
const ring = <circle cx="8" cy="8" r="4" fill="none" stroke="currentColor" stroke-width="1.6" />;
const peak = <path d="M8 3l5.5 10h-11z" fill="currentColor" />;
const cross = <path d="M4 4l8 8M12 4l-8 8" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />;
const bars = <path d="M5.5 3.5v9M10.5 3.5v9" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />;
const turn = (
  <path
    d="M12.5 8A4.5 4.5 0 1 1 11 4.7M11.5 2v3h-3"
    fill="none"
    stroke="currentColor"
    stroke-width="1.7"
    stroke-linecap="round"
  />
);
const tick = <path d="M3 8.5l3.5 3.5L13 5" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" />;

const LOOKS: Record<string, StateLook> = {
  running: { tone: "ok", shape: disc },
  starting: { tone: "info", shape: half },
  stopping: { tone: "info", shape: half },
  pending: { tone: "idle", shape: ring },
  waiting: { tone: "info", shape: ring },
  restarting: { tone: "info", shape: turn },
  backoff: { tone: "bad", shape: peak },
  failed: { tone: "bad", shape: cross },
  stopped: { tone: "idle", shape: ring },
  exited: { tone: "idle", shape: tick },
  paused: { tone: "warn", shape: bars },
  done: { tone: "ok", shape: tick },
  timeout: { tone: "bad", shape: cross },
};
const OTHER: StateLook = { tone: "idle", shape: ring };

export function toneOf(state: string): Tone {
  return (LOOKS[state] ?? OTHER).tone;
}

/** Only the shape, where the word is told otherwise. */
export function StateShape({ state }: { state: string }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      {(LOOKS[state] ?? OTHER).shape}
    </svg>
  );
}

/** A service's state: shape, word and colour. */
export function State({ state, word }: { state: string; word?: string }): JSX.Element {
  const { tone, shape } = LOOKS[state] ?? OTHER;
  return (
    <span class={`is-${tone}`} data-state={state}>
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
        {shape}
      </svg>{" "}
      {word ?? state}
    </span>
  );
}
