// Tabs of the page of one service: history, health, configuration, dependencies.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { ConfigValue, Explanation, RunRecord, ServiceHealth, ServiceStatus } from "../api.gen.ts";
import { sentence } from "../core/sentences.ts";
import { strips } from "../core/strips.ts";
import { ago, duration, size, stamp } from "../core/time.ts";
import { address, navigate, route, setQuery } from "../routes.ts";
import { isLive, may, read } from "../state/connection.ts";
import { graph } from "../state/graph.ts";
import { RANGES, type Range, past, secondsOf } from "../state/past.ts";
import { services } from "../state/services.ts";
import { perform, whyNot } from "../state/verbs.ts";
import { Button, Segments } from "../ui/button.tsx";
import { State } from "../ui/icon.tsx";
import { GraphView } from "./graph.tsx";
import { endOf, logOf } from "./runs.ts";
import { Strip, TimeAxis } from "./strip.tsx";

/** The strip, the runs, and what changed since the last good one. */
export function HistoryTab(props: {
  name: string;
  runs: readonly RunRecord[] | null;
  explanation: Explanation | null;
}): JSX.Element {
  const { name, runs, explanation } = props;
  const range = (route.value?.query.get("range") ?? "24h") as Range;
  const to = Math.floor(Date.now() / 5000) * 5;
  const from = to - secondsOf(range);
  const status = services.value.get(name);
  const pieces = useMemo(
    () =>
      strips(
        past.value.filter((event) => event.service === name),
        from,
        to,
        new Map(status ? [[name, status]] : []),
      ).get(name) ?? [],
    [past.value, name, from, to],
  );
  const events = past.value
    .filter((event) => event.service === name)
    .slice(-80)
    .reverse();
  const changes = explanation?.changes?.fields ?? [];
  return (
    <>
      <section class="card" aria-label="States">
        <div class="row">
          <h2 class="grow">States</h2>
          <Segments
            label="Range"
            options={RANGES}
            value={range}
            onChange={(value) => setQuery({ range: value === "24h" ? null : value })}
          />
        </div>
        <div style={{ marginTop: "10px" }}>
          <Strip name={name} pieces={pieces} from={from} to={to} />
          <div class="flush">
            <TimeAxis from={from} to={to} />
          </div>
        </div>
      </section>
      {changes.length > 0 && (
        <section class="card" aria-label="What changed">
          <h2>What changed since the last good run, {explanation?.changes?.run}</h2>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">Before</th>
                <th scope="col">Now</th>
              </tr>
            </thead>
            <tbody>
              {changes.map((change) => (
                <tr key={change.field}>
                  <td class="mono">{change.field}</td>
                  <td class="mono is-bad">{change.before ?? "not shown"}</td>
                  <td class="mono is-ok">{change.after ?? "not shown"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
      <section class="card" aria-label="Runs">
        <h2>Runs</h2>
        {runs?.length === 0 && <p class="dim">It has never run.</p>}
        <div style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label="Runs as a table">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Run</th>
                <th scope="col">Began</th>
                <th scope="col" class="num">
                  Lasted
                </th>
                <th scope="col">End</th>
                <th scope="col">Why</th>
                <th scope="col" class="num">
                  Output
                </th>
                <th scope="col">Changed since the last good run</th>
                <th scope="col">
                  <span class="sr">Log</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {(runs ?? []).map((run) => {
                const end = endOf(run);
                return (
                  <tr key={run.run_id} data-run={run.number}>
                    <td class="mono">#{run.number}</td>
                    <td title={ago(run.started_at)}>{stamp(run.started_at)}</td>
                    <td class="num mono">{duration(run.duration ?? Date.now() / 1000 - run.started_at)}</td>
                    <td class={`is-${end.tone}`}>{end.text}</td>
                    <td class="dim">{run.reason}</td>
                    <td class="num">{size(run.log_bytes)}</td>
                    <td class="mono">
                      {run.changes === null || run.changes === undefined ? (
                        <span class="faint">–</span>
                      ) : (
                        run.changes.join(", ") || <span class="dim">nothing</span>
                      )}
                    </td>
                    <td>
                      <a
                        href={logOf(run)}
                        aria-label={`Log of run ${run.number}`}
                      >
                        log
                      </a>
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      </section>
      <section class="panel" aria-label="Events">
        <div class="panel-head plain-head">
          <h2>Events</h2>
        </div>
        <ol class="events" tabIndex={0} aria-label="Events, the newest first">
          {events.map((event) => {
            const words = sentence(event);
            return (
              words && (
                <li key={event.seq}>
                  <time class="mono faint" title={stamp(event.time)}>
                    {stamp(event.time).slice(11)}
                  </time>
                  <span class={`dot is-${words.tone}`} aria-hidden="true" />
                  <span>{words.text}</span>
                  <span class="dim more">{words.more}</span>
                </li>
              )
            );
          })}
        </ol>
      </section>
    </>
  );
}

/** What its probes find, now if asked. */
export function HealthTab({ name, status }: { name: string; status: ServiceStatus }): JSX.Element {
  const [found, setFound] = useState<ServiceHealth | null>(null);
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  async function check(): Promise<void> {
    setAsking(true);
    try {
      setFound((await read("health_check", { services: [name] })).services[name] ?? null);
      setProblem("");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setAsking(false);
    }
  }
  useEffect(() => void check(), [name, status.status]);
  const failed = past.value
    .filter((event) => event.service === name && /^health:/.test(event.kind))
    .slice(-30)
    .reverse();
  return (
    <>
      <section class="card" aria-label="Checks">
        <div class="row">
          <h2 class="grow">Checks, just now</h2>
          <Button
            busy={isAsking}
            why={isLive.value ? undefined : "the connection is lost"}
            onClick={() => void check()}
          >
            Check now
          </Button>
        </div>
        {problem && (
          <p class="is-bad" role="alert">
            {problem}
          </p>
        )}
        {found && (
          <table class="plain checks">
            <thead>
              <tr>
                <th scope="col">Result</th>
                <th scope="col">Probe</th>
                <th scope="col">How</th>
                <th scope="col">Reason</th>
                <th scope="col" class="num">
                  Took
                </th>
              </tr>
            </thead>
            <tbody>
              {found.checks.map((one, place) => (
                <tr key={place}>
                  <td>
                    <State state={one.passed ? "exited" : "failed"} word={one.passed ? "passed" : "failed"} />
                  </td>
                  <td>{one.probe}</td>
                  <td class="mono">{one.check}</td>
                  <td>{one.reason}</td>
                  <td class="num mono">{duration(one.duration)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        <p class="dim" style={{ marginTop: "8px" }}>
          These checks restart nothing. `health_check:` in the configuration adds probes.
        </p>
      </section>
      {failed.length > 0 && (
        <section class="card" aria-label="Health history">
          <h2>What probes said</h2>
          <table class="plain">
            <tbody>
              {failed.map((event) => (
                <tr key={event.seq}>
                  <td class="mono faint">{stamp(event.time)}</td>
                  <td>
                    {event.kind === "health:failed"
                      ? "a check failed"
                      : event.kind === "health:passed"
                        ? "a check passed again"
                        : `it is ${event.data.to}`}
                  </td>
                  <td class="mono">{event.data.probe}</td>
                  <td class="dim">{event.data.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

const SOURCES: Record<string, string> = {
  file: "",
  default: "default",
  environment: "environment",
  command_line: "command line",
};

/** Effective values, and where each comes from. */
export function ConfigTab({
  name,
  explanation,
}: {
  name: string;
  explanation: Explanation | null;
}): JSX.Element {
  const [values, setValues] = useState<ConfigValue[] | null>(null);
  const [problem, setProblem] = useState("");
  const [isAll, setAll] = useState(false);
  const template = graph.value[name]?.template;
  useEffect(() => {
    if (!may("operate")) {
      setProblem("Your role may not see the configuration; an operator may.");
      return;
    }
    read("config", { services: [template ?? name], defaults: isAll }).then(
      (answer) => {
        setValues(answer.values.filter((one) => one.path[0] === "services"));
        setProblem("");
      },
      (error) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  }, [name, isAll, template]);
  const changed = new Set((explanation?.changes?.fields ?? []).map((change) => change.field.split(".")[0]));
  const environment = Object.entries(explanation?.environment ?? {});
  return (
    <>
      <section class="card" aria-label="Configuration">
        <div class="row">
          <h2 class="grow">Configuration</h2>
          <Button pressed={isAll} onClick={() => setAll(!isAll)}>
            With defaults
          </Button>
          <Button why={whyNot()} onClick={() => void perform("restart", [name])}>
            Restart to apply
          </Button>
        </div>
        {problem && <p class="dim">{problem}</p>}
        {values?.length === 0 && <p class="dim">No file declares it: it was started by hand.</p>}
        {values && values.length > 0 && (
          <div style={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label="Values as a table">
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Key</th>
                  <th scope="col">Value</th>
                  <th scope="col">Where from</th>
                  <th scope="col">Changed</th>
                </tr>
              </thead>
              <tbody>
                {values.map((one) => (
                  <tr key={one.path.join(".")}>
                    <td class="mono">{one.path.slice(2).join(".") || "service"}</td>
                    <td class="mono">
                      {typeof one.value === "string" ? one.value : JSON.stringify(one.value)}
                    </td>
                    <td class="dim">
                      {one.source === "file"
                        ? `${short(one.file)}${one.line ? `:${one.line}` : ""}`
                        : (one.given_by ?? SOURCES[one.source])}
                    </td>
                    <td>
                      {changed.has(one.path[2]) && (
                        <span class="badge is-warn">since run {explanation?.changes?.run}</span>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <section class="card" aria-label="Environment">
        <h2>Environment</h2>
        <p class="dim">Values that may be secrets are not shown.</p>
        <dl class="facts mono">
          {environment.map(([key, value]) => (
            <>
              <dt key={key}>{key}</dt>
              <dd>{value ?? "••••"}</dd>
            </>
          ))}
        </dl>
      </section>
    </>
  );
}

function short(file: string | null | undefined): string {
  return file?.split("/").at(-1) ?? "";
}

export function DependenciesTab({ name }: { name: string }): JSX.Element {
  const node = graph.value[name];
  const known = graph.value;
  const near = useMemo(() => {
    const found = new Set([name]);
    for (const [next, waiting] of [
      [(one: string) => (known[one]?.needs ?? []).map((need) => need.service), [name]],
      [(one: string) => known[one]?.needed_by ?? [], [name]],
    ] as [(one: string) => string[], string[]][])
      for (const one of waiting)
        for (const other of next(one))
          if (!found.has(other)) {
            found.add(other);
            waiting.push(other);
          }
    return [...found];
  }, [known, name]);
  return (
    <>
      <section class="card" aria-label="Needs">
        <h2>What {name} needs</h2>
        {!node?.needs?.length && (
          <p class="dim">Nothing. `depends_on:` in the configuration says what must be there first.</p>
        )}
        {node?.needs && node.needs.length > 0 && (
          <table class="plain">
            <tbody>
              {node.needs.map((need) => (
                <tr key={need.service}>
                  <td>
                    <a href={address(["services", need.service])}>{need.service}</a>
                  </td>
                  <td>
                    <State state={services.value.get(need.service)?.status ?? "pending"} />
                  </td>
                  <td class={need.is_met ? "is-ok" : "is-bad"}>
                    {need.condition}: {need.is_met ? "met" : "not met"}
                  </td>
                  <td class="dim">{need.restart && "a new run of it restarts this one"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {near.length > 1 && <GraphView shown={near} isFiltered focus={name} />}
      <p>
        <Button onClick={() => navigate(address(["services"], { view: "graph" }))}>
          Show the whole graph
        </Button>
      </p>
    </>
  );
}
