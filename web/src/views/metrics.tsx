// Small multiples: one chart for each number, all on one time axis with one cursor.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { MetricPoint } from "../api.gen.ts";
import { hueOf } from "../core/hue.ts";
import { count, size } from "../core/time.ts";
import { isLive, read } from "../state/connection.ts";
import { past } from "../state/past.ts";
import { isDark } from "../state/prefs.ts";
import type { Chart, Series } from "./chart.ts";

export const METRIC_RANGES = [
  { value: "10m", title: "10m", seconds: 600 },
  { value: "1h", title: "1h", seconds: 3600 },
  { value: "6h", title: "6h", seconds: 21_600 },
  { value: "24h", title: "24h", seconds: 86_400 },
] as const;
export type MetricRange = (typeof METRIC_RANGES)[number]["value"];

interface Measure {
  key: string;
  title: string;
  of: (point: MetricPoint) => number;
  show: (value: number) => string;
  /** The axis reaches at least so far. */
  least: number;
}

const MEASURES: Measure[] = [
  {
    key: "cpu",
    title: "CPU",
    of: (point) => point.cpu_percent,
    show: (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)}%`,
    least: 1,
  },
  { key: "memory", title: "Memory", of: (point) => point.memory_bytes, show: size, least: 1e6 },
  { key: "threads", title: "Threads", of: (point) => point.threads, show: count, least: 4 },
  { key: "handles", title: "Open files", of: (point) => point.handles, show: count, least: 8 },
  {
    key: "read",
    title: "Storage read",
    of: (point) => point.read_bytes_per_second,
    show: (value) => `${size(value)}/s`,
    least: 1000,
  },
  {
    key: "written",
    title: "Storage written",
    of: (point) => point.written_bytes_per_second,
    show: (value) => `${size(value)}/s`,
    least: 1000,
  },
];
const EVERY_MS = 5000;

export function secondsOfRange(range: string | null): number {
  return METRIC_RANGES.find((one) => one.value === range)?.seconds ?? 3600;
}

interface History {
  times: number[];
  points: Map<string, Map<number, MetricPoint>>;
  from: number;
  to: number;
}

export function MetricCharts(props: { names: readonly string[]; range: string | null }): JSX.Element {
  const { names, range } = props;
  const [history, setHistory] = useState<History | null>(null);
  const [problem, setProblem] = useState("");
  const seconds = secondsOfRange(range);
  const key = names.join();
  useEffect(() => {
    let isOver = false;
    const load = async () => {
      if (document.hidden || !isLive.peek() || names.length === 0) return;
      try {
        const answer = await read("metrics", { services: [...names], history: seconds });
        if (isOver) return;
        setProblem("");
        setHistory(historyOf(answer.history ?? {}, seconds));
      } catch (error) {
        if (!isOver) setProblem(error instanceof Error ? error.message : String(error));
      }
    };
    void load();
    const timer = setInterval(load, EVERY_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [key, seconds]);
  if (problem)
    return (
      <p class="card is-bad" role="alert">
        The metrics cannot be shown: {problem}
      </p>
    );
  if (!history) return <div class="chart-grid" aria-busy="true" />;
  const inside = new Set(names);
  const marks = past.value
    .filter(
      (event) =>
        event.kind === "process:started" &&
        event.service &&
        inside.has(event.service) &&
        event.time >= history.from,
    )
    .map((event) => event.time);
  return (
    <div class="chart-grid" data-state="shown">
      {MEASURES.map((measure) => (
        <OneChart key={measure.key} measure={measure} names={names} history={history} marks={marks} />
      ))}
    </div>
  );
}

function historyOf(found: Record<string, MetricPoint[]>, seconds: number): History {
  const times = new Set<number>();
  const points = new Map<string, Map<number, MetricPoint>>();
  for (const [name, list] of Object.entries(found)) {
    const byTime = new Map<number, MetricPoint>();
    for (const point of list) {
      times.add(point.time);
      byTime.set(point.time, point);
    }
    points.set(name, byTime);
  }
  const to = Math.floor(Date.now() / 1000);
  return { times: [...times].sort((a, b) => a - b), points, from: to - seconds, to };
}

function OneChart(props: {
  measure: Measure;
  names: readonly string[];
  history: History;
  marks: number[];
}): JSX.Element {
  const { measure, names, history, marks } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  const [pointed, setPointed] = useState<(number | null)[] | null>(null);
  const [isTable, setTable] = useState(false);
  const dark = isDark.value;
  const series: Series[] = names.map((name) => ({
    name,
    colour: `--hue-${hueOf(name)}`,
    values: history.times.map((time) => {
      const point = history.points.get(name)?.get(time);
      return point ? measure.of(point) : null;
    }),
  }));
  const data = { times: history.times, series, marks, from: history.from, to: history.to };
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let isOver = false;
    void import("./chart.ts").then((module) => {
      if (isOver || !box.current) return;
      chart.current = new module.Chart(box.current, measure, setPointed);
      chart.current.set(latest.current);
    });
    return () => {
      isOver = true;
      chart.current?.dispose();
      chart.current = null;
    };
  }, [isTable]);
  useEffect(() => chart.current?.set(data), [history, names.join(), marks.length]);
  useEffect(() => chart.current?.build(), [dark]);
  const shown = series.map((one, place) => ({
    ...one,
    value: pointed ? (pointed[place] ?? null) : lastOf(one.values),
  }));
  const summary = series
    .map(
      (one) =>
        `${one.name}: now ${told(measure, lastOf(one.values))}, at most ${told(measure, mostOf(one.values))}`,
    )
    .join("; ");
  return (
    <section class="card" aria-label={measure.title}>
      <div class="chart-head">
        <h2>{measure.title}</h2>
        <div class="keys">
          {shown.slice(0, 6).map((one) => (
            <span key={one.name} class="key">
              <i style={{ background: `var(${one.colour})` }} />
              <span class="dim">{one.name}</span> <b>{told(measure, one.value)}</b>
            </span>
          ))}
        </div>
        <button
          type="button"
          class="button"
          data-kind="plain"
          aria-pressed={isTable}
          onClick={() => setTable(!isTable)}
        >
          {isTable ? "Chart" : "Table"}
        </button>
      </div>
      {isTable ? (
        <Numbers measure={measure} series={series} times={history.times} />
      ) : (
        <div class="chart" ref={box} role="img" aria-label={`${measure.title}. ${summary}`} />
      )}
    </section>
  );
}

function Numbers(props: { measure: Measure; series: Series[]; times: number[] }): JSX.Element {
  const rows = props.times
    .map((time, place) => ({ time, place }))
    .slice(-12)
    .reverse();
  return (
    <div
      class="chart"
      style={{ overflow: "auto" }}
      tabIndex={0}
      role="region"
      aria-label={`${props.measure.title} as a table`}
    >
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {props.series.map((one) => (
              <th key={one.name} scope="col" class="num">
                {one.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ time, place }) => (
            <tr key={time}>
              <td class="mono">{new Date(time * 1000).toLocaleTimeString("en-GB")}</td>
              {props.series.map((one) => (
                <td key={one.name} class="num">
                  {told(props.measure, one.values[place] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function told(measure: Measure, value: number | null): string {
  return value === null ? "–" : measure.show(value);
}

function lastOf(values: readonly (number | null)[]): number | null {
  for (let place = values.length - 1; place >= 0; place--) if (values[place] !== null) return values[place]!;
  return null;
}

function mostOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((a, b) => Math.max(a, b)) : null;
}
