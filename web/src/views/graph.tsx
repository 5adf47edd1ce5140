// Which service needs which, from left to right. What is ill and what waits for it stays bright.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Layout, layout, reached } from "../core/layout.ts";
import { count } from "../core/time.ts";
import { address, navigate } from "../routes.ts";
import { graph, isGraphLoaded } from "../state/graph.ts";
import { services } from "../state/services.ts";
import { menuOf, wordOf } from "../state/verbs.ts";
import { Button } from "../ui/button.tsx";
import { State, StateShape, toneOf } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";

const WIDTH = 172;
const HEIGHT = 34;
const COLUMN = 232;
const ROW = 46;
const MARGIN = 20;
/** With more nodes, instances of one service are one node. */
const MANY = 120;

interface Node {
  name: string;
  members: string[];
}

export function GraphView(props: {
  shown: readonly string[];
  isFiltered: boolean;
  focus?: string;
}): JSX.Element {
  const known = graph.value;
  const all = services.value;
  const [current, setCurrent] = useState(props.focus ?? "");
  const [isUnfolded, setUnfolded] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const inside = useMemo(() => new Set(props.shown), [props.shown.join()]);
  const nodes = useMemo(() => nodesOf(known, inside, isUnfolded), [known, inside, isUnfolded]);
  const owner = useMemo(() => {
    const found = new Map<string, string>();
    for (const node of nodes.values()) for (const member of node.members) found.set(member, node.name);
    return found;
  }, [nodes]);
  const needs = useMemo(() => {
    const found = new Map<string, string[]>();
    for (const node of nodes.values())
      found.set(node.name, [
        ...new Set(
          node.members.flatMap((member) =>
            (known[member]?.needs ?? []).flatMap((need) => owner.get(need.service) ?? []),
          ),
        ),
      ]);
    return found;
  }, [nodes, owner, known]);
  const shape = [...needs].map(([name, needed]) => `${name}<${needed.join()}`).join(" ");
  const placed = useMemo(() => layout({ needs }), [shape]);
  const users = useMemo(() => {
    const found = new Map<string, string[]>();
    for (const [provider, user] of placed.edges) found.set(provider, [...(found.get(provider) ?? []), user]);
    return found;
  }, [placed]);

  const unmet = new Set<string>();
  for (const node of nodes.values())
    for (const member of node.members)
      for (const need of known[member]?.needs ?? [])
        if (!need.is_met) unmet.add(`${owner.get(need.service)}>${node.name}`);
  const wordOfNode = (node: Node): string =>
    worst(node.members.map((name) => (all.get(name) ? wordOf(name, all.get(name)!) : "unknown")));
  const ill = [...nodes.values()]
    .filter((node) => toneOf(wordOfNode(node)) === "bad")
    .map((node) => node.name);
  const bright = new Set(ill.flatMap((name) => [name, ...reached(name, (one) => users.get(one) ?? [])]));
  const lit = current && placed.places.has(current) ? path(current, needs, users) : null;
  const alone = [...nodes.values()].filter((node) => !placed.places.has(node.name));
  const names = [...placed.places.keys()].sort((a, b) => {
    const one = placed.places.get(a)!;
    const other = placed.places.get(b)!;
    return one.layer - other.layer || one.row - other.row;
  });
  const active = placed.places.has(current) ? current : names[0];

  useEffect(() => {
    if (!props.focus) return;
    box.current
      ?.querySelector(`[data-node="${CSS.escape(props.focus)}"]`)
      ?.scrollIntoView({ block: "center", inline: "center" });
  }, [props.focus, isGraphLoaded.value]);

  if (isGraphLoaded.value && placed.places.size === 0)
    return (
      <div class="empty panel fill">
        <p>
          {props.isFiltered
            ? "None of the services that match needs another one that matches."
            : "No service needs another one."}
        </p>
        <p>`depends_on:` in the configuration says what a service needs first.</p>
      </div>
    );

  function onKey(event: KeyboardEvent): void {
    const name = (event.target as HTMLElement).dataset.node;
    const place = name && placed.places.get(name);
    if (!name || !place) return;
    const column = (layer: number) => names.filter((one) => placed.places.get(one)!.layer === layer);
    const here = column(place.layer);
    const at = here.indexOf(name);
    const near = (layer: number) =>
      column(layer).sort(
        (a, b) =>
          Math.abs(placed.places.get(a)!.row - place.row) - Math.abs(placed.places.get(b)!.row - place.row),
      )[0];
    const moves: Record<string, string | undefined> = {
      ArrowDown: here[at + 1],
      ArrowUp: here[at - 1],
      ArrowRight: near(place.layer + 1),
      ArrowLeft: near(place.layer - 1),
    };
    if (event.key in moves) {
      const to = moves[event.key];
      if (to) {
        setCurrent(to);
        box.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(to)}"]`)?.focus();
      }
    } else if (event.key === "Enter") open(nodes.get(name)!);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
      openMenu(event.target as HTMLElement, name, menuOf(nodes.get(name)!.members));
    else return;
    event.preventDefault();
  }

  const facts = current ? nodes.get(current) : undefined;
  return (
    <div class="panel fill" data-state={isGraphLoaded.value ? "shown" : "loading"}>
      <div class="graph fill" ref={box} onKeyDown={onKey} role="group" aria-label="Dependency graph">
        <div
          class="graph-canvas"
          style={{
            width: `${MARGIN * 2 + (placed.layers - 1) * COLUMN + WIDTH}px`,
            height: `${MARGIN * 2 + Math.max(0, placed.rows - 1) * ROW + HEIGHT}px`,
          }}
        >
          <Edges placed={placed} unmet={unmet} lit={lit} />
          {names.map((name) => {
            const node = nodes.get(name)!;
            const { layer, row } = placed.places.get(name)!;
            const word = wordOfNode(node);
            const isDim = ill.length > 0 ? !bright.has(name) : false;
            const needed = needs.get(name) ?? [];
            const size = node.members.length > 1 ? `, ${node.members.length} instances` : "";
            const label = `${name}: ${word}${size}; needs ${needed.join(", ") || "nobody"}`;
            return (
              <button
                key={name}
                type="button"
                class="node"
                data-node={name}
                data-tone={toneOf(word)}
                data-dim={isDim && !lit?.has(name) ? "" : undefined}
                data-lit={lit?.has(name) ? "" : undefined}
                aria-pressed={name === current}
                aria-label={label}
                title={label}
                tabIndex={name === active ? 0 : -1}
                style={{ left: `${MARGIN + layer * COLUMN}px`, top: `${MARGIN + row * ROW}px` }}
                onClick={() => setCurrent(name === current ? "" : name)}
                onDblClick={() => open(node)}
                onContextMenu={(event) => openMenu(event, name, menuOf(node.members))}
              >
                <span class={`is-${toneOf(word)}`}>
                  <StateShape state={word} />
                </span>
                <span class="ellipsis grow">{name}</span>
                {node.members.length > 1 && <span class="badge">{node.members.length}</span>}
              </button>
            );
          })}
        </div>
      </div>
      <div class="panel-foot plain-foot">
        {facts ? (
          <>
            <State state={wordOfNode(facts)} />
            <b>{facts.name}</b>
            <span>{why(facts.name, needs, users)}</span>
            <span class="grow" />
            <Button onClick={() => open(facts)}>Open</Button>
            <Button
              icon="more"
              label={`More for ${facts.name}`}
              hasMenu
              onClick={(event) =>
                openMenu(event.currentTarget as HTMLElement, facts.name, menuOf(facts.members))
              }
            />
          </>
        ) : (
          <>
            <span>
              From what is needed to what needs it. Choose a service to see why it runs; Enter opens it.
              {alone.length > 0 && ` ${count(alone.length)} more need nobody, and nobody needs them.`}
            </span>
            <span class="grow" />
            {known && Object.values(known).some((one) => one.template) && (
              <Button pressed={isUnfolded} onClick={() => setUnfolded(!isUnfolded)}>
                Show every instance
              </Button>
            )}
          </>
        )}
      </div>
    </div>
  );
}

