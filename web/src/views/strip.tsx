// The states of a service over time, as a strip.
import type { JSX } from "preact";
import type { Piece } from "../core/strips.ts";
import { duration, stamp } from "../core/time.ts";
import { toneOf } from "../ui/icon.tsx";

const MOST_PIECES = 160;

export function Strip(props: {
  name: string;
  pieces: readonly Piece[];
  from: number;
  to: number;
}): JSX.Element {
  const { pieces, from, to } = props;
  const whole = to - from;
  const drawn = pieces.slice(-MOST_PIECES);
  const words = inWords(pieces);
  return (
    <svg
      class="strip"
      viewBox="0 0 1000 10"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${props.name}: ${words}`}
    >
      {drawn.map((piece) => (
        <rect
          key={piece.from}
          class={`tone-${toneOf(piece.state)}`}
          x={((piece.from - from) / whole) * 1000}
          width={Math.max(1.5, ((piece.to - piece.from) / whole) * 1000)}
          y="0"
          height="10"
        >
          <title>{`${piece.state} for ${duration(piece.to - piece.from)}, from ${stamp(piece.from)}`}</title>
        </rect>
      ))}
    </svg>
  );
}

/** How long it was in which state, the longest first. */
function inWords(pieces: readonly Piece[]): string {
  const sums = new Map<string, number>();
  for (const piece of pieces) sums.set(piece.state, (sums.get(piece.state) ?? 0) + piece.to - piece.from);
  return [...sums]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 4)
    .map(([state, seconds]) => `${state} ${duration(seconds)}`)
    .join(", ");
}

/** Five times below strips. */
export function TimeAxis({ from, to }: { from: number; to: number }): JSX.Element {
  const isLong = to - from > 86_400;
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => from + part * (to - from));
  return (
    <div class="time-axis" aria-hidden="true">
      {marks.map((time, place) => (
        <span key={place}>
          {place === 4 ? "now" : isLong ? stamp(time).slice(5, 10) : stamp(time).slice(11, 16)}
        </span>
      ))}
    </div>
  );
}
