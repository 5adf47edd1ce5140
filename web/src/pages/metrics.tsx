// Since when, how much? Several services on one axis, restarts marked, states below.
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { hueOf } from "../core/hue.ts";
import { strips } from "../core/strips.ts";
import { type PageProps, address, setQuery } from "../routes.ts";
import { followPast, past } from "../state/past.ts";
import { isLoaded, services, watchUsage } from "../state/services.ts";
import { Button, Segments } from "../ui/button.tsx";
import { Icon } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { METRIC_RANGES, MetricCharts, type MetricRange, secondsOfRange } from "../views/metrics.tsx";
import { Strip, TimeAxis } from "../views/strip.tsx";

const MOST = 6;

export default function Metrics({ query }: PageProps): JSX.Element {
  useEffect(() => watchUsage(), []);
  useEffect(followPast, []);
  const range = (query.get("range") ?? "1h") as MetricRange;
  const asked = (query.get("s") ?? "").split(",").filter((name) => services.value.has(name));
  const busiest = useMemo(
    () =>
      [...services.value]
        .filter(([, one]) => one.pid !== null)
        .sort((a, b) => (b[1].cpu_percent ?? 0) - (a[1].cpu_percent ?? 0))
        .slice(0, 3)
        .map(([name]) => name),
    [isLoaded.value, services.value.size],
  );
  const names = asked.length ? asked.slice(0, MOST) : busiest;
  const choose = (next: readonly string[]) => setQuery({ s: next.join(",") });
  const others = [...services.value.keys()].filter((name) => !names.includes(name));
  return (
    <div class="stack" data-page="metrics" data-state={isLoaded.value ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Metrics</h1>
        {names.map((name) => (
          <button
            key={name}
            type="button"
            class="chip"
            aria-label={`Leave out ${name}`}
            onClick={() => choose(names.filter((one) => one !== name))}
          >
            <span class="dot" style={{ color: `var(--hue-${hueOf(name)})` }} aria-hidden="true" />
            {name} <Icon name="close" />
          </button>
        ))}
        <Button
          icon="plus"
          hasMenu
          why={names.length >= MOST ? `at most ${MOST} at a time` : undefined}
          onClick={(event) =>
            openMenu(
              event.currentTarget as HTMLElement,
              "Compare with",
              others.slice(0, 200).map((name) => ({ title: name, run: () => choose([...names, name]) })),
            )
          }
        >
          Compare
        </Button>
        <span class="grow" />
        <Segments
          label="Range"
          options={METRIC_RANGES}
          value={range}
          onChange={(value) => setQuery({ range: value === "1h" ? null : value })}
        />
      </div>
      {isLoaded.value && names.length === 0 && (
        <div class="empty">
          <p>No service runs, so there is nothing to measure.</p>
          <a class="button" href="services">
            Services
          </a>
        </div>
      )}
      {names.length > 0 && <MetricCharts names={names} range={range} />}
      {names.length > 0 && <States names={names} seconds={secondsOfRange(range)} />}
    </div>
  );
}

export function States({ names, seconds }: { names: readonly string[]; seconds: number }): JSX.Element {
  const to = Math.floor(Date.now() / 5000) * 5;
  const from = to - seconds;
  const found = useMemo(() => {
    const now = new Map(
      names.flatMap((name) => (services.value.has(name) ? [[name, services.value.get(name)!] as const] : [])),
    );
    return strips(
      past.value.filter((event) => event.service && names.includes(event.service)),
      from,
      to,
      now,
    );
  }, [past.value, names.join(), from, to]);
  return (
    <section class="card" aria-label="State history">
      <h2>State history on the same axis</h2>
      <div class="strips" style={{ marginTop: "10px" }}>
        {names.map((name) => (
          <div key={name} class="strip-row">
            <a class="mono ellipsis" href={address(["services", name, "history"])}>
              {name}
            </a>
            <Strip name={name} pieces={found.get(name) ?? []} from={from} to={to} />
          </div>
        ))}
        <TimeAxis from={from} to={to} />
      </div>
    </section>
  );
}
