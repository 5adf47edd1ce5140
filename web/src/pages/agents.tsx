// AI backends and the sessions with them: what is said, what went wrong, and what helps.
import type { ComponentType, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AgentInfo, BackendInfo } from "../api.gen.ts";
import { type AgentEvent, type Paragraph, hear } from "../core/conversation.ts";
import type { Deed } from "../core/spelling.ts";
import { count } from "../core/time.ts";
import { type PageProps, address, navigate } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { approvals } from "../state/approvals.ts";
import { act, follow, isLive, may, read } from "../state/connection.ts";
import { fail, toast } from "../state/toasts.ts";
import { readable } from "../state/workflows.ts";
import { Problem, Show, useAsked } from "../ui/asking.tsx";
import { Button } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { diagnosis } from "../ui/diagnosis.ts";
import { Dialog, confirm } from "../ui/dialog.tsx";
import { State } from "../ui/icon.tsx";
import type { LogPanelProps } from "../ui/logpanel.tsx";
import { openMenu } from "../ui/menu.tsx";
import { Requests } from "../ui/requests.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";

const KINDS = /^(agent:|approval:|transition|config:|service:(added|removed)|supervisor:started)/;
const TABS = { chat: "Chat", output: "Output" } as const;
/** So many of the last events of a session are shown. */
const MOST_EVENTS = 4000;
const ALIVE = /^(running|starting|stopping|paused)$/;
const isAlive = ({ state }: AgentInfo) => ALIVE.test(state);

const VERBS = {
  interrupt: {
    command: "interrupt",
    icon: "pause",
    title: "Interrupt",
    why: (one: AgentInfo) => (one.is_working ? undefined : "no turn is under way"),
  },
  stop: {
    command: "stop_agent",
    icon: "stop",
    title: "Stop",
    why: (one: AgentInfo) => (isAlive(one) || one.state === "backoff" ? undefined : "it does not run"),
  },
  resume: {
    command: "resume_agent",
    icon: "play",
    title: "Resume",
    why: (one: AgentInfo) => (isAlive(one) ? "it runs" : undefined),
  },
  restart: { command: "restart_agent", icon: "restart", title: "Restart", why: () => undefined },
  fork: {
    command: "fork_agent",
    icon: "graph",
    title: "Fork",
    why: (one: AgentInfo) => (one.provider_id ? undefined : "it has no conversation yet"),
  },
} as const;
type Verb = keyof typeof VERBS;
const ALL = Object.keys(VERBS) as Verb[];

export default function Agents({ params, query }: PageProps): JSX.Element {
  const asked = useAsked(() => read("list_agents", {}), KINDS);
  const chosen = params.session;
  const one = asked.value?.agents.find(({ session, service }) => chosen === session || chosen === service);
  return (
    <div
      class={one ? "service-page" : "stack"}
      data-page="agents"
      data-state={asked.value || asked.error ? "shown" : "loading"}
    >
      <div class="page-head wraps">
        <h1>
          {chosen ? (
            <>
              <a href="agents">Agents</a> / {one?.service ?? chosen}
            </>
          ) : (
            "Agents"
          )}
        </h1>
        {one && <Words one={one} />}
        <span class="grow" />
        {one && <Verbs one={one} />}
      </div>
      <Show asked={asked}>
        {({ agents }) =>
          one ? (
            <One key={one.session} one={one} tab={params.tab === "output" ? "output" : "chat"} query={query} />
          ) : chosen ? (
            <div class="empty" data-state="missing">
              <p>There is no session {chosen}.</p>
              <a href="agents">All agents</a>
            </div>
          ) : (
            <>
              <Backends />
              <List all={agents} />
            </>
          )
        }
      </Show>
    </div>
  );
}

/** Running, Crashed or Stopped; beside it the finer condition. */
function Words({ one }: { one: AgentInfo }): JSX.Element {
  const word = isAlive(one) ? "Running" : /^(failed|backoff)$/.test(one.state) ? "Crashed" : "Stopped";
  const condition = one.condition.replaceAll("_", " ");
  return (
    <>
      <State state={one.state} word={word} />{" "}
      {condition !== word.toLowerCase() && <span class="chip">{condition}</span>}
    </>
  );
}

