// Where the nodes of a dependency graph stand: in layers from left to right, few edges crossing.
// Touches no document.

export interface Graph {
  /** For each node the nodes that it needs. Needs of unknown nodes are left out. */
  needs: ReadonlyMap<string, readonly string[]>;
}

export interface Place {
  layer: number;
  row: number;
}

export interface Layout {
  places: Map<string, Place>;
  layers: number;
  rows: number;
  /** From what is needed to what needs it. */
  edges: [string, string][];
}

const SWEEPS = 4;

/** Nodes that need nobody and that nobody needs have no place. */
export function layout({ needs }: Graph): Layout {
  const edges: [string, string][] = [];
  const users = new Map<string, string[]>();
  for (const [name, needed] of needs)
    for (const provider of new Set(needed)) {
      if (!needs.has(provider) || provider === name) continue;
      edges.push([provider, name]);
      users.set(provider, [...(users.get(provider) ?? []), name]);
    }
  const providers = new Map<string, string[]>();
  for (const [provider, user] of edges) providers.set(user, [...(providers.get(user) ?? []), provider]);
  const layerOf = depths(needs, providers, users);
  const columns: string[][] = [];
  for (const name of needs.keys()) {
    if (!providers.has(name) && !users.has(name)) continue;
    const layer = layerOf.get(name) ?? 0;
    (columns[layer] ??= []).push(name);
  }
  for (let at = 0; at < columns.length; at++) columns[at] ??= [];
  order(columns, providers, users);
  const places = new Map<string, Place>();
  const rows = Math.max(0, ...columns.map((column) => column.length));
  columns.forEach((column, layer) => {
    // A short column stands in the middle of the longest.
    const offset = (rows - column.length) / 2;
    column.forEach((name, row) => places.set(name, { layer, row: row + offset }));
  });
  return { places, layers: columns.length, rows, edges };
}

function depths(
  needs: Graph["needs"],
  providers: Map<string, string[]>,
  users: Map<string, string[]>,
): Map<string, number> {
  const layer = new Map<string, number>();
  const missing = new Map<string, number>();
  const ready: string[] = [];
  for (const name of needs.keys()) {
    const count = providers.get(name)?.length ?? 0;
    missing.set(name, count);
    layer.set(name, 0);
    if (count === 0) ready.push(name);
  }
  for (const name of ready)
    for (const user of users.get(name) ?? []) {
      layer.set(user, Math.max(layer.get(user) ?? 0, (layer.get(name) ?? 0) + 1));
      const left = (missing.get(user) ?? 0) - 1;
      missing.set(user, left);
      if (left === 0) ready.push(user);
    }
  return layer;
}

/** Each node moves to the middle of its neighbours, a few times from both sides. */
function order(columns: string[][], providers: Map<string, string[]>, users: Map<string, string[]>): void {
  const row = new Map<string, number>();
  const note = (column: string[]) => column.forEach((name, place) => row.set(name, place / column.length));
  columns.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isForward = sweep % 2 === 0;
    const neighbours = isForward ? providers : users;
    for (const column of isForward ? columns : [...columns].reverse()) {
      const middle = new Map<string, number>();
      for (const name of column) {
        const near = neighbours.get(name) ?? [];
        const sum = near.reduce((total, one) => total + (row.get(one) ?? 0), 0);
        middle.set(name, near.length ? sum / near.length : (row.get(name) ?? 0));
      }
      column.sort((a, b) => middle.get(a)! - middle.get(b)!);
      note(column);
    }
  }
}

/** Everything that is reached from a node along the edges. */
export function reached(from: string, next: (name: string) => readonly string[]): Set<string> {
  const found = new Set<string>();
  const waiting = [from];
  for (const name of waiting)
    for (const other of next(name))
      if (!found.has(other)) {
        found.add(other);
        waiting.push(other);
      }
  return found;
}
