// What do assistants do, and what do they ask? Approvals come first: a person is needed.
import type { JSX } from "preact";
import type { ApprovalInfo, SessionInfo } from "../api.gen.ts";
import { count, duration, stamp } from "../core/time.ts";
import { type PageProps, address, navigate } from "../routes.ts";
import { approvals, approvalsError, loadApprovals } from "../state/approvals.ts";
import { act, isLive, may, read } from "../state/connection.ts";
import { type AuditRecord, useRecords } from "../state/records.ts";
import { services } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { Problem, Show, useAsked } from "../ui/asking.tsx";
import { Button } from "../ui/button.tsx";
import { copyItems } from "../ui/copyas.ts";
import { confirm } from "../ui/dialog.tsx";
import { State } from "../ui/icon.tsx";
import { type MenuItem, openMenu } from "../ui/menu.tsx";
import { Requests, subjectOf } from "../ui/requests.tsx";

const KINDS = /^(session:|service:(added|removed|requested)|transition|supervisor:started)/;
const ENDS = {
  stop: "End it, stop its services…",
  keep: "End it, keep its services…",
  hand_over: "End it, take its services over…",
} as const;
const FATES = {
  stop: "What it started is stopped.",
  keep: "What it started runs on.",
  hand_over: "What it started runs on and is yours.",
} as const;
type Fate = keyof typeof FATES;

export default function Sessions({ params, query }: PageProps): JSX.Element {
  const asked = useAsked(() => read("list_sessions", {}), KINDS);
  const all = asked.value?.sessions ?? [];
  const chosen = params.session;
  return (
    <div class="stack" data-page="sessions" data-state={asked.value ? "shown" : "loading"}>
      <div class="page-head wraps">
        <h1>Sessions</h1>
        <span class="dim">
          {asked.value && `${count(all.length)} assistant${all.length === 1 ? "" : "s"} here`}
        </span>
        <span class="grow" />
        <a class="button" href="connect">
          Connect an assistant
        </a>
      </div>
      {may("operate") ? (
        <Inbox marked={query.get("approval")} />
      ) : (
        <p class="card dim">Approvals are for operators and admins: holdfast dashboard --role operator</p>
      )}
      <Show asked={asked}>
        {() =>
          all.length === 0 ? (
            <div class="empty">
              <p>No assistant is here.</p>
              <p>
                <a href="connect">Connect one</a>: what it starts belongs to its session, and ends with it.
              </p>
            </div>
          ) : (
            <List all={all} chosen={chosen} />
          )
        }
      </Show>
      {chosen && asked.value && <One info={all.find((one) => one.session === chosen)} />}
    </div>
  );
}

/** The inbox: who wants what on what, how long it waits, and the two answers. */
function Inbox({ marked }: { marked: string | null }): JSX.Element {
  const found = approvals.value;
  const waiting = found?.waiting ?? [];
  return (
    <section class="panel" aria-label="Approvals" data-state={found ? "shown" : "loading"}>
      <div class="panel-head wraps">
        <h2>Approvals</h2>
        <span class="dim">{found && (waiting.length ? `${waiting.length} wait for you` : "nothing waits")}</span>
      </div>
      {approvalsError.value !== null && found === null && (
        <Problem error={approvalsError.value} again={() => void loadApprovals()} />
      )}
      <Requests waiting={waiting} marked={marked} />
      {found && (found.over ?? []).length > 0 && <Over all={found.over!} />}
    </section>
  );
}

