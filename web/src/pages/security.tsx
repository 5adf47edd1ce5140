// Advanced mode: the lockdown, policies, filters, what was refused and how often. In proxy mode: what
// advanced mode adds.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { FilterSpec, PoliciesResult, PolicySpec, SecurityMetrics, Window } from "../api.gen.ts";
import type { Deed } from "../core/spelling.ts";
import { ago, count, duration, stamp } from "../core/time.ts";
import { type PageProps, address, navigate } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { act, isLive, may, read } from "../state/connection.ts";
import { isLoaded, onEvent, refresh, supervisor } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { Button } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { confirm } from "../ui/dialog.tsx";
import { Icon, State } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";

const TABS = { lockdown: "Lockdown", policies: "Policies", filters: "Filters", refusals: "Refusals" } as const;
type Tab = keyof typeof TABS;

export default function Security({ params }: PageProps): JSX.Element {
  const tab = params.tab !== undefined && params.tab in TABS ? (params.tab as Tab) : "lockdown";
  const told = useSecurity();
  const mode = supervisor.value?.runtime_mode;
  const lockdown = supervisor.value?.lockdown as { reason?: string; by?: string; since?: number } | undefined;
  useEffect(
    () =>
      offer([
        { id: "lockdown", group: "do", title: "Lockdown…", icon: "security", run: () => navigate("security/lockdown") },
        { id: "mode", group: "do", title: `Switch to mode ${other(mode)}…`, run: () => void switchMode(mode) },
        ...(Object.keys(TABS) as Tab[]).map((one) => ({
          id: `security:${one}`,
          group: "go" as const,
          title: `Security: ${TABS[one]}`,
          run: () => navigate(address(["security", one])),
        })),
        ...copyActions("Lockdown", LOCKDOWN),
        ...copyActions("Unlock", UNLOCK),
      ]),
    [mode],
  );
  const isShown = isLoaded.value && told !== null;
  return (
    <div class="stack" data-page="security" data-mode={mode} data-state={isShown ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Security</h1>
        <span class="chip">mode {mode}</span>
        <span class="grow" />
        <Button why={whyNot()} onClick={() => void switchMode(mode)}>
          Switch to {other(mode)}…
        </Button>
        <Button
          icon="more"
          label="More"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Security", [
              { title: `Switch to ${other(mode)}…`, why: whyNot(), run: () => void switchMode(mode) },
              ...copyItems(modeDeed(other(mode))),
            ])
          }
        />
      </div>
      {mode === "proxy" ? (
        <WhatIsAdded />
      ) : (
        <>
          <Tabs
            label="Security"
            current={tab}
            onChange={(key) => navigate(address(["security", key]))}
            tabs={(Object.keys(TABS) as Tab[]).map((key) => ({
              key,
              title: TABS[key],
              href: address(["security", key]),
            }))}
          />
          <TabPanel current={tab} class="stack">
            {told?.problem && (
              <p class="card" role="alert">
                {told.problem}
              </p>
            )}
            {tab === "lockdown" && <Lockdown lockdown={lockdown} metrics={told?.metrics} />}
            {tab === "policies" && told?.policies && <Policies list={told.policies.policies ?? []} />}
            {tab === "filters" && told?.policies && <Filters filters={told.policies.filters ?? null} />}
            {tab === "refusals" && <Refusals metrics={told?.metrics} />}
          </TabPanel>
        </>
      )}
    </div>
  );
}

const REASON = "a token leaked";
const LOCKDOWN: Deed = {
  cli: ["lockdown", "--reason", REASON],
  method: "POST",
  path: "api/lockdown",
  fields: { reason: REASON },
};
const UNLOCK: Deed = { cli: ["unlock"], method: "POST", path: "api/unlock" };

function modeDeed(mode: string): Deed {
  return { cli: ["mode", mode], method: "POST", path: "api/mode", fields: { mode } };
}

function other(mode: string | undefined): "proxy" | "advanced" {
  return mode === "advanced" ? "proxy" : "advanced";
}