function open(node: Node): void {
  navigate(address(["services", node.members.length > 1 ? node.members[0]! : node.name]));
}

/** One node for each service; instances share one if there are many. */
function nodesOf(
  known: typeof graph.value,
  inside: ReadonlySet<string>,
  isUnfolded: boolean,
): Map<string, Node> {
  const found = new Map<string, Node>();
  const isMany = Object.keys(known).length > MANY;
  for (const [name, node] of Object.entries(known)) {
    if (!inside.has(name)) continue;
    const shared = node.template && !isUnfolded && (isMany || node.template) ? node.template : name;
    const before = found.get(shared);
    if (before) before.members.push(name);
    else found.set(shared, { name: shared, members: [name] });
  }
  return found;
}

const BADNESS: Record<string, number> = { bad: 4, warn: 3, info: 2, idle: 1, ok: 0 };

function worst(words: string[]): string {
  return words.reduce(
    (a, b) => ((BADNESS[toneOf(b)] ?? 0) > (BADNESS[toneOf(a)] ?? 0) ? b : a),
    words[0] ?? "unknown",
  );
}

function path(name: string, needs: Map<string, string[]>, users: Map<string, string[]>): Set<string> {
  return new Set([
    name,
    ...reached(name, (one) => needs.get(one) ?? []),
    ...reached(name, (one) => users.get(one) ?? []),
  ]);
}

/** Why it runs: who needs it, and what it needs itself. */
function why(name: string, needs: Map<string, string[]>, users: Map<string, string[]>): string {
  const using = users.get(name) ?? [];
  const needed = needs.get(name) ?? [];
  const who = using.length
    ? `${listed(using)} need${using.length === 1 ? "s" : ""} it`
    : "nobody needs it: it is wanted itself";
  return `${who}; ${needed.length ? `it needs ${listed(needed)}` : "it needs nobody"}.`;
}

function listed(names: readonly string[]): string {
  const more = names.length > 4 ? ` and ${names.length - 4} more` : "";
  return names.slice(0, 4).join(", ") + more;
}

function Edges(props: {
  placed: Layout;
  unmet: ReadonlySet<string>;
  lit: ReadonlySet<string> | null;
}): JSX.Element {
  const { placed, unmet, lit } = props;
  return (
    <svg class="edges" width="100%" height="100%" aria-hidden="true">
      {placed.edges.map(([provider, user]) => {
        const from = placed.places.get(provider)!;
        const to = placed.places.get(user)!;
        const x1 = MARGIN + from.layer * COLUMN + WIDTH;
        const y1 = MARGIN + from.row * ROW + HEIGHT / 2;
        const x2 = MARGIN + to.layer * COLUMN;
        const y2 = MARGIN + to.row * ROW + HEIGHT / 2;
        const bend = Math.max(24, (x2 - x1) / 2);
        const key = `${provider}>${user}`;
        return (
          <path
            key={key}
            d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
            data-unmet={unmet.has(key) ? "" : undefined}
            data-lit={lit?.has(provider) && lit.has(user) ? "" : undefined}
          />
        );
      })}
    </svg>
  );
}
