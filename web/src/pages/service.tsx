// Everything about one service: why it is as it is, and what can be done.
import type { ComponentType, JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Explanation, RunRecord, ServiceStatus } from "../api.gen.ts";
import { ERROR } from "../core/loglines.ts";
import { ago, count, duration, size, stamp } from "../core/time.ts";
import { type PageProps, address, navigate, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { isLive, may, read } from "../state/connection.ts";
import { dependents, followGraph, graph } from "../state/graph.ts";
import { followPast } from "../state/past.ts";
import { isLoaded, onEvent, services, watchUsage } from "../state/services.ts";
import {
  VERBS,
  deedOf,
  failures,
  menuOf,
  openTerminal,
  perform,
  requests,
  whyNot,
  wordOf,
} from "../state/verbs.ts";
import { Button, Segments } from "../ui/button.tsx";
import { copyDiagnosis } from "../ui/diagnosis.ts";
import { State, toneOf } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";
import { copyActions } from "../ui/copyas.ts";
import { withoutName } from "../core/words.ts";
import { METRIC_RANGES, MetricCharts, type MetricRange, secondsOfRange } from "../views/metrics.tsx";
import { endOf, logOf } from "../views/runs.ts";
import { ConfigTab, DependenciesTab, HealthTab, HistoryTab } from "../views/service_tabs.tsx";
import { States } from "./metrics.tsx";

const TABS = ["logs", "metrics", "history", "terminal", "health", "config", "dependencies"] as const;
type Tab = (typeof TABS)[number];
const TITLES: Record<Tab, string> = {
  logs: "Logs",
  metrics: "Metrics",
  history: "History",
  terminal: "Terminal",
  health: "Health",
  config: "Config",
  dependencies: "Dependencies",
};

/** Panes that other modules bring: loaded when their tab is opened first. */
const PANES: Partial<Record<Tab, () => Promise<ComponentType<PaneProps>>>> = {
  logs: async () => (await import("../ui/logpanel.tsx")).LogPanel,
  terminal: async () => {
    const { TerminalPanel } = await import("../ui/terminalpanel.tsx");
    return ({ services: [name] }) => <TerminalPanel service={name!} />;
  },
};

interface PaneProps {
  services: readonly string[];
  query: URLSearchParams;
}

export default function Service({ params, query }: PageProps): JSX.Element {
  const name = params.name ?? "";
  const tab = (TABS as readonly string[]).includes(params.tab ?? "") ? (params.tab as Tab) : "logs";
  useEffect(() => watchUsage(), []);
  useEffect(() => followGraph(), []);
  useEffect(followPast, []);
  const status = services.value.get(name);
  const explanation = useExplanation(name, status);
  const runs = useRuns(name);
  useEffect(
    () =>
      offer([
        ...(["start", "restart", "stop", "pause", "resume"] as const).map((verb) => ({
          id: `${verb}:${name}`,
          group: "do" as const,
          title: `${VERBS[verb].title} ${name}`,
          icon: VERBS[verb].icon,
          ...(verb === "restart" && { keys: "r" }),
          ...(verb === "stop" && { keys: "s" }),
          run: () => void perform(verb, [name]),
        })),
        {
          id: `terminal:${name}`,
          group: "do",
          title: `Open terminal in ${name}`,
          icon: "terminal",
          keys: "t",
          run: () => void openTerminal(name),
        },
        {
          id: `diagnosis:${name}`,
          group: "copy",
          title: `Copy diagnosis of ${name}`,
          icon: "copy",
          run: () => void copyDiagnosis(name),
        },
        ...TABS.map((one) => ({
          id: `tab:${one}`,
          group: "go" as const,
          title: `${TITLES[one]} of ${name}`,
          ...(one === "logs" && { keys: "l" }),
          run: () => navigate(address(["services", name, one])),
        })),
        ...copyActions(`Restart ${name}`, deedOf("restart", [name])),
      ]),
    [name],
  );
  if (!isLoaded.value) return <div data-page="service" data-state="loading" />;
  if (!status)
    return (
      <div class="empty" data-page="service" data-state="missing">
        <h1>There is no service “{name}”</h1>
        <p>It may have been removed. Its name may also be written differently.</p>
        <a class="button" href="services">
          All services
        </a>
      </div>
    );
  return (
    <div class="service-page" data-page="service" data-service={name} data-state="shown">
      <Head name={name} status={status} command={explanation?.command ?? []} />
      {explanation && !explanation.is_fine && <Diagnosis one={explanation} status={status} />}
      <Tabs
        label={`About ${name}`}
        current={tab}
        onChange={(key) => navigate(address(["services", name, key]))}
        tabs={TABS.map((key) => ({ key, title: TITLES[key], href: address(["services", name, key]) }))}
      />
      <div class={tab === "logs" || tab === "terminal" || tab === "history" ? "with-side" : "service-page"}>
        <TabPanel current={tab} class="tab-body">
          <Body name={name} tab={tab} query={query} status={status} runs={runs} explanation={explanation} />
        </TabPanel>
        {(tab === "logs" || tab === "terminal" || tab === "history") && (
          <div class="side only-wide" tabIndex={0} role="region" aria-label="Facts and runs">
            <FactsCard name={name} status={status} explanation={explanation} />
            {tab !== "history" && <RunsCard name={name} runs={runs} />}
          </div>
        )}
      </div>
    </div>
  );
}

function Head(props: { name: string; status: ServiceStatus; command: string[] }): JSX.Element {
  const { name, status } = props;
  const word = wordOf(name, status);
  const isBusy = requests.value.has(name);
  const isDown = status.pid === null && status.status !== "backoff";
  const retry = status.next_start_in;
  const failure = failures.value.get(name);
  return (
    <div class="page-head">
      <h1>{name}</h1>
      <span class="chip" data-role="state">
        <State state={word} />
        {retry !== null && retry !== undefined && word === "backoff" && (
          <span class="dim">retry {ago(Date.now() / 1000 + retry)}</span>
        )}
        {status.health === "unhealthy" && <span class="is-bad">unhealthy</span>}
        {status.ready === false && <span class="is-warn">not ready</span>}
      </span>
      <code class="dim ellipsis only-wide" style={{ maxWidth: "24vw" }}>
        {props.command.join(" ")}
      </code>
      {failure && (
        <span class="is-bad" role="alert">
          {failure}
        </span>
      )}
      <span class="grow" />
      {may("operate") && (
        <>
          <Button
            kind="primary"
            busy={isBusy}
            why={whyNot(isDown ? "start" : "restart", status)}
            onClick={() => void perform(isDown ? "start" : "restart", [name])}
          >
            {isDown ? "Start" : word === "backoff" ? "Restart now" : "Restart"}
          </Button>
          {!isDown && (
            <Button why={whyNot("stop", status)} onClick={() => void perform("stop", [name])}>
              {word === "backoff" ? "Stop retrying" : "Stop"}
            </Button>
          )}
          <Button class="only-wide" why={whyNot()} onClick={() => void openTerminal(name)}>
            Open terminal
          </Button>
        </>
      )}
      <Button
        icon="more"
        label={`More for ${name}`}
        hasMenu
        onClick={(event) => openMenu(event.currentTarget as HTMLElement, name, menuOf([name]))}
      />
    </div>
  );
}

/** What, how often, the line, what will happen next, what changed. */
function Diagnosis({ one, status }: { one: Explanation; status: ServiceStatus }): JSX.Element {
  const tone = toneOf(one.status);
  const line = tellingLine(one);
  const changes = one.changes?.fields ?? [];
  const good = one.changes?.run;
  const summary = withoutName(one.summary, one.service);
  return (
    <section
      class="card diagnosis"
      data-tone={tone === "ok" || tone === "idle" ? "warn" : tone}
      aria-label="Diagnosis"
    >
      <div class="grow">
        <p>
          <b class={`is-${tone === "ok" || tone === "idle" ? "warn" : tone}`}>
            {summary.charAt(0).toUpperCase() + summary.slice(1)}
            {status.restart_count > 1 ? `, ${count(status.restart_count)} restarts` : ""}
          </b>
        </p>
        {line && <pre class="mono">{line}</pre>}
        {one.next && <p>Next: {one.next}</p>}
        <p class="dim">
          {good
            ? `Last good run: ${good}${one.changes?.at ? `, ${ago(one.changes.at)}` : ""}; ${
                changes.length
                  ? `since then ${changes.map((change) => change.field).join(", ")} changed`
                  : "the configuration is unchanged"
              }.`
            : "No earlier run went well."}
          {(one.hints ?? []).map((hint) => ` ${hint}.`)}
        </p>
      </div>
      <Button onClick={() => navigate(address(["services", one.service, "logs"], { level: ERROR }))}>
        Show in log
      </Button>
      {changes.length > 0 && (
        <Button onClick={() => navigate(address(["services", one.service, "history"]))}>
          Show what changed
        </Button>
      )}
      <Button icon="copy" onClick={() => void copyDiagnosis(one.service)}>
        Copy diagnosis
      </Button>
    </section>
  );
}

const TELLING = /error|fatal|panic|exception|denied|refused|failed|cannot|traceback/i;

/** The line that says most about the failure: the last one that names one, else the last. */
function tellingLine(one: Explanation): string | undefined {
  const lines = [...(one.last_err ?? []), ...(one.last_out ?? [])].filter((text) => text.trim());
  const printed = one.last_err?.length ? (one.last_err ?? []) : lines;
  return printed.findLast((text) => TELLING.test(text)) ?? printed.findLast((text) => text.trim());
}

function Body(props: {
  name: string;
  tab: Tab;
  query: URLSearchParams;
  status: ServiceStatus;
  runs: readonly RunRecord[] | null;
  explanation: Explanation | null;
}): JSX.Element {
  const { name, tab, query, status } = props;
  switch (tab) {
    case "metrics": {
      const range = (query.get("range") ?? "1h") as MetricRange;
      return (
        <>
          <div class="row">
            <Segments
              label="Range"
              options={METRIC_RANGES}
              value={range}
              onChange={(value) => setQuery({ range: value === "1h" ? null : value })}
            />
            <a href={address(["metrics"], { s: name, range })}>Compare with others</a>
          </div>
          <MetricCharts names={[name]} range={range} />
          <States names={[name]} seconds={secondsOfRange(range)} />
        </>
      );
    }
    case "history":
      return <HistoryTab name={name} runs={props.runs} explanation={props.explanation} />;
    case "health":
      return <HealthTab name={name} status={status} />;
    case "config":
      return <ConfigTab name={name} explanation={props.explanation} />;
    case "dependencies":
      return <DependenciesTab name={name} />;
    case "terminal":
      return <TerminalTab name={name} status={status} query={query} />;
    default:
      return <Pane key={`${tab}:${name}`} tab={tab} name={name} query={query} />;
  }
}

function TerminalTab(props: { name: string; status: ServiceStatus; query: URLSearchParams }): JSX.Element {
  const { name, status } = props;
  const beside = [...services.value.keys()].filter(
    (one) => one.startsWith(`${name}-terminal-`) && services.value.get(one)?.pid,
  );
  if (status.terminal) return <Pane tab="terminal" name={name} query={props.query} />;
  return (
    <div class="empty panel fill">
      <p>{name} has no terminal of its own.</p>
      <p>A new shell has its user, its folder and its environment.</p>
      <Button kind="primary" why={whyNot()} onClick={() => void openTerminal(name)}>
        Open terminal
      </Button>
      {beside.map((one) => (
        <a key={one} href={address(["terminals", one])}>
          {one}
        </a>
      ))}
    </div>
  );
}

const panes = new Map<Tab, ComponentType<PaneProps>>();

function Pane({ tab, name, query }: { tab: Tab; name: string; query: URLSearchParams }): JSX.Element | null {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (panes.has(tab)) return;
    void PANES[tab]?.().then((module) => {
      panes.set(tab, module);
      redraw((times) => times + 1);
    });
  }, [tab]);
  const Found = panes.get(tab);
  const services = useMemo(() => [name], [name]);
  return Found ? <Found services={services} query={query} /> : null;
}