/** Why an admin's deed cannot be done now. */
function whyNot(): string | undefined {
  if (!may("administer")) return "it takes an admin";
  return isLive.value ? undefined : "the connection is lost";
}

async function switchMode(mode: string | undefined): Promise<void> {
  const to = other(mode);
  const question = {
    title: `Switch to mode ${to}?`,
    detail:
      "The supervisor is replaced by one of that mode; this page comes back by itself. Services go on, but " +
      "those that follow the mode are restarted.",
    verb: `Switch to ${to}`,
    danger: "some" as const,
  };
  if (whyNot() || !(await confirm(question))) return;
  try {
    await act("set_mode", { mode: to });
    refresh();
  } catch (error) {
    fail(error);
  }
}

function WhatIsAdded(): JSX.Element {
  return (
    <section class="card" aria-label="What advanced mode adds">
      <h2>Mode proxy has the core: roles, limits of tokens, allowlists, redaction, and the audit</h2>
      <p>Mode advanced adds to it, for everybody and over every role:</p>
      <dl class="facts">
        <dt>Lockdown</dt>
        <dd>one button stops every change from every door until an admin unlocks</dd>
        <dt>Policies</dt>
        <dd>who may do what to which service at which time; some requests wait for a second person</dd>
        <dt>Filters</dt>
        <dd>requests with words that are forbidden, too long, or with control characters are refused</dd>
        <dt>Refusals</dt>
        <dd>what was refused, by reason, door and role; approvals by their end</dd>
      </dl>
      <p class="dim">
        Restrictions are written in the configuration under <code>policies:</code> and <code>security:</code>; see
        what was done so far in the <a href="audit">audit</a>.
      </p>
      <Button kind="primary" why={whyNot()} onClick={() => void switchMode("proxy")}>
        Switch to advanced…
      </Button>
    </section>
  );
}

function Lockdown(props: {
  lockdown: { reason?: string; by?: string; since?: number } | undefined;
  metrics: SecurityMetrics | undefined;
}): JSX.Element {
  const { lockdown, metrics } = props;
  const [reason, setReason] = useState("");
  const [isBusy, setBusy] = useState(false);

  async function perform(ask: () => Promise<{ message: string }>): Promise<void> {
    setBusy(true);
    try {
      toast("ok", (await ask()).message);
      setReason("");
      refresh();
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  }

  async function lock(): Promise<void> {
    const question = {
      title: "Lock everything down?",
      detail:
        "Every change from every door is refused until an admin unlocks. Assistants lose their sessions, " +
        "workflows and waiting approvals are cancelled. Services go on.",
      verb: "Lock down",
      danger: "high" as const,
      name: "lockdown",
    };
    if (await confirm(question)) await perform(() => act("lockdown", { reason: reason.trim() }));
  }

  async function unlock(): Promise<void> {
    const question = {
      title: "End the lockdown?",
      detail: `It began ${lockdown?.since ? ago(lockdown.since) : "before"}: ${lockdown?.reason}`,
      verb: "Unlock",
      danger: "some" as const,
    };
    if (await confirm(question)) await perform(() => act("unlock", {}));
  }

  const isReady = reason.trim() !== "";
  return (
    <>
      {lockdown ? (
        <section class="card lockdown" data-locked aria-label="Lockdown">
          <h2>
            <Icon name="security" /> Locked down
          </h2>
          <p>
            <b>{lockdown.reason}</b>
            <span class="dim">
              {" "}
              · by {lockdown.by}
              {lockdown.since ? `, ${stamp(lockdown.since)} (${ago(lockdown.since)})` : ""}
            </span>
          </p>
          <p>Every change is refused. Admins may still stop things; what runs goes on.</p>
          <Button class="huge" kind="primary" busy={isBusy} why={whyNot()} onClick={() => void unlock()}>
            Unlock…
          </Button>
        </section>
      ) : (
        <form
          class="card lockdown"
          aria-label="Lockdown"
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady && !whyNot()) void lock();
          }}
        >
          <h2>Stop every change, now</h2>
          <p>
            Every change from every door is refused until an admin unlocks; it survives every restart. Services go
            on and are restarted when they crash.
          </p>
          <label>
            Reason{" "}
            <input
              class="input"
              required
              maxLength={500}
              autocomplete="off"
              placeholder={REASON}
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          </label>
          <Button
            class="huge"
            kind="danger"
            type="submit"
            busy={isBusy}
            why={whyNot() ?? (isReady ? undefined : "write the reason first")}
          >
            <Icon name="security" /> Lock down…
          </Button>
        </form>
      )}
      <div class="figures">
        <Figure title="Lockdowns so far" value={metrics?.lockdowns} />
        <Figure title="Refusals" value={metrics && total(metrics)} href="security/refusals" />
        <Figure title="Approvals waiting" value={metrics?.approvals_waiting} href="sessions" />
      </div>
    </>
  );
}

