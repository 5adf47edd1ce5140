// Is everything fine? If not: what, why, and what now?
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Explanation, ServiceStatus } from "../api.gen.ts";
import { sentence } from "../core/sentences.ts";
import { ERROR } from "../core/loglines.ts";
import { isEventful, strips } from "../core/strips.ts";
import { withoutName } from "../core/words.ts";
import { ago, count, duration, size, stamp } from "../core/time.ts";
import { type PageProps, address, navigate, setQuery } from "../routes.ts";
import { attention, followAttention, isAttentionLoaded } from "../state/attention.ts";
import { isLive, read, session } from "../state/connection.ts";
import { dependents, followGraph, graph } from "../state/graph.ts";
import { firstRange } from "../state/prefs.ts";
import { RANGES, type Range, followPast, isPastLoaded, past, secondsOf } from "../state/past.ts";
import { isLoaded, services, toldAt, watchUsage } from "../state/services.ts";
import { perform, whyNot, wordOf } from "../state/verbs.ts";
import { Button, Segments } from "../ui/button.tsx";
import { State, toneOf } from "../ui/icon.tsx";
import { copyDiagnosis } from "../ui/diagnosis.ts";
import { Line } from "../views/spark.tsx";
import { Strip, TimeAxis } from "../views/strip.tsx";
import { Tiles } from "../views/tiles.tsx";

const MOST_ILL = 8;
const MOST_STRIPS = 12;
const MOST_EVENTS = 60;

