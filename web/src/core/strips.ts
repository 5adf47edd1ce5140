// From events to strips: which state a service had when. Touches no document.

export interface Change {
  time: number;
  kind: string;
  service?: string | null;
  data: Record<string, any>;
}

export interface Piece {
  state: string;
  from: number;
  to: number;
}

/** The states of each service in a range of unix seconds, by its transitions. Before the first one it
    was in the state from which that came; what nothing is known of is in no piece. */
export function strips(
  events: readonly Change[],
  from: number,
  to: number,
  now: ReadonlyMap<string, { status: string; since: number }>,
): Map<string, Piece[]> {
  const found = new Map<string, Piece[]>();
  for (const event of events) {
    const name = event.service;
    if (event.kind !== "transition" || !name || event.time > to) continue;
    let pieces = found.get(name);
    if (!pieces) {
      pieces = [{ state: String(event.data.from), from, to: from }];
      found.set(name, pieces);
    }
    const last = pieces.at(-1)!;
    if (event.time <= from) {
      last.state = String(event.data.to);
      continue;
    }
    last.to = event.time;
    pieces.push({ state: String(event.data.to), from: event.time, to: event.time });
  }
  for (const [name, pieces] of found) {
    pieces.at(-1)!.to = to;
    const merged = merge(pieces.filter((piece) => piece.to > piece.from && !UNBORN.has(piece.state)));
    if (merged.length) found.set(name, merged);
    else found.delete(name);
  }
  for (const [name, { status, since }] of now)
    if (!found.has(name)) found.set(name, [{ state: status, from: Math.max(from, Math.min(since, to)), to }]);
  return found;
}

/** Before its first start a service has no state that is worth a piece. */
const UNBORN = new Set(["pending", "unknown"]);
/** States on the way to another one. */
const PASSING = new Set(["starting", "stopping"]);

function merge(pieces: Piece[]): Piece[] {
  const merged: Piece[] = [];
  for (const piece of pieces) {
    const last = merged.at(-1);
    if (last && last.state === piece.state) last.to = piece.to;
    else merged.push({ ...piece });
  }
  return merged;
}

/** Whether the strip says more than «as always». */
export function isEventful(pieces: readonly Piece[]): boolean {
  return new Set(pieces.map((piece) => piece.state).filter((state) => !PASSING.has(state))).size > 1;
}