function total(metrics: SecurityMetrics): number {
  return metrics.refusals.reduce((sum, one) => sum + Number(one.count), 0);
}

function Figure(props: { title: string; value: number | undefined; href?: string }): JSX.Element {
  return (
    <section class="card figure" aria-label={props.title}>
      <div class="dim">{props.href ? <a href={props.href}>{props.title}</a> : props.title}</div>
      <div class="big">{props.value === undefined ? "–" : count(props.value)}</div>
    </section>
  );
}

const EFFECTS: Record<string, [state: string, word: string]> = {
  deny: ["failed", "denies"],
  confirm: ["paused", "asks for approval"],
  allow: ["done", "allows"],
};

function Policies({ list }: { list: readonly PolicySpec[] }): JSX.Element {
  if (list.length === 0)
    return (
      <div class="empty card">
        <p>No policy is in force. The first one that is about a request decides:</p>
        <pre class="left">
          {"policies:\n  - effect: confirm\n    commands: [stop, restart]\n    tags: [data]\n"}
          {"    reason: the data is the team's"}
        </pre>
      </div>
    );
  return (
    <section class="card" aria-label="Policies">
      <p class="dim">The first that is about a request decides. What is not said is anybody's and anything.</p>
      <Scroll label="Policies as a table">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">#</th>
              <th scope="col">Policy</th>
              <th scope="col">Effect</th>
              <th scope="col">About</th>
              <th scope="col">Reason</th>
            </tr>
          </thead>
          <tbody>
            {list.map((one, place) => (
              <tr key={one.name} data-policy={one.name}>
                <td class="mono faint">{place + 1}</td>
                <td>{one.name}</td>
                <td class="nowrap">
                  <State state={EFFECTS[one.effect]![0]} word={EFFECTS[one.effect]![1]} />
                </td>
                <td>{aboutOf(one)}</td>
                <td class="dim">
                  {one.reason}
                  {one.effect === "confirm" &&
                    ` (an ${one.approvers ?? "admin"} within ${duration(one.approve_within ?? 600)})`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

const SUBJECTS = ["actors", "roles", "doors", "commands", "services", "tags", "paths", "tools"] as const;

function aboutOf(one: PolicySpec): ComponentChildren {
  const parts = SUBJECTS.filter((key) => one[key]?.length).map((key) => (
    <span key={key} class="about">
      <span class="dim">{key}</span> <span class="mono">{one[key]!.join(" ")}</span>
    </span>
  ));
  const times = (one.times ?? []).map(windowOf).join("; ");
  if (times)
    parts.push(
      <span key="times" class="about">
        <span class="dim">times</span> {times}
      </span>,
    );
  return parts.length ? parts : "everything";
}

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

function windowOf({ days = [], begin = 0, end = 1440, zone }: Window): string {
  const when = days.length === 7 || days.length === 0 ? "daily" : days.map((day) => DAYS[day]).join(" ");
  return `${when} ${minutes(begin)}–${minutes(end)}${zone ? ` ${zone}` : ""}`;
}

function minutes(since: number): string {
  return `${String(Math.floor(since / 60)).padStart(2, "0")}:${String(since % 60).padStart(2, "0")}`;
}

function Filters({ filters }: { filters: FilterSpec | null }): JSX.Element {
  if (!filters)
    return (
      <div class="empty card">
        <p>No filter is in force. Filters refuse requests by what their arguments hold:</p>
        <pre class="left">{'security:\n  filters: {max_length: 10000, forbid: ["*rm -rf*"]}'}</pre>
      </div>
    );
  return (
    <section class="card" aria-label="Filters">
      <p>A request is refused if an argument</p>
      <dl class="facts">
        <dt>is longer than</dt>
        <dd>{filters.max_length ? `${count(filters.max_length)} characters` : "any length is taken"}</dd>
        <dt>holds control characters</dt>
        <dd>{filters.control_characters === false ? "yes, it is refused" : "they are taken"}</dd>
        <dt>matches</dt>
        <dd class="mono">
          {(filters.forbid ?? []).map((one) => <div key={one}>{one}</div>)}
          {!filters.forbid?.length && "nothing is forbidden"}
        </dd>
      </dl>
      <p class="dim">Filters catch accidents and known bad lines; they are no wall.</p>
    </section>
  );
}

function Refusals({ metrics }: { metrics: SecurityMetrics | undefined }): JSX.Element {
  const rows = [...(metrics?.refusals ?? [])].sort((a, b) => Number(b.count) - Number(a.count));
  const ends = Object.entries(metrics?.approvals ?? {});
  return (
    <>
      <section class="card" aria-label="Refusals">
        <div class="row">
          <h2 class="grow">What was refused</h2>
          <a href="audit?decision=refused">Each of them, in the audit</a>
        </div>
        {rows.length === 0 ? (
          <p class="dim">Nothing was refused.</p>
        ) : (
          <Scroll label="Refusals as a table">
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">Reason</th>
                  <th scope="col">Door</th>
                  <th scope="col">Role</th>
                  <th scope="col" class="num">
                    How often
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((one) => (
                  <tr key={`${one.reason} ${one.door} ${one.role}`}>
                    <td>{String(one.reason)}</td>
                    <td>{String(one.door)}</td>
                    <td>{String(one.role)}</td>
                    <td class="num">{count(Number(one.count))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </section>
      <section class="card" aria-label="Approvals">
        <h2>Approvals</h2>
        <dl class="facts">
          <dt>waiting</dt>
          <dd>{count(metrics?.approvals_waiting ?? 0)}</dd>
          {ends.map(([end, often]) => (
            <>
              <dt key={end}>{end}</dt>
              <dd>{count(often)}</dd>
            </>
          ))}
        </dl>
      </section>
    </>
  );
}

function Scroll({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      {children}
    </div>
  );
}

interface Told {
  policies: PoliciesResult | null;
  metrics: SecurityMetrics | undefined;
  problem: string;
}

const GATHER_MS = 300;
const KINDS = /^(lockdown|approval|config|mode|supervisor):/;
/** Refusals are counted, not announced; this long a count may be old. */
const COUNT_MS = 5000;

function useSecurity(): Told | null {
  const [told, setTold] = useState<Told | null>(null);
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async () => {
      timer = undefined;
      const next: Told = { policies: null, metrics: undefined, problem: "" };
      try {
        next.metrics = (await read("metrics", {})).security;
        next.policies = await read("policies", {});
      } catch (error) {
        next.problem = error instanceof Error ? error.message : String(error);
      }
      if (!isOver) setTold(next);
    };
    void load();
    const stop = onEvent((event) => {
      if (KINDS.test(event.kind)) timer ??= setTimeout(load, GATHER_MS);
    });
    const counts = setInterval(() => document.hidden || !isLive.peek() || void load(), COUNT_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
      clearInterval(counts);
      stop();
    };
  }, []);
  return told;
}