export default function Overview({ query }: PageProps): JSX.Element {
  useEffect(() => watchUsage(), []);
  useEffect(() => followGraph(), []);
  useEffect(followPast, []);
  useEffect(followAttention, []);
  const range = (query.get("range") ?? firstRange.value) as Range;
  const all = [...services.value];
  return (
    <div class="stack overview" data-page="overview" data-state={isLoaded.value ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Overview</h1>
        <span class="dim">
          {isLoaded.value &&
            `${count(all.length)} service${all.length === 1 ? "" : "s"} in ${nameOf(session.value?.project)}`}
        </span>
        {!isLive.value && toldAt.value > 0 && (
          <span class="chip is-warn">as of {stamp(toldAt.value / 1000).slice(11)}</span>
        )}
        <span class="grow" />
        <Segments
          label="Range"
          options={RANGES}
          value={range}
          onChange={(value) => setQuery({ range: value === firstRange.value ? null : value })}
        />
      </div>
      {!isLoaded.value && <Skeleton />}
      {isLoaded.value && all.length === 0 && <FirstTime />}
      {isLoaded.value && all.length > 0 && (
        <>
          <Figures all={all} range={range} />
          <NeedsAttention />
          <div class="overview-columns">
            <div class="panel">
              <StateHistory range={range} />
              <div class="panel-head plain-head">
                <h2>Every service</h2>
                <span class="dim">one tile each</span>
              </div>
              <div class="panel-body">
                <Tiles services={all} label="Every service" />
              </div>
            </div>
            <RecentEvents />
          </div>
        </>
      )}
    </div>
  );
}

/** The last part of a path. */
function nameOf(path: string | undefined): string {
  return path?.split("/").at(-1) || "this project";
}

function Skeleton(): JSX.Element {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (!isLate) return <></>;
  return (
    <div class="figures" aria-busy="true">
      {[0, 1, 2, 3, 4].map((place) => (
        <div key={place} class="card skeleton" style={{ height: "66px" }} />
      ))}
    </div>
  );
}

function FirstTime(): JSX.Element {
  return (
    <div class="empty">
      <h2>No services yet</h2>
      <p>Declare one in holdfast.yaml and run `holdfast up`, or just run a command:</p>
      <pre class="card">holdfast run --name web -- python3 -m http.server</pre>
      <p>Coming from another supervisor? `holdfast import` takes its configuration over.</p>
    </div>
  );
}

interface Sample {
  time: number;
  value: number;
}

/** Numbers of the host, and how fast services print, while the page is open. */
function useRates(all: readonly (readonly [string, ServiceStatus])[]): { cpu: Sample[]; output: Sample[] } {
  const [cpu, setCpu] = useState<Sample[]>([]);
  const [output, setOutput] = useState<Sample[]>([]);
  const [last, setLast] = useState<{ at: number; bytes: number } | null>(null);
  const first = all[0]?.[0];
  useEffect(() => {
    if (first === undefined) return;
    let isOver = false;
    const look = async () => {
      if (document.hidden || !isLive.peek()) return;
      try {
        const { host } = await read("metrics", { services: [first] });
        const value = host.cpu_percent;
        if (!isOver && value !== null)
          setCpu((before) => [...before.slice(-119), { time: Date.now() / 1000, value }]);
      } catch {
        // The next look tells.
      }
    };
    void look();
    const timer = setInterval(look, 5000);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [first]);
  const at = toldAt.value;
  useEffect(() => {
    const bytes = all.reduce((sum, [, one]) => sum + one.log_bytes, 0);
    if (last && at - last.at > 500) {
      const value = Math.max(0, bytes - last.bytes) / ((at - last.at) / 1000);
      setOutput((before) => [...before.slice(-119), { time: at / 1000, value }]);
    }
    if (!last || at - last.at > 500) setLast({ at, bytes });
  }, [at]);
  return { cpu, output };
}

function Figures(props: { all: readonly (readonly [string, ServiceStatus])[]; range: Range }): JSX.Element {
  const { all, range } = props;
  const { cpu, output } = useRates(all);
  const wanted = all.filter(([, one]) => one.desired === "running").length;
  const running = all.filter(([, one]) => one.status === "running").length;
  const from = Date.now() / 1000 - secondsOf(range);
  const restarts = past.value.filter(
    (event) => event.kind === "process:started" && event.time >= from && event.data.restarted,
  ).length;
  const ill = attention.value.length;
  return (
    <div class="figures">
      <Figure title="Running" tone="ok" value={count(running)} more={`of ${count(wanted)} wanted`} />
      <Figure
        title="Needs attention"
        {...(ill > 0 && { tone: "bad" })}
        value={count(ill)}
        more={ill ? "" : "all is well"}
      />
      <Figure title={`Restarts, last ${range}`} value={count(restarts)} />
      <Figure title="Host CPU" value={cpu.length ? `${Math.round(cpu.at(-1)!.value)}%` : "–"}>
        <Line values={cpu} seconds={600} width={96} tone="ok" />
      </Figure>
      <Figure title="Output" value={output.length ? `${size(output.at(-1)!.value)}/s` : "–"}>
        <Line values={output} seconds={240} width={96} tone="info" />
      </Figure>
    </div>
  );
}

function Figure(props: {
  title: string;
  value: string;
  more?: string;
  tone?: string;
  children?: JSX.Element;
}): JSX.Element {
  return (
    <div class="card figure">
      <div class="dim">{props.title}</div>
      <div class="row">
        <span class={`big ${props.tone ? `is-${props.tone}` : ""}`}>{props.value}</span>
        {props.more && <span class="dim">{props.more}</span>}
        {props.children}
      </div>
    </div>
  );
}

const RANK: Record<string, number> = { bad: 0, warn: 1, info: 2, idle: 3, ok: 4 };

function NeedsAttention(): JSX.Element | null {
  const [isAll, setAll] = useState(false);
  const known = attention.value;
  void graph.value;
  const sorted = useMemo(
    () =>
      [...known].sort(
        (a, b) =>
          (RANK[toneOf(a.status)] ?? 4) - (RANK[toneOf(b.status)] ?? 4) ||
          dependents(b.service).length - dependents(a.service).length,
      ),
    [known, graph.value],
  );
  if (!isAttentionLoaded.value || known.length === 0) return null;
  const shown = isAll ? sorted : sorted.slice(0, MOST_ILL);
  return (
    <section class="panel attention" aria-label="Needs attention">
      <div class="panel-head">
        <h2>Needs attention</h2>
        <span class="dim">sorted by impact</span>
      </div>
      <ul>
        {shown.map((one) => (
          <Ill key={one.service} one={one} />
        ))}
      </ul>
      {known.length > MOST_ILL && (
        <div class="panel-foot plain-foot">
          <Button kind="plain" expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? "Fewer" : `${known.length - MOST_ILL} more`}
          </Button>
        </div>
      )}
    </section>
  );
}

function Ill({ one }: { one: Explanation }): JSX.Element {
  const name = one.service;
  const status = services.value.get(name);
  const word = status ? wordOf(name, status) : one.status;
  const needing = dependents(name).length;
  const facts = [
    status &&
      status.restart_count > 0 &&
      `${count(status.restart_count)} restart${status.restart_count > 1 ? "s" : ""}`,
    status?.next_start_in !== null &&
      status?.next_start_in !== undefined &&
      `next try ${ago(Date.now() / 1000 + status.next_start_in)}`,
    needing > 0 && `${needing} need${needing === 1 ? "s" : ""} it`,
  ].filter(Boolean);
  const busy = word !== one.status && word.endsWith("ing");
  return (
    <li class="ill" data-service={name}>
      <State state={word} />
      <a class="name" href={address(["services", name])}>
        {name}
      </a>
      <span class={`cause mono is-${toneOf(one.status) === "ok" ? "warn" : toneOf(one.status)}`}>
        {withoutName(one.summary, name)}
      </span>
      <span class="dim facts-line">{facts.join(" · ")}</span>
      <span class="verbs">
        <Button
          onClick={() => navigate(address(["services", name, "logs"], { level: ERROR }))}
          label={`Show error in log: ${name}`}
        >
          Show error in log
        </Button>
        <Button
          busy={busy}
          why={whyNot()}
          onClick={() => void perform("restart", [name])}
          label={`Restart now: ${name}`}
        >
          Restart now
        </Button>
        <Button
          class="only-wide"
          onClick={() => void copyDiagnosis(name)}
          label={`Copy diagnosis: ${name}`}
        >
          Copy diagnosis
        </Button>
      </span>
    </li>
  );
}

function StateHistory({ range }: { range: Range }): JSX.Element {
  const to = Math.floor(Date.now() / 5000) * 5;
  const from = to - secondsOf(range);
  const drawn = useMemo(
    () =>
      [...strips(past.value, from, to, new Map())]
        .filter(([name, pieces]) => services.value.has(name) && isEventful(pieces))
        .sort((a, b) => b[1].length - a[1].length)
        .slice(0, MOST_STRIPS),
    [past.value, from, to],
  );
  return (
    <>
      <div class="panel-head plain-head">
        <h2>State history</h2>
        <span class="dim">last {range}, only services that changed</span>
      </div>
      <div class="panel-body strips" data-state={isPastLoaded.value ? "shown" : "loading"}>
        {drawn.length === 0 && <p class="dim">{isPastLoaded.value ? "Nothing changed." : ""}</p>}
        {drawn.map(([name, pieces]) => (
          <div key={name} class="strip-row">
            <a class="mono ellipsis" href={address(["services", name, "history"])}>
              {name}
            </a>
            <Strip name={name} pieces={pieces} from={from} to={to} />
          </div>
        ))}
        {drawn.length > 0 && <TimeAxis from={from} to={to} />}
      </div>
    </>
  );
}

function RecentEvents(): JSX.Element {
  const told = useMemo(() => {
    const found = [];
    for (let place = past.value.length - 1; place >= 0 && found.length < MOST_EVENTS; place--) {
      const event = past.value[place]!;
      const words = sentence(event);
      if (words) found.push({ event, words });
    }
    return found;
  }, [past.value]);
  return (
    <section class="panel" aria-label="Recent events">
      <div class="panel-head plain-head">
        <h2>Recent events</h2>
      </div>
      <ol class="events" tabIndex={0} aria-label="Recent events, the newest first">
        {told.map(({ event, words }) => (
          <li key={event.seq}>
            <time
              class="mono faint"
              dateTime={new Date(event.time * 1000).toISOString()}
              title={`${stamp(event.time)}, ${duration(Math.max(0, Date.now() / 1000 - event.time))} ago`}
            >
              {stamp(event.time).slice(11)}
            </time>
            <span class={`dot is-${words.tone}`} aria-hidden="true" />
            {event.service && services.value.has(event.service) ? (
              <a href={address(["services", event.service])}>{words.text}</a>
            ) : (
              <span>{words.text}</span>
            )}
            <span class="dim more">{words.more}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