function whyNot(verb: Verb, one: AgentInfo): string | undefined {
  if (!may("operate")) return "it takes an operator";
  return isLive.value ? VERBS[verb].why(one) : "the connection is lost";
}

async function perform(verb: Verb, { session, service, is_working }: AgentInfo): Promise<void> {
  const { command, title } = VERBS[verb];
  const isHard = verb === "stop" || (verb === "restart" && is_working);
  const detail = `${is_working ? "It works on a turn, which ends. " : ""}Its conversation can be resumed.`;
  if (isHard && !(await confirm({ title: `${title} ${service}?`, detail, verb: title, danger: "some" }))) return;
  try {
    const { outcome, agent } = await act(command, { session });
    toast("ok", `${agent.service}: ${outcome.replaceAll("_", " ")}`);
    if (verb === "fork") navigate(address(["agents", agent.session]));
  } catch (error) {
    fail(error);
  }
}

function deedOf(verb: Verb, { session, service }: AgentInfo): Deed {
  return { cli: ["agent", verb, service], method: "POST", path: `api/agents/${session}/${verb}`, fields: {} };
}

function Verbs({ one }: { one: AgentInfo }): JSX.Element {
  const main = isAlive(one) ? "stop" : "resume";
  useEffect(
    () =>
      offer(
        ALL.flatMap((verb) => [
          {
            id: `${verb}:${one.session}`,
            group: "do" as const,
            icon: VERBS[verb].icon,
            title: `${VERBS[verb].title} ${one.service}`,
            run: () => whyNot(verb, one) ?? void perform(verb, one),
          },
          ...copyActions(`${VERBS[verb].title} ${one.service}`, deedOf(verb, one)),
        ]),
      ),
    [one],
  );
  return (
    <>
      {(["interrupt", main] as const).map((verb) => (
        <Button key={verb} why={whyNot(verb, one)} onClick={() => void perform(verb, one)}>
          {VERBS[verb].title}
        </Button>
      ))}
      <Button
        kind="plain"
        icon="more"
        hasMenu
        label={`More for ${one.service}`}
        onClick={(event) =>
          openMenu(event.currentTarget as HTMLElement, one.service, [
            ...ALL.map((verb) => ({
              title: VERBS[verb].title,
              icon: VERBS[verb].icon,
              why: whyNot(verb, one),
              run: () => void perform(verb, one),
            })),
            ...copyItems(deedOf(main, one)),
          ])
        }
      />
    </>
  );
}