function FactsCard(props: {
  name: string;
  status: ServiceStatus;
  explanation: Explanation | null;
}): JSX.Element {
  const { name, status, explanation } = props;
  const node = graph.value[name];
  const users = dependents(name);
  const exit = status.signal ?? (status.exit_code !== null ? `code ${status.exit_code}` : null);
  const facts: [string, JSX.Element | string | null][] = [
    ["PID", status.pid === null ? "–" : String(status.pid)],
    ["Up", status.uptime !== null && status.pid !== null ? duration(status.uptime) : null],
    ["Run", status.run ? `${status.run}` : null],
    ["Last exit", status.pid === null && exit ? exit : null],
    ["Restarts", count(status.restart_count)],
    ["CPU", status.cpu_percent === undefined ? null : `${status.cpu_percent.toFixed(1)}%`],
    ["Memory", status.memory_mb === undefined ? null : size(status.memory_mb * 1e6)],
    ["Log", size(status.log_bytes)],
    [
      "Ports",
      status.ports
        ? Object.entries(status.ports)
            .map(([port, number]) => (port === "port" ? number : `${port} ${number}`))
            .join(", ")
        : null,
    ],
    [
      "Needs",
      node?.needs?.length ? (
        <>
          {node.needs.map((need, place) => (
            <span key={need.service}>
              {place > 0 && ", "}
              <a href={address(["services", need.service])}>{need.service}</a>{" "}
              {need.is_met ? "" : <span class="is-bad">not {need.condition}</span>}
            </span>
          ))}
        </>
      ) : null,
    ],
    [
      "Needed by",
      users.length
        ? users.slice(0, 5).join(", ") + (users.length > 5 ? ` and ${users.length - 5} more` : "")
        : null,
    ],
    ["Says", status.said ?? null],
    ["Folder", explanation?.working_dir ?? null],
    ["Started by", explanation?.started_by ?? null],
    [
      "Changed",
      status.overrides && Object.keys(status.overrides).length
        ? `started with other ${Object.keys(status.overrides).join(" and ")}`
        : null,
    ],
  ];
  return (
    <section class="card" aria-label="Facts">
      <h2>Facts</h2>
      <dl class="facts" style={{ marginTop: "8px" }}>
        {facts
          .filter(([, value]) => value !== null)
          .map(([title, value]) => (
            <>
              <dt key={title}>{title}</dt>
              <dd>{value}</dd>
            </>
          ))}
      </dl>
    </section>
  );
}

