// What is started at its times: when next, how the last run ended, which times were left out.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ConfigValue, ServiceStatus } from "../api.gen.ts";
import { ago, duration, stamp } from "../core/time.ts";
import { type PageProps, address, navigate } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { may, read } from "../state/connection.ts";
import { followGraph, graph } from "../state/graph.ts";
import { followPast, isPastLoaded, past } from "../state/past.ts";
import { type HoldfastEvent, isLoaded, onEvent, services } from "../state/services.ts";
import { deedOf, perform, requests, whyNot, wordOf } from "../state/verbs.ts";
import { Button } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { State } from "../ui/icon.tsx";
import { type MenuItem, openMenu } from "../ui/menu.tsx";

type Plan = Record<string, unknown>;

const LATEST = 100;

export default function Schedules({ query }: PageProps): JSX.Element {
  useEffect(followPast, []);
  useEffect(() => followGraph(), []);
  const plans = usePlans();
  useTick();
  const rows = [...services.value]
    .filter(([name, one]) => one.next_scheduled !== undefined || planOf(name, plans) !== undefined)
    .sort(([, a], [, b]) => timeOf(a) - timeOf(b));
  const names = rows.map(([name]) => name);
  const chosen = query.get("s");
  const happened = past.value
    .filter(({ kind, service }) => kind.startsWith("schedule:") && (!chosen || service === chosen))
    .slice(-LATEST)
    .reverse();
  useEffect(
    () =>
      offer(
        names.flatMap((name) => [
          {
            id: `run:${name}`,
            group: "do" as const,
            title: `Run ${name} now`,
            icon: "play" as const,
            run: () => void perform("start", [name]),
          },
          ...copyActions(`Run ${name} now`, deedOf("start", [name])),
        ]),
      ),
    [names.join()],
  );
  const isShown = isLoaded.value && isPastLoaded.value && plans !== null;
  return (
    <div class="stack" data-page="schedules" data-state={isShown ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Schedules</h1>
      </div>
      <p class="dim">Times are those of this browser.</p>
      {isShown && rows.length === 0 && (
        <div class="empty card">
          <p>No service has a schedule. One that has is started at its times:</p>
          <pre class="left">{"services:\n  backup:\n    command: ./backup\n    schedule: 30 3 * * *"}</pre>
        </div>
      )}
      {rows.length > 0 && (
        <section class="card" aria-label="Scheduled services">
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Schedules as a table">
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Service</th>
                  <th scope="col">Schedule</th>
                  <th scope="col">Next</th>
                  <th scope="col">State</th>
                  <th scope="col">Last run</th>
                  <th scope="col">
                    <span class="sr">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map(([name, one]) => (
                  <Row key={name} name={name} one={one} plan={planOf(name, plans)} />
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      <section class="card" aria-label="What happened">
        <div class="row">
          <h2 class="grow">What happened{chosen ? ` to ${chosen}` : ""}</h2>
          {chosen && <a href="schedules">Of all services</a>}
        </div>
        {isShown && happened.length === 0 && <p class="dim">No time has come yet.</p>}
        {happened.length > 0 && (
          <table class="plain">
            <tbody>
              {happened.map((event) => (
                <Happened key={event.seq} event={event} />
              ))}
            </tbody>
          </table>
        )}
      </section>
    </div>
  );
}

function Row({ name, one, plan }: { name: string; one: ServiceStatus; plan: Plan | undefined }): JSX.Element {
  const isArmed = one.desired === "running" && one.next_scheduled !== undefined;
  const isUp = one.pid !== null;
  const menu: MenuItem[] = [
    { title: "Run now", icon: "play", why: whyNot("start", one), run: () => void perform("start", [name]) },
    {
      title: "Suspend…",
      icon: "pause",
      why: whyNot() ?? (isArmed ? undefined : "it is not scheduled now"),
      run: () => void perform("stop", [name]),
    },
    "line",
    { title: "History", icon: "clock", run: () => navigate(address(["services", name, "history"])) },
    { title: "Logs", icon: "logs", run: () => navigate(address(["services", name, "logs"])) },
    { title: "Its times", icon: "schedules", run: () => navigate(address(["schedules"], { s: name })) },
    ...copyItems(deedOf("start", [name])),
  ];
  return (
    <tr data-schedule={name} data-armed={isArmed || undefined}>
      <td>
        <a class="name" href={address(["services", name])}>
          {name}
        </a>
      </td>
      <td class="mono">{plan ? wordsOf(plan) : <span class="faint">–</span>}</td>
      <td class="nowrap" title={isArmed ? stamp(one.next_scheduled!) : undefined}>
        {isArmed ? ago(one.next_scheduled!) : <span class="is-warn">suspended; Run now takes it up again</span>}
      </td>
      <td class="nowrap">
        <State state={wordOf(name, one)} word={isUp || !isArmed ? wordOf(name, one) : "waits for its time"} />
      </td>
      <td>{lastOf(one)}</td>
      <td>
        <span class="row-verbs">
          {may("operate") && (
            <Button
              busy={requests.value.has(name)}
              why={whyNot("start", one)}
              label={`Run now: ${name}`}
              onClick={() => void perform("start", [name])}
            >
              Run now
            </Button>
          )}
          <Button
            icon="more"
            label={`More for ${name}`}
            hasMenu
            onClick={(event) => openMenu(event.currentTarget as HTMLElement, name, menu)}
          />
        </span>
      </td>
    </tr>
  );
}

function Happened({ event }: { event: HoldfastEvent }): JSX.Element {
  const isSkipped = event.kind === "schedule:skipped";
  const name = event.service ?? "";
  return (
    <tr>
      <td class="mono nowrap" title={ago(event.time)}>
        {stamp(event.data.due ?? event.time)}
      </td>
      <td>
        <a href={address(["services", name, "history"])}>{name}</a>
      </td>
      <td class={isSkipped ? "is-warn" : undefined}>{isSkipped ? "left out" : "started"}</td>
      <td class="dim">{event.data.reason}</td>
    </tr>
  );
}

function lastOf(one: ServiceStatus): string {
  if (one.pid !== null) return `runs since ${ago(one.since)}`;
  if (one.signal) return `ended by ${one.signal}, ${ago(one.since)}`;
  return one.exit_code === null ? "–" : `exit code ${one.exit_code}, ${ago(one.since)}`;
}

function timeOf(one: ServiceStatus): number {
  return one.next_scheduled ?? Number.POSITIVE_INFINITY;
}

/** `every 20s`, `30 3 * * * Europe/Berlin`. */
function wordsOf(plan: Plan): string {
  const { cron, every, timezone, overlap, catch_up: catchUp } = plan;
  const when = cron ?? (typeof every === "number" ? `every ${duration(every)}` : `every ${String(every)}`);
  return [when, timezone, overlap === "allow" && "may overlap", catchUp && "catches up"]
    .filter(Boolean)
    .join(" · ");
}

function planOf(name: string, plans: ReadonlyMap<string, Plan> | null): Plan | undefined {
  return plans?.get(graph.value[name]?.template ?? name) ?? plans?.get(name);
}

/** What the configuration says of times, by service; a viewer may not see it. */
function usePlans(): ReadonlyMap<string, Plan> | null {
  const [plans, setPlans] = useState<ReadonlyMap<string, Plan> | null>(null);
  useEffect(() => {
    const load = () => {
      if (!may("operate")) return setPlans(new Map());
      read("config", {}).then(
        (answer) => setPlans(gather(answer.values)),
        () => setPlans((before) => before ?? new Map()),
      );
    };
    load();
    return onEvent((event) => event.kind === "config:reloaded" && load());
  }, []);
  return plans;
}

function gather(values: readonly ConfigValue[]): Map<string, Plan> {
  const found = new Map<string, Plan>();
  for (const { path, value } of values) {
    const at = path.indexOf("schedule");
    const name = path[at - 1];
    if (at < 0 || name === undefined || path[at - 2] !== "services") continue;
    const key = path[at + 1] ?? "cron";
    found.set(name, { ...found.get(name), [key]: value });
  }
  return found;
}

/** Times in words are renewed every second. */
function useTick(): void {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || tick((times) => times + 1), 1000);
    return () => clearInterval(timer);
  }, []);
}