/** What the configuration names, whether it can be used, and the command that helps. */
function Backends(): JSX.Element {
  const asked = useAsked(() => read("list_backends", {}), KINDS);
  const [isBusy, setBusy] = useState(false);
  const [begun, begin] = useState<BackendInfo | null>(null);
  const all = asked.value?.backends ?? [];
  useEffect(
    () =>
      offer(
        all.flatMap((one) => [
          {
            id: `start:${one.name}`,
            group: "do" as const,
            icon: "play" as const,
            title: `Start a session with ${one.name}…`,
            run: () => may("operate") && begin(one),
          },
          ...copyActions(`Start ${one.name}`, startOf(one)),
        ]),
      ),
    [asked.value],
  );
  async function check(): Promise<void> {
    setBusy(true);
    await read("list_backends", { probe: true }).catch(fail);
    setBusy(false);
    asked.again();
  }
  return (
    <section class="panel" aria-label="Backends">
      <div class="panel-head wraps">
        <h2 class="grow">Backends</h2>
        <Button busy={isBusy} onClick={() => void check()}>
          Check them
        </Button>
      </div>
      <Show asked={asked}>
        {() =>
          all.length === 0 ? (
            <div class="empty">
              <p>No AI backend yet. Declare one in the configuration:</p>
              <pre class="card">{"backends:\n  claude: claude"}</pre>
            </div>
          ) : (
            <div class="sideways" tabIndex={0} role="region" aria-label="Backends as a table">
              <table class="plain">
                <tbody>
                  {all.map((one) => (
                    <tr key={one.name} data-backend={one.name}>
                      <th scope="row" class="name">
                        {one.name}
                      </th>
                      <td class="dim">{[one.kind, one.model, one.version].filter(Boolean).join(" · ")}</td>
                      <td>
                        {one.failure ? (
                          <Trouble {...one} />
                        ) : one.path ? (
                          <span class="is-ok">{one.login === "yes" ? "logged in" : "installed"}</span>
                        ) : (
                          <span class="dim">not checked yet</span>
                        )}
                      </td>
                      <td class="num">
                        <Button
                          hasMenu
                          label={`More for ${one.name}`}
                          kind="plain"
                          icon="more"
                          onClick={(event) =>
                            openMenu(event.currentTarget as HTMLElement, one.name, copyItems(startOf(one)).slice(1))
                          }
                        />
                        {may("operate") && (
                          <Button label={`Start ${one.name}`} onClick={() => begin(one)}>
                            Start…
                          </Button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Show>
      {begun && <Begin name={begun.name} onClose={() => begin(null)} />}
    </section>
  );
}

function startOf({ name }: BackendInfo): Deed {
  return { cli: ["agent", "start", name], method: "POST", path: "api/agents", fields: { backend: name } };
}

type Wrong = Pick<AgentInfo, "failure" | "sentence" | "fix">;

function Trouble({ failure, sentence, fix }: Wrong): JSX.Element {
  return (
    <>
      <span class="is-bad">{readable(sentence ?? failure?.replaceAll("_", " ") ?? "")}</span>{" "}
      {fix && <code class="said">{readable(fix)}</code>}
    </>
  );
}

function Begin({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const [folder, setFolder] = useState("");
  const [worktree, setWorktree] = useState(false);
  async function start(event: Event): Promise<void> {
    event.preventDefault();
    onClose();
    try {
      const fields = { backend: name, working_dir: folder.trim(), worktree, new: true };
      const { agent } = await act("start_or_attach", fields);
      navigate(address(["agents", agent.session]));
    } catch (error) {
      fail(error);
    }
  }
  return (
    <Dialog title={`Start a session with ${name}`} onClose={onClose}>
      <form class="stack" onSubmit={(event) => void start(event)}>
        <label class="field">
          Folder
          <input
            class="input"
            autofocus
            placeholder="the project"
            value={folder}
            onInput={(event) => setFolder(event.currentTarget.value)}
          />
        </label>
        <label>
          <input type="checkbox" checked={worktree} onChange={() => setWorktree(!worktree)} /> In a git worktree of its
          own
        </label>
        <div class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Start
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function List({ all }: { all: readonly AgentInfo[] }): JSX.Element {
  return (
    <section class="panel" aria-label="Sessions">
      <div class="panel-head">
        <h2>Sessions</h2>
      </div>
      {all.length === 0 && <p class="empty">No session yet</p>}
      <div class="sideways" tabIndex={0} role="region" aria-label="Sessions as a table">
        <table class="plain">
          <tbody>
            {all.map((one) => (
              <tr key={one.session} data-agent={one.service}>
                <th scope="row">
                  <a class="name" href={address(["agents", one.session])}>
                    {one.service}
                  </a>
                </th>
                <td>
                  <Words one={one} />
                </td>
                <td>{one.sentence ? <Trouble {...one} /> : <span class="mono dim">{one.folder}</span>}</td>
                <td class="num">{spent(one)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function spent({ turn = 0, input_tokens = 0, output_tokens = 0, cost }: AgentInfo): string {
  return `${turn} turns, ${count(input_tokens + output_tokens)} tokens${cost ? `, ${cost.toFixed(2)} $` : ""}`;
}

function One(props: { one: AgentInfo; tab: keyof typeof TABS; query: URLSearchParams }): JSX.Element {
  const { one, tab, query } = props;
  const to = (key: string) => address(["agents", one.session, ...(key === "chat" ? [] : [key])]);
  return (
    <>
      {one.sentence && (
        <p class="card" role="status">
          <Trouble {...one} />
        </p>
      )}
      <Tabs
        label={`About ${one.service}`}
        current={tab}
        onChange={(key) => navigate(to(key))}
        tabs={Object.entries(TABS).map(([key, title]) => ({ key, title, href: to(key) }))}
      />
      <TabPanel current={tab} class="tab-body">
        {tab === "chat" ? <Chat one={one} /> : <Output name={one.service} query={query} />}
      </TabPanel>
    </>
  );
}

function Chat({ one }: { one: AgentInfo }): JSX.Element {
  const { session, service } = one;
  const said = useRef<Paragraph[]>([]);
  const [, show] = useState(0);
  const [error, setError] = useState<unknown>(null);
  const [isTold, again] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    let frame = 0;
    let last = Math.max(0, (one.events ?? 0) - MOST_EVENTS);
    said.current = [];
    setError(null);
    const onEvent = (event: AgentEvent) => {
      if (event.seq <= last) return;
      last = event.seq;
      if (hear(said.current, event))
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          show(last);
        });
    };
    const stop = follow("transcript", { session, after: last }, onEvent, setError);
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [isTold]);
  useLayoutEffect(() => {
    if (isAtEnd.current) list.current?.scrollTo(0, list.current.scrollHeight);
  });
  const waiting = (approvals.value?.waiting ?? []).filter((other) => other.session === session);
  return (
    <>
      {error !== null && <Problem error={error} again={() => again(isTold + 1)} />}
      <div
        class="talk"
        role="log"
        aria-label="Conversation"
        tabIndex={0}
        ref={list}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          isAtEnd.current = scrollTop + clientHeight > scrollHeight - 40;
        }}
      >
        {said.current.map((paragraph) => (
          <Said key={paragraph.seq} one={paragraph} />
        ))}
      </div>
      <Requests waiting={waiting} />
      {one.mode === "pty" ? (
        <a href={address(["services", service, "terminal"])}>It runs in a terminal</a>
      ) : (
        <PromptBox one={one} onSent={() => (isAtEnd.current = true)} />
      )}
    </>
  );
}

function Said({ one: { kind, text, input, state, tone } }: { one: Paragraph }): JSX.Element {
  const shown = useMemo(() => readable(text), [text]);
  if (kind === "tool" || kind === "thought")
    return (
      <details>
        <summary class="ellipsis">
          {state && <State state={state} />} <span class="mono">{input ? readable(input) : "Thought"}</span>
        </summary>
        <pre class="said">{input ? `${readable(input)}\n${shown}` : shown}</pre>
      </details>
    );
  return (
    <p class={`said ${kind === "note" ? `is-${tone ?? "idle"}` : ""}`} data-kind={kind}>
      {kind === "prompt" && <span class="sr">You: </span>}
      {shown}
    </p>
  );
}

function PromptBox({ one, onSent }: { one: AgentInfo; onSent: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const why = may("operate") ? (isLive.value ? undefined : "the connection is lost") : "it takes an operator";
  async function send(): Promise<void> {
    if (why || isBusy || !text.trim()) return;
    setBusy(true);
    try {
      await act("prompt", { session: one.session, text });
      setText("");
      onSent();
    } catch (error) {
      fail(error);
    }
    setBusy(false);
  }
  return (
    <div class="row">
      <textarea
        class="input grow"
        rows={2}
        aria-label={`Prompt for ${one.service}`}
        placeholder="Enter sends"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      <Button kind="primary" busy={isBusy} why={why} onClick={() => void send()}>
        Send
      </Button>
    </div>
  );
}

/** What is known of its last end, and everything that its process printed. */
function Output({ name, query }: { name: string; query: URLSearchParams }): JSX.Element {
  const [Panel, setPanel] = useState<ComponentType<LogPanelProps> | null>(null);
  const asked = useAsked(() => read("explain", { service: name }), KINDS, name);
  const found = asked.value?.explanations[0];
  useEffect(() => {
    void import("../ui/logpanel.tsx").then(({ LogPanel }) => setPanel(() => LogPanel));
  }, []);
  return (
    <>
      {found && (
        <details open={!found.is_fine}>
          <summary>{found.summary}</summary>
          <pre class="card said">{diagnosis(found)}</pre>
        </details>
      )}
      {Panel && <Panel services={[name]} query={query} />}
    </>
  );
}