function Over({ all }: { all: readonly ApprovalInfo[] }): JSX.Element {
  return (
    <details class="panel-body">
      <summary>Decided: {all.length}</summary>
      <div class="sideways" tabIndex={0} role="region" aria-label="Decided requests">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Asked</th>
              <th scope="col">Who</th>
              <th scope="col">What</th>
              <th scope="col">Decision</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {all.map((one) => (
              <tr key={one.approval}>
                <td class="mono">{stamp(one.asked_at)}</td>
                <td>{one.actor}</td>
                <td class="mono">{subjectOf(one)}</td>
                <td class={one.state === "approved" ? "is-ok" : "is-idle"}>
                  {one.state}
                  {one.by && ` by ${one.by}`}
                  {one.outcome && one.outcome !== "done" && <div class="is-bad">{one.outcome}</div>}
                </td>
                <td>{one.why}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function List({ all, chosen }: { all: readonly SessionInfo[]; chosen: string | undefined }): JSX.Element {
  return (
    <section class="panel" aria-label="Sessions">
      <div class="sideways" tabIndex={0} role="region" aria-label="Sessions as a table">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Client</th>
              <th scope="col">Opened</th>
              <th scope="col">By</th>
              <th scope="col">Ends</th>
              <th scope="col">Runs for it</th>
              <th scope="col">
                <span class="sr">Verbs</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((one) => (
              <tr key={one.session} data-session={one.session} aria-current={one.session === chosen || undefined}>
                <td>
                  <a class="name" href={address(["sessions", one.session])}>
                    {one.client}
                  </a>{" "}
                  <span class="mono faint">{one.session.slice(8, 16)}</span>
                </td>
                <td class="mono">{stamp(one.opened_at)}</td>
                <td>{one.opened_by}</td>
                <td>
                  <End info={one} />
                </td>
                <td>{one.owns?.length ? one.owns.join(", ") : <span class="dim">nothing</span>}</td>
                <td>
                  <Button
                    kind="plain"
                    icon="more"
                    hasMenu
                    label={`More for ${one.client} ${one.session.slice(8, 16)}`}
                    onClick={(event) =>
                      openMenu(event.currentTarget as HTMLElement, `Session of ${one.client}`, menuOf(one))
                    }
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function End({ info }: { info: SessionInfo }): JSX.Element {
  return info.held ? (
    <span class="is-ok">connected</span>
  ) : (
    <span class="dim">silent, ends within {duration(info.expires_in ?? 0)}</span>
  );
}

function menuOf(info: SessionInfo): MenuItem[] {
  const why = may("administer") ? (isLive.value ? undefined : "the connection is lost") : "it takes an admin";
  const ends = (Object.keys(FATES) as Fate[]).map((fate) => ({
    title: ENDS[fate],
    icon: "close" as const,
    kind: "danger" as const,
    why,
    run: () => void end(info, fate),
  }));
  return [
    ...ends,
    ...copyItems({
      cli: ["sessions", "close", info.session],
      method: "POST",
      path: "api/sessions/close",
      fields: { session: info.session },
    }),
  ];
}

async function end({ session, client, owns = [] }: SessionInfo, fate: Fate): Promise<void> {
  const isHard = fate === "stop" && owns.length > 0;
  const what = owns.length ? `${FATES[fate]} (${owns.join(", ")})` : "Nothing runs for it.";
  const isSure = await confirm({
    title: `End the session of ${client}?`,
    detail: `Its token is refused from now on. ${what}`,
    verb: "End it",
    danger: isHard ? "high" : "some",
    name: client,
  });
  if (!isSure) return;
  try {
    await act("close_session", { session, fate });
    toast("ok", `The session of ${client} is over`);
  } catch (error) {
    fail(error);
  }
}

/** One session: what runs for it, and what it did. */
function One({ info }: { info: SessionInfo | undefined }): JSX.Element {
  if (!info)
    return (
      <div class="empty" data-state="missing">
        <p>This session is over.</p>
        <Button onClick={() => navigate("sessions")}>All sessions</Button>
      </div>
    );
  return (
    <section class="panel" aria-label={`Session of ${info.client}`}>
      <div class="panel-head wraps">
        <h2>{info.client}</h2>
        <span class="mono dim">{info.session}</span>
        <span class="grow" />
        <Button
          hasMenu
          onClick={(event) => openMenu(event.currentTarget as HTMLElement, `Session of ${info.client}`, menuOf(info))}
        >
          End…
        </Button>
      </div>
      <div class="panel-body">
        <dl class="facts">
          <dt>Role</dt>
          <dd>{info.role}</dd>
          <dt>At its end</dt>
          <dd>{FATES[info.fate]}</dd>
          <dt>Runs for it</dt>
          <dd>
            {info.owns?.length
              ? info.owns.map((name) => (
                  <span key={name} class="service-state">
                    <a href={address(["services", name])}>{name}</a>{" "}
                    <State state={services.value.get(name)?.status ?? ""} />
                  </span>
                ))
              : "nothing"}
          </dd>
        </dl>
        <h3>Calls</h3>
        <Calls session={info.session} />
      </div>
    </section>
  );
}

function Calls({ session }: { session: string }): JSX.Element {
  const records = useRecords((one) => one.session === session, session, 60);
  if (!may("administer")) return <p class="dim">The record of calls is for admins.</p>;
  if (!records?.length) return <p class="dim">Nothing is on record yet; a look at states is not recorded.</p>;
  return (
    <div class="sideways" tabIndex={0} role="region" aria-label="Calls">
      <table class="plain">
        <tbody>
          {records.map((one) => (
            <tr key={one.seq}>
              <td class="mono faint">{stamp(one.time)}</td>
              <td class="mono">{one.command}</td>
              <td class="mono dim cut">{one.arguments ? JSON.stringify(one.arguments) : ""}</td>
              <td class={toneOf(one)}>
                {one.decision === "allowed" ? one.outcome : `${one.decision}: ${one.reason}`}
              </td>
              <td class="num">{duration(one.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function toneOf(record: AuditRecord): string {
  return record.decision === "allowed" && record.outcome === "ok" ? "is-ok" : "is-bad";
}