function RunsCard({ name, runs }: { name: string; runs: readonly RunRecord[] | null }): JSX.Element {
  return (
    <section class="card" aria-label="Runs">
      <div class="row">
        <h2 class="grow">Runs</h2>
        <a href={address(["services", name, "history"])}>History</a>
      </div>
      <ol class="runs">
        {(runs ?? []).slice(0, 10).map((run) => {
          const end = endOf(run);
          const seconds = run.duration ?? Date.now() / 1000 - run.started_at;
          return (
            <li key={run.run_id}>
              <span class="mono faint">#{run.number}</span>
              <span class={`is-${end.tone}`}>{end.text}</span>
              <span class="mono dim" title={stamp(run.started_at)}>
                {duration(seconds)}
              </span>
              <a
                href={logOf(run)}
                aria-label={`Log of run ${run.number}`}
              >
                log
              </a>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

const EXPLAIN_MS = 400;
/** How often times in its sentences are renewed. */
const TICK_MS = 5000;

/** Why it is in its state; asked again when something happened to it. */
function useExplanation(name: string, status: ServiceStatus | undefined): Explanation | null {
  const [found, setFound] = useState<Explanation | null>(null);
  const [tick, setTick] = useState(0);
  const isIll = found !== null && !found.is_fine;
  useEffect(() => {
    if (!isIll) return;
    const timer = setInterval(() => setTick((times) => times + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isIll]);
  const what = `${tick} ${name} ${status?.status} ${status?.run_id} ${status?.health} ${status?.ready}`;
  useEffect(() => {
    let isOver = false;
    const timer = setTimeout(
      async () => {
        if (!services.peek().has(name)) return;
        try {
          const answer = await read("explain", { service: name });
          if (!isOver) setFound(answer.explanations.find((one) => one.service === name) ?? null);
        } catch {
          // What the page shows without it is true, too.
        }
      },
      found?.service === name ? EXPLAIN_MS : 0,
    );
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [what, isLive.value]);
  return found?.service === name ? found : null;
}

const RUN_KINDS = new Set([
  "process:started",
  "exit",
  "process:ended",
  "process:start_failed",
  "service:stable",
]);

function useRuns(name: string): readonly RunRecord[] | null {
  const [runs, setRuns] = useState<{ name: string; list: RunRecord[] } | null>(null);
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async () => {
      timer = undefined;
      try {
        const { runs: list } = await read("runs", { service: name, limit: 100 });
        if (!isOver) setRuns({ name, list });
      } catch {
        // There is no such service, or it is gone.
      }
    };
    void load();
    const stop = onEvent((event) => {
      if (event.service === name && RUN_KINDS.has(event.kind)) timer ??= setTimeout(load, EXPLAIN_MS);
    });
    return () => {
      isOver = true;
      clearTimeout(timer);
      stop();
    };
  }, [name]);
  return runs?.name === name ? runs.list : null;
}
