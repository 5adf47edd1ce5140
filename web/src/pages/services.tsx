// What exists, and how is it? A table, tiles or the graph, with one filter and one menu.
import { type Signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ServiceStatus } from "../api.gen.ts";
import { type Facts, WORDS, parse } from "../core/query.ts";
import { ago, count, duration, size, stamp } from "../core/time.ts";
import { type PageProps, address, navigate, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { act, isLive, may } from "../state/connection.ts";
import { followGraph, graph } from "../state/graph.ts";
import { firstView } from "../state/prefs.ts";
import { isLoaded, services, toldAt, watchUsage } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { failures, menuOf, openTerminal, perform, requests, whyNot, wordOf } from "../state/verbs.ts";
import { Button, Segments } from "../ui/button.tsx";
import { State, toneOf } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { type Column, VirtualTable } from "../ui/table.tsx";
import { GraphView } from "../views/graph.tsx";
import { Spark } from "../views/spark.tsx";
import { Tiles } from "../views/tiles.tsx";

type View = "table" | "tiles" | "graph";
type Group = "none" | "group" | "tag" | "state";
type Row = { name: string; status: ServiceStatus } | { heading: string; size: number };
type SortKey = "name" | "state" | "cpu" | "memory" | "restarts" | "up";

const GROUPS: { value: Group; title: string }[] = [
  { value: "none", title: "no group" },
  { value: "group", title: "group" },
  { value: "tag", title: "tag" },
  { value: "state", title: "state" },
];
const folded = new Set<string>();

export default function Services({ query }: PageProps): JSX.Element {
  useEffect(() => watchUsage(), []);
  useEffect(() => followGraph(), []);
  const selection: Selection = useSignal<ReadonlySet<string>>(new Set());
  const view = (query.get("view") ?? firstView.value) as View;
  const text = query.get("q") ?? "";
  const field = useRef<HTMLInputElement>(null);
  const all = services.value;
  const needs = graph.value;
  const shown = useMemo(() => {
    const fits = parse(text);
    return [...all].filter(([name, status]) => fits(factsOf(name, status, needs[name])));
  }, [all, text, needs]);
  const chosen = chosenOf(selection.value);
  const hasEdges = Object.values(needs).some((one) => (one.needs?.length ?? 0) > 0);

  useEffect(
    () =>
      offer([
        { id: "filter", group: "do", title: "Filter services", keys: "/", run: () => field.current?.focus() },
        { id: "reload", group: "do", title: "Reload the configuration", run: () => void reload() },
        ...(["table", "tiles", "graph"] as const).map((one) => ({
          id: `view-${one}`,
          group: "go" as const,
          title: `Services as ${one}`,
          run: () => setQuery({ view: one }),
        })),
      ]),
    [],
  );

  const empty = (
    <div class="empty">
      {all.size === 0 ? (
        <>
          <h2>No services yet</h2>
          <p>Declare one in holdfast.yaml and run `holdfast up`, or just run a command:</p>
          <pre class="card">holdfast run --name web -- python3 -m http.server</pre>
        </>
      ) : (
        <>
          <p>0 of {count(all.size)} match.</p>
          <Button onClick={() => setQuery({ q: null })}>Clear filter</Button>
        </>
      )}
    </div>
  );

  return (
    <div
      class="service-page"
      data-page="services"
      data-view={view}
      data-state={isLoaded.value ? "shown" : "loading"}
    >
      <div class="page-head">
        <h1>Services</h1>
        <input
          ref={field}
          class="input filter"
          type="search"
          aria-label="Filter"
          placeholder="Filter, for example state:backoff tag:shop cpu>50"
          title={`Words: ${WORDS.join(" ")}; a minus in front turns one round`}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
          onKeyDown={(event) => event.key === "Escape" && (setQuery({ q: null }), event.currentTarget.blur())}
        />
        <Segments<View>
          label="View"
          options={[
            { value: "table", title: "Table" },
            { value: "tiles", title: "Tiles" },
            ...(hasEdges || view === "graph" ? [{ value: "graph" as const, title: "Graph" }] : []),
          ]}
          value={view}
          onChange={(value) => setQuery({ view: value === firstView.value ? null : value })}
        />
        {view === "table" && <GroupBy query={query} />}
        {text && (
          <span class="dim" role="status">
            {count(shown.length)} of {count(all.size)}
          </span>
        )}
        {!isLive.value && toldAt.value > 0 && (
          <span class="chip is-warn">as of {stamp(toldAt.value / 1000).slice(11)}</span>
        )}
        <span class="grow" />
        {may("operate") && (
          <Button class="only-wide" why={whyNot()} onClick={() => void reload()}>
            Reload config
          </Button>
        )}
      </div>
      {chosen.length > 0 && <Bulk names={chosen} selection={selection} />}
      {view === "table" && <ServiceTable shown={shown} query={query} selection={selection} empty={empty} />}
      {view === "tiles" && (
        <div class="panel fill">
          <div class="panel-body" style={{ overflow: "auto" }}>
            {shown.length ? <Tiles services={shown} label="Services" /> : empty}
          </div>
        </div>
      )}
      {view === "graph" && <GraphView shown={shown.map(([name]) => name)} isFiltered={text !== ""} />}
    </div>
  );
}

/** What is selected. A key acts on what it is at that moment, not on what was drawn last. */
type Selection = Signal<ReadonlySet<string>>;

function select(selection: Selection, names: readonly string[], is: boolean): void {
  const next = new Set(selection.peek());
  for (const name of names) {
    if (is) next.add(name);
    else next.delete(name);
  }
  selection.value = next;
}

function chosenOf(selected: ReadonlySet<string>): string[] {
  return [...selected].filter((name) => services.peek().has(name));
}

/** Stop what runs; if nothing does, start. */
function startOrStop(names: readonly string[]): void {
  const isUp = names.some((name) => {
    const status = services.peek().get(name);
    return status?.status === "backoff" || (status?.desired !== "stopped" && status?.pid !== null);
  });
  void perform(isUp ? "stop" : "start", names);
}

async function reload(): Promise<void> {
  try {
    const answer = await act("reload", {});
    const changed = Object.values(answer.plan).filter((step) => step.action !== "unchanged").length;
    toast(
      "ok",
      changed
        ? `The configuration was reloaded: ${changed} changed`
        : "The configuration was reloaded: nothing changed",
    );
  } catch (error) {
    fail(error);
  }
}

function factsOf(name: string, status: ServiceStatus, node: (typeof graph.value)[string] | undefined): Facts {
  return {
    name,
    state: wordOf(name, status),
    health: status.health ?? (status.ready === false ? "unready" : status.ready ? "ready" : ""),
    tags: node?.tags ?? [],
    groups: node?.groups ?? [],
    template: node?.template ?? "",
    cpu: status.cpu_percent ?? null,
    memory: status.memory_mb ?? null,
    restarts: status.restart_count,
    uptime: status.uptime,
    origin: status.origin ?? "config",
  };
}

function GroupBy({ query }: { query: URLSearchParams }): JSX.Element {
  return (
    <label class="dim only-wide">
      Group by{" "}
      <select
        class="input"
        value={query.get("group") ?? "none"}
        onChange={(event) =>
          setQuery({ group: event.currentTarget.value === "none" ? null : event.currentTarget.value })
        }
      >
        {GROUPS.map(({ value, title }) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

function Bulk({ names, selection }: { names: string[]; selection: Selection }): JSX.Element {
  const onClear = () => (selection.value = new Set());
  useEffect(() => {
    const now = () => chosenOf(selection.peek());
    return offer([
      { id: "unselect", group: "do", title: "Clear the selection", keys: "Escape", run: onClear },
      {
        id: "restart",
        group: "do",
        title: "Restart what is selected",
        keys: "r",
        run: () => void perform("restart", now()),
      },
      { id: "stop", group: "do", title: "Stop or start what is selected", keys: "s", run: () => startOrStop(now()) },
    ]);
  }, []);
  return (
    <div class="card bulk" role="region" aria-label="Selected services">
      <b>{count(names.length)} selected</b>
      <Button keys="R" why={whyNot()} onClick={() => void perform("restart", names)}>
        Restart
      </Button>
      <Button why={whyNot()} onClick={() => void perform("rolling", names)}>
        Rolling restart…
      </Button>
      <Button why={whyNot()} onClick={() => void perform("start", names)}>
        Start
      </Button>
      <Button kind="danger" why={whyNot()} onClick={() => void perform("stop", names)}>
        Stop…
      </Button>
      <Button onClick={() => navigate(address(["logs"], { s: names.join(",") }))}>Logs</Button>
      <Button
        icon="more"
        label="More for the selected services"
        hasMenu
        onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Selected services", menuOf(names))}
      />
      <span class="grow" />
      <Button kind="plain" keys="Esc" onClick={onClear}>
        Clear
      </Button>
    </div>
  );
}

function ServiceTable(props: {
  shown: readonly (readonly [string, ServiceStatus])[];
  query: URLSearchParams;
  selection: Selection;
  empty: JSX.Element;
}): JSX.Element {
  const { shown, query, selection } = props;
  const selected = selection.value;
  const [, redraw] = useState(0);
  const group = (query.get("group") ?? "none") as Group;
  const [sort, direction] = (query.get("sort") ?? "name").split("-") as [SortKey, string | undefined];
  const isDown = direction === "down";
  void requests.value;
  void failures.value;
  const rows = useMemo(
    () => grouped(sorted(shown, sort, isDown), group),
    [shown, sort, isDown, group, graph.value, folded.size],
  );
  const names = shown.map(([name]) => name);
  const isAll = names.length > 0 && names.every((name) => selected.has(name));

  function sorter(key: SortKey): { onSort: () => void; sorted?: "ascending" | "descending" } {
    const isThis = sort === key;
    return {
      onSort: () => setQuery({ sort: isThis && !isDown ? `${key}-down` : key === "name" ? null : key }),
      ...(isThis && { sorted: isDown ? ("descending" as const) : ("ascending" as const) }),
    };
  }

  const columns: Column<Row>[] = [
    {
      key: "select",
      width: "44px",
      title: (
        <label class="check-cell">
          <input
            type="checkbox"
            aria-label="Select all"
            checked={isAll}
            onChange={(event) => select(selection, names, event.currentTarget.checked)}
          />
        </label>
      ),
      cell: (row) =>
        "name" in row && (
          <label class="check-cell">
            <input
              type="checkbox"
              aria-label={`Select ${row.name}`}
              checked={selected.has(row.name)}
              onChange={(event) => select(selection, [row.name], event.currentTarget.checked)}
            />
          </label>
        ),
    },
    {
      key: "name",
      title: "Name",
      width: "minmax(110px, 1.5fr)",
      ...sorter("name"),
      cell: (row) =>
        "name" in row && (
          <a class="name" href={address(["services", row.name])}>
            {row.name}
          </a>
        ),
    },
    {
      key: "state",
      title: "State",
      width: "minmax(112px, 1.5fr)",
      ...sorter("state"),
      cell: (row) => "name" in row && <StateCell name={row.name} status={row.status} />,
    },
    {
      key: "health",
      title: "Health",
      width: "minmax(80px, 0.8fr)",
      isOptional: true,
      cell: (row) => "name" in row && <Health status={row.status} />,
    },
    {
      key: "cpu",
      title: "CPU %",
      width: "78px",
      isNumber: true,
      isOptional: true,
      ...sorter("cpu"),
      cell: (row) =>
        "name" in row && (row.status.cpu_percent === undefined ? "–" : row.status.cpu_percent.toFixed(1)),
    },
    {
      key: "spark",
      title: "10 min",
      width: "108px",
      isOptional: true,
      cell: (row) =>
        "name" in row && (row.status.pid ? <Spark name={row.name} /> : <span class="faint">–</span>),
    },
    {
      key: "memory",
      title: "Memory",
      width: "94px",
      isNumber: true,
      isOptional: true,
      ...sorter("memory"),
      cell: (row) =>
        "name" in row && (row.status.memory_mb === undefined ? "–" : size(row.status.memory_mb * 1e6)),
    },
    {
      key: "restarts",
      title: "Restarts",
      width: "86px",
      isNumber: true,
      isOptional: true,
      ...sorter("restarts"),
      cell: (row) =>
        "name" in row && (
          <span class={row.status.restart_count > 0 ? "is-bad" : undefined}>
            {count(row.status.restart_count)}
          </span>
        ),
    },
    {
      key: "up",
      title: "Up",
      width: "minmax(92px, 1fr)",
      isOptional: true,
      ...sorter("up"),
      cell: (row) => "name" in row && <span class="dim">{upOf(row.status)}</span>,
    },
    {
      key: "verbs",
      title: <span class="sr">Actions</span>,
      width: "156px",
      isOptional: true,
      cell: (row) => "name" in row && <RowVerbs name={row.name} status={row.status} />,
    },
    {
      key: "more",
      title: <span class="sr">More</span>,
      width: "56px",
      cell: (row) => "name" in row && <More name={row.name} />,
    },
  ];
  return (
    <div class="panel fill">
      <VirtualTable<Row>
        label="Services"
        rows={rows}
        columns={columns}
        rowHeight={innerWidth < 700 ? 52 : 36}
        keyOf={(row) => ("name" in row ? row.name : `group ${row.heading}`)}
        isSelected={(row) => "name" in row && selected.has(row.name)}
        groupOf={(row) =>
          "heading" in row ? (
            <button
              type="button"
              class="button"
              data-kind="plain"
              aria-expanded={!folded.has(row.heading)}
              onClick={() => {
                if (!folded.delete(row.heading)) folded.add(row.heading);
                redraw((times) => times + 1);
              }}
            >
              {folded.has(row.heading) ? "▸" : "▾"} {row.heading} · {count(row.size)} service
              {row.size === 1 ? "" : "s"}
            </button>
          ) : null
        }
        onOpen={(row) => "name" in row && navigate(address(["services", row.name]))}
        onMenu={(row, at) =>
          "name" in row &&
          openMenu(
            at,
            row.name,
            menuOf(selected.has(row.name) ? chosenOf(selection.peek()) : [row.name]),
          )
        }
        onKey={(row, event) => "name" in row && onRowKey(row.name, event, selection)}
        empty={isLoaded.value && props.empty}
      />
    </div>
  );
}

/** Verbs are about what is selected, and about this row if nothing is. */
function onRowKey(name: string, event: KeyboardEvent, selection: Selection): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const chosen = chosenOf(selection.peek());
  const names = chosen.length ? chosen : [name];
  const deeds: Record<string, () => void> = {
    x: () => select(selection, [name], !selection.peek().has(name)),
    r: () => void perform("restart", names),
    s: () => startOrStop(names),
    l: () => navigate(address(["services", name, "logs"])),
    t: () => void openTerminal(name),
    m: () => openMenu(event.currentTarget as HTMLElement, name, menuOf([name])),
  };
  const deed = deeds[event.key];
  deed?.();
  return deed !== undefined;
}

function StateCell({ name, status }: { name: string; status: ServiceStatus }): JSX.Element {
  const failure = failures.value.get(name);
  return (
    <>
      <State state={wordOf(name, status)} />
      {status.said && <span class="dim"> {status.said}</span>}
      {failure && (
        <span class="is-bad" title={failure}>
          {" "}
          · {failure}
        </span>
      )}
      {!failure && status.pid === null && status.reason && toneOf(status.status) === "bad" && (
        <span class="dim" title={status.reason}>
          {" "}
          {status.reason}
        </span>
      )}
    </>
  );
}

function Health({ status }: { status: ServiceStatus }): JSX.Element {
  if (status.health === "unhealthy")
    return (
      <span class="is-bad">
        failing {status.consecutive_failures ? `× ${status.consecutive_failures}` : ""}
      </span>
    );
  if (status.ready === false) return <span class="is-warn">not ready</span>;
  if (status.health === "healthy" || status.ready) return <span class="dim">passing</span>;
  return <span class="faint">–</span>;
}

function upOf(status: ServiceStatus): string {
  if (status.uptime !== null && status.pid !== null) return duration(status.uptime);
  if (status.next_start_in !== null && status.next_start_in !== undefined)
    return `retry in ${duration(Math.ceil(status.next_start_in))}`;
  if (status.waiting_for?.length) return "waits";
  if (status.next_scheduled) return ago(status.next_scheduled);
  if (status.exit_code !== null) return `exited ${status.exit_code}, ${ago(status.since)}`;
  return "–";
}

function RowVerbs({ name, status }: { name: string; status: ServiceStatus }): JSX.Element {
  const isBusy = requests.value.has(name);
  const isDown = status.pid === null && status.status !== "backoff";
  const verb = isDown ? "start" : "restart";
  return (
    <span class="row-verbs">
      <a class="button only-wide" href={address(["services", name, "logs"])} aria-label={`Logs of ${name}`}>
        Logs
      </a>
      {may("operate") && (
        <Button
          class="only-wide"
          busy={isBusy}
          why={whyNot(verb, status)}
          label={`${isDown ? "Start" : "Restart"} ${name}`}
          onClick={() => void perform(verb, [name])}
        >
          {isDown ? "Start" : "Restart"}
        </Button>
      )}
    </span>
  );
}

function More({ name }: { name: string }): JSX.Element {
  return (
    <Button
      icon="more"
      label={`More for ${name}`}
      hasMenu
      onClick={(event) => openMenu(event.currentTarget as HTMLElement, name, menuOf([name]))}
    />
  );
}

const STATE_ORDER: Record<string, number> = { bad: 0, warn: 1, info: 2, ok: 3, idle: 4 };

function sorted(
  shown: readonly (readonly [string, ServiceStatus])[],
  key: SortKey,
  isDown: boolean,
): (readonly [string, ServiceStatus])[] {
  const value: Record<SortKey, (name: string, status: ServiceStatus) => string | number> = {
    name: (name) => name,
    state: (_, status) => STATE_ORDER[toneOf(status.status)] ?? 5,
    cpu: (_, status) => status.cpu_percent ?? -1,
    memory: (_, status) => status.memory_mb ?? -1,
    restarts: (_, status) => status.restart_count,
    up: (_, status) => status.uptime ?? -1,
  };
  const of = value[key] ?? value.name;
  const order = isDown ? -1 : 1;
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;
  return [...shown].sort((a, b) => {
    const one = of(a[0], a[1]);
    const other = of(b[0], b[1]);
    const found = typeof one === "number" ? one - (other as number) : 0;
    return order * (found || compare(a[0], b[0]));
  });
}

function grouped(rows: readonly (readonly [string, ServiceStatus])[], group: Group): Row[] {
  if (group === "none") return rows.map(([name, status]) => ({ name, status }));
  const groups = new Map<string, (readonly [string, ServiceStatus])[]>();
  for (const row of rows) {
    const node = graph.value[row[0]];
    const heading =
      group === "state"
        ? row[1].status
        : ((group === "tag" ? node?.tags?.[0] : node?.groups?.[0]) ?? `no ${group}`);
    groups.set(heading, [...(groups.get(heading) ?? []), row]);
  }
  return [...groups].flatMap(([heading, members]): Row[] => [
    { heading, size: members.length },
    ...(folded.has(heading) ? [] : members.map(([name, status]) => ({ name, status }))),
  ]);
}
