// Other MCP servers behind Holdfast: their state, tools, changes that are held, calls, and a trial.
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { HeldTool, McpCallResult, McpServerInfo, McpToolInfo } from "../api.gen.ts";
import { type FormField, fieldsOf, filled } from "../core/schemaform.ts";
import type { Deed } from "../core/spelling.ts";
import { ago, count, duration, size, stamp } from "../core/time.ts";
import { type PageProps, address, navigate, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { act, isLive, may, read } from "../state/connection.ts";
import { type AuditRecord, useRecords } from "../state/records.ts";
import { services } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { menuOf } from "../state/verbs.ts";
import { Show, useAsked, useNow } from "../ui/asking.tsx";
import { Button } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { confirm } from "../ui/dialog.tsx";
import { State } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";

const KINDS = /^(mcp:|transition|config:|process:|supervisor:started|approval:)/;
/** What changes the tools of one server. */
const OFFERS = /^(mcp:|config:|supervisor:started|approval:)/;
const CALLS = new Set(["call_mcp_tool", "read_mcp_tool"]);
const MOST_TOOLS = 500;
type Tab = "tools" | "held" | "calls" | "try";

export default function McpServersPage({ params, query }: PageProps): JSX.Element {
  const asked = useAsked(() => read("mcp_servers", {}), KINDS);
  const records = useRecords((one) => CALLS.has(one.command), "mcp", 200);
  const newest = records?.[0]?.seq;
  useEffect(() => {
    if (newest !== undefined) asked.again();
  }, [newest]);
  const all = asked.value?.servers ?? [];
  const chosen = params.server;
  const one = all.find(({ name }) => name === chosen);
  return (
    <div class="stack" data-page="mcp" data-state={asked.value || asked.error ? "shown" : "loading"}>
      <div class="page-head wraps">
        <h1>
          {chosen ? (
            <>
              <a href="mcp">MCP servers</a> / {chosen}
            </>
          ) : (
            "MCP servers"
          )}
        </h1>
        {one && <State state={one.state} />}
        {one && <Notes server={one} />}
        <span class="grow" />
        {one && <Verbs server={one} />}
      </div>
      <Show asked={asked}>
        {({ gate }) => (
          <>
            {gate === false && all.length > 0 && (
              <p class="card is-warn">No gate runs, so nobody speaks with the servers now.</p>
            )}
            {all.length === 0 ? (
              <Nothing />
            ) : chosen === undefined ? (
              <List all={all} />
            ) : one ? (
              <One
                key={one.name}
                server={one}
                tab={(params.tab ?? (one.held ? "held" : "tools")) as Tab}
                query={query}
                records={records}
                again={asked.again}
              />
            ) : (
              <div class="empty" data-state="missing">
                <p>There is no MCP server {chosen}.</p>
                <a href="mcp">All MCP servers</a>
              </div>
            )}
          </>
        )}
      </Show>
    </div>
  );
}

/** What is beside its state; how many tools are held has a place of its own. */
function Notes({ server }: { server: McpServerInfo }): JSX.Element {
  const notes = (server.notes ?? []).filter((note) => !note.endsWith("held"));
  return <span class="dim">{notes.join(", ")}</span>;
}

function Nothing(): JSX.Element {
  return (
    <div class="empty">
      <p>No MCP server yet. Declare one in the configuration:</p>
      <pre class="card">{"mcp_servers:\n  files: npx -y @modelcontextprotocol/server-filesystem ."}</pre>
      <p>Assistants then have its tools beside Holdfast's own, and a crash of it breaks no session.</p>
    </div>
  );
}

function List({ all }: { all: readonly McpServerInfo[] }): JSX.Element {
  const now = useNow(30_000);
  return (
    <section class="panel" aria-label="MCP servers">
      <div class="sideways" tabIndex={0} role="region" aria-label="MCP servers as a table">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col" class="num">
                Tools
              </th>
              <th scope="col" class="num">
                Held
              </th>
              <th scope="col" class="num">
                Calls
              </th>
              <th scope="col" class="num">
                Failed
              </th>
              <th scope="col" class="num">
                Median
              </th>
              <th scope="col">Last call</th>
              <th scope="col">
                <span class="sr">Verbs</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {all.map((one) => (
              <tr key={one.name} data-server={one.name}>
                <td>
                  <a class="name" href={address(["mcp", one.name])}>
                    {one.name}
                  </a>{" "}
                  <span class="dim">{one.transport}</span>
                </td>
                <td>
                  <State state={one.state} />
                  {one.reason && <div class="dim">{one.reason}</div>}
                  <div>
                    <Notes server={one} />
                  </div>
                </td>
                <td class="num">{one.tools}</td>
                <td class={`num ${one.held ? "is-warn" : ""}`}>
                  {one.held ? <a href={address(["mcp", one.name, "held"])}>{one.held}</a> : 0}
                </td>
                <td class="num">{count(one.calls ?? 0)}</td>
                <td class={`num ${one.failed_calls ? "is-bad" : ""}`}>{count(one.failed_calls ?? 0)}</td>
                <td class="num">{one.p50_ms == null ? "–" : duration(one.p50_ms / 1000)}</td>
                <td class="dim">{one.last_call ? ago(one.last_call, now) : "never"}</td>
                <td>
                  <Verbs server={one} isPlain />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A server that Holdfast runs is a service, with a service's verbs. */
function Verbs({ server, isPlain }: { server: McpServerInfo; isPlain?: boolean }): JSX.Element | null {
  if (!services.value.has(server.name)) return null;
  return (
    <Button
      {...(isPlain ? { kind: "plain" as const, icon: "more" as const, label: `More for ${server.name}` } : {})}
      hasMenu
      onClick={(event) => openMenu(event.currentTarget as HTMLElement, server.name, menuOf([server.name]))}
    >
      {isPlain ? null : "Restart, logs, more"}
    </Button>
  );
}

interface OneProps {
  server: McpServerInfo;
  tab: Tab;
  query: URLSearchParams;
  records: readonly AuditRecord[] | null;
  again: () => void;
}

function One({ server, tab, query, records, again }: OneProps): JSX.Element {
  const { name } = server;
  const key = `${server.tools} ${server.held}`;
  const asked = useAsked(
    () => read("mcp_tools", { services: [name], limit: MOST_TOOLS, schema: true, held: true }),
    OFFERS,
    `${name} ${key}`,
  );
  // While the next answer is on its way, the last one stays on the screen.
  const last = useRef(asked.value);
  if (asked.value) last.current = asked.value;
  const shown = { ...asked, value: last.current };
  const tools = shown.value?.tools ?? [];
  const names = tools.map((tool) => tool.name).join();
  useEffect(
    () =>
      offer([
        ...(["tools", "held", "calls"] as const).map((one) => ({
          id: `mcp:${one}`,
          group: "go" as const,
          title: `${{ tools: "Tools", held: "Held changes", calls: "Calls" }[one]} of ${name}`,
          run: () => navigate(address(["mcp", name, one])),
        })),
        ...tools.slice(0, 40).map((tool) => ({
          id: `try:${tool.name}`,
          group: "do" as const,
          title: `Try the tool ${tool.name}`,
          run: () => navigate(address(["mcp", name, "try"], { tool: tool.tool })),
        })),
        ...(server.held ? copyActions(`Approve the tools of ${name}`, approving(name)) : []),
      ]),
    [name, names, server.held],
  );
  const mine = records?.filter((one) => String(one.arguments?.tool ?? "").startsWith(`${name}__`)) ?? null;
  const tabs: [Tab, string][] = [
    ["tools", `Tools ${server.tools}`],
    ["held", `Held ${server.held}`],
    ["calls", "Calls"],
    ["try", "Try"],
  ];
  return (
    <>
      {server.reason && <p class="card is-bad">{server.reason}</p>}
      <Tabs
        label={`About ${name}`}
        current={tab}
        onChange={(to) => navigate(address(["mcp", name, to]))}
        tabs={tabs.map(([one, title]) => ({ key: one, title, href: address(["mcp", name, one]) }))}
      />
      <TabPanel current={tab} class="stack">
        <Show asked={shown}>
          {(told) =>
            tab === "held" ? (
              <Held server={name} held={told.held ?? []} again={again} />
            ) : tab === "calls" ? (
              <Calls server={server} records={mine} />
            ) : tab === "try" ? (
              <Try tools={told.tools} chosen={query.get("tool")} />
            ) : (
              <Tools tools={told.tools} tokens={told.tokens ?? 0} />
            )
          }
        </Show>
      </TabPanel>
    </>
  );
}

function Tools({ tools, tokens }: { tools: readonly McpToolInfo[]; tokens: number }): JSX.Element {
  if (tools.length === 0) return <p class="empty">It offers no tool now.</p>;
  return (
    <section class="panel" aria-label="Tools">
      <ul class="cards">
        {tools.map((tool) => (
          <li key={tool.name} class="tool" data-tool={tool.tool}>
            <div class="row">
              <b class="mono">{tool.tool}</b>
              {tool.only_reads && <span class="badge">only reads</span>}
              {tool.may_repeat && !tool.only_reads && <span class="badge">may be repeated</span>}
              {tool.is_always_listed && <span class="badge">always listed</span>}
              <span class="grow" />
              <a
                class="button"
                href={address(["mcp", tool.server, "try"], { tool: tool.tool })}
                aria-label={`Try ${tool.tool}`}
              >
                Try
              </a>
            </div>
            <p>{String(tool.definition?.description ?? "")}</p>
            <details>
              <summary>Definition</summary>
              <pre class="card" tabIndex={0} aria-label={`Definition of ${tool.tool}`}>
                {JSON.stringify(tool.definition, null, 2)}
              </pre>
            </details>
          </li>
        ))}
      </ul>
      <div class="panel-foot">Their definitions take about {count(tokens)} tokens of a model's context.</div>
    </section>
  );
}

function approving(server: string, tools: readonly string[] = []): Deed {
  return {
    cli: ["mcp", "approve", server, ...tools],
    method: "POST",
    path: "api/mcp/approve",
    fields: { service: server, ...(tools.length && { tools }) },
  };
}

/** Definitions that are held back until somebody has looked at what changed. */
function Held(props: { server: string; held: readonly HeldTool[]; again: () => void }): JSX.Element {
  const { server, held } = props;
  const [busy, setBusy] = useState<string | null>(null);
  const why = may("administer") ? (isLive.value ? undefined : "the connection is lost") : "it takes an admin";
  async function approve(tools: readonly string[]): Promise<void> {
    setBusy(tools.join());
    try {
      const { approved } = await act("approve_mcp_tools", { service: server, tools: [...tools] });
      toast("ok", `${approved.length === 1 ? approved[0] : `${approved.length} tools`} approved`);
    } catch (error) {
      fail(error);
    } finally {
      setBusy(null);
      props.again();
    }
  }
  if (held.length === 0) return <p class="empty">Nothing is held: every definition is as it was approved.</p>;
  return (
    <section class="panel" aria-label="Held changes">
      <div class="panel-head wraps">
        <h2>
          {held.length} definition{held.length === 1 ? "" : "s"} held
        </h2>
        <span class="dim">Assistants have what was approved before, until you have looked at these.</span>
        <span class="grow" />
        <Button
          kind="plain"
          icon="more"
          hasMenu
          label={`More for the tools of ${server}`}
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(approving(server)).slice(1))
          }
        />
        <Button kind="primary" why={why} busy={busy === ""} onClick={() => void approve([])}>
          Approve {held.length === 1 ? "it" : `all ${held.length}`}
        </Button>
      </div>
      <ul class="cards">
        {held.map((one) => (
          <li key={one.name} class="tool" data-held={one.name}>
            <div class="row">
              <b class="mono">{one.name}</b>
              <span class="badge">{one.change}</span>
              <span class="grow" />
              {held.length > 1 && (
                <Button
                  why={why}
                  busy={busy === one.name}
                  label={`Approve ${one.name}`}
                  onClick={() => void approve([one.name])}
                >
                  Approve
                </Button>
              )}
            </div>
            {(one.warnings ?? []).map((warning) => (
              <p key={warning} class="is-bad">
                {warning}
              </p>
            ))}
            <pre class="diff" tabIndex={0} aria-label={`What changed in ${one.name}`}>
              {(one.difference ?? []).map((line, place) => (
                <span key={place} data-sign={/^[+-](?![+-]{2} )/.test(line) ? line[0] : undefined}>
                  {line}
                  {"\n"}
                </span>
              ))}
            </pre>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Calls({ server, records }: { server: McpServerInfo; records: readonly AuditRecord[] | null }): JSX.Element {
  const facts = [
    `${count(server.calls ?? 0)} calls`,
    `${count(server.failed_calls ?? 0)} failed`,
    server.unknown_calls ? `${count(server.unknown_calls)} of unknown outcome` : "",
    server.under_way ? `${server.under_way} under way` : "",
    server.p50_ms == null ? "" : `median ${duration(server.p50_ms / 1000)}`,
  ].filter(Boolean);
  return (
    <section class="panel" aria-label="Calls">
      <div class="panel-head wraps">
        <h2>Calls</h2>
        <span class="dim">{facts.join(" · ")}</span>
      </div>
      {!may("administer") ? (
        <p class="empty">The record of single calls is for admins.</p>
      ) : !records?.length ? (
        <p class="empty">No call is on record yet.</p>
      ) : (
        <div class="sideways" tabIndex={0} role="region" aria-label="Calls as a table">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">When</th>
                <th scope="col">Tool</th>
                <th scope="col">Who</th>
                <th scope="col">Outcome</th>
                <th scope="col" class="num">
                  Took
                </th>
                <th scope="col" class="num">
                  Answer
                </th>
              </tr>
            </thead>
            <tbody>
              {records.map((one) => (
                <tr key={one.seq}>
                  <td class="mono faint">{stamp(one.time)}</td>
                  <td class="mono">{String(one.arguments?.tool)}</td>
                  <td>{one.actor}</td>
                  <td class={isDone(one) ? "is-ok" : "is-bad"}>{outcomeOf(one)}</td>
                  <td class="num">{duration((one.result?.milliseconds ?? one.seconds * 1000) / 1000)}</td>
                  <td class="num">{one.result?.bytes === undefined ? "" : size(one.result.bytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function isDone(record: AuditRecord): boolean {
  return record.decision === "allowed" && record.outcome === "ok" && record.result?.outcome !== "error";
}

function outcomeOf(record: AuditRecord): string {
  if (record.decision !== "allowed") return `refused: ${record.reason}`;
  return record.result?.outcome ?? record.outcome;
}

/** A form made from the schema of a tool, and what came back. */
function Try({ tools, chosen }: { tools: readonly McpToolInfo[]; chosen: string | null }): JSX.Element {
  const picker = useId();
  const tool = tools.find((one) => one.tool === chosen) ?? tools[0];
  if (!tool) return <p class="empty">It offers no tool now.</p>;
  return (
    <section class="panel" aria-label="Try a tool">
      <div class="panel-head wraps">
        <label for={picker}>Tool</label>
        <select
          id={picker}
          class="input mono"
          value={tool.tool}
          onChange={(event) => setQuery({ tool: event.currentTarget.value })}
        >
          {tools.map((one) => (
            <option key={one.tool}>{one.tool}</option>
          ))}
        </select>
        <span class="dim">{tool.only_reads ? "It only reads." : "It may change something."}</span>
      </div>
      <div class="panel-body stack">
        <Form key={tool.name} tool={tool} />
      </div>
    </section>
  );
}

interface Came {
  result: McpCallResult | null;
  error: unknown;
}

function Form({ tool }: { tool: McpToolInfo }): JSX.Element {
  const fields = fieldsOf(tool.definition?.inputSchema);
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [isSent, setSent] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [came, setCame] = useState<Came | null>(null);
  const { values, problems } = filled(fields, typed);
  const command = tool.only_reads ? "read_mcp_tool" : "call_mcp_tool";
  const why = !isLive.value
    ? "the connection is lost"
    : tool.only_reads || may("operate")
      ? undefined
      : "your role may look only";
  const deed: Deed = {
    cli: ["mcp", "call", tool.name, JSON.stringify(values)],
    method: "POST",
    path: tool.only_reads ? "api/mcp/read" : "api/mcp/call",
    fields: { tool: tool.name, arguments: values },
    tool: { name: tool.name, arguments: values },
  };
  useEffect(() => offer(copyActions(`Call ${tool.name}`, deed)), [tool.name, JSON.stringify(values)]);
  async function send(event: Event): Promise<void> {
    event.preventDefault();
    setSent(true);
    if (Object.keys(problems).length > 0 || why || isBusy) return;
    const isSure =
      tool.only_reads ||
      (await confirm({
        title: `Call ${tool.name}?`,
        detail: "By its definition it may change something.",
        verb: "Call it",
        danger: "some",
      }));
    if (!isSure) return;
    setBusy(true);
    setCame(null);
    try {
      const fieldsOfCall = { tool: tool.name, arguments: values };
      const result = tool.only_reads ? await read(command, fieldsOfCall) : await act(command, fieldsOfCall);
      setCame({ result: result as McpCallResult, error: null });
    } catch (error) {
      setCame({ result: null, error });
    } finally {
      setBusy(false);
    }
  }
  return (
    <form class="stack" onSubmit={(event) => void send(event)} noValidate>
      <p>{String(tool.definition?.description ?? "")}</p>
      {fields.length === 0 && <p class="dim">It takes no arguments.</p>}
      {fields.map((field) => (
        <Field
          key={field.name}
          field={field}
          value={typed[field.name] ?? field.initial}
          problem={isSent || typed[field.name] !== undefined ? problems[field.name] : undefined}
          onInput={(text) => setTyped({ ...typed, [field.name]: text })}
        />
      ))}
      <div class="row">
        <Button type="submit" kind="primary" busy={isBusy} why={why}>
          Call {tool.tool}
        </Button>
        <Button
          hasMenu
          onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deed).slice(1))}
        >
          Copy as
        </Button>
      </div>
      <div role="status" data-role="result">
        {came && <Result {...came} />}
      </div>
    </form>
  );
}

function Field(props: {
  field: FormField;
  value: string;
  problem: string | undefined;
  onInput: (text: string) => void;
}): JSX.Element {
  const { field, value, problem } = props;
  const id = useId();
  const shared = {
    id,
    "class": "input mono",
    "aria-describedby": `${id}-about`,
    "aria-invalid": problem ? true : undefined,
    "aria-required": field.isRequired || undefined,
    onInput: (event: { currentTarget: { value: string } }) => props.onInput(event.currentTarget.value),
  };
  return (
    <div class="field">
      <label for={id}>
        {field.name} <span class="dim">{field.isRequired ? `${field.type}, required` : field.type}</span>
      </label>
      {field.kind === "choice" ? (
        <select {...shared} value={value}>
          <option value="">–</option>
          {field.choices.map((one) => (
            <option key={one} value={one}>
              {one.replace(/^"(.*)"$/, "$1")}
            </option>
          ))}
        </select>
      ) : field.kind === "text" || field.kind === "number" ? (
        <input
          {...shared}
          autocomplete="off"
          spellcheck={false}
          inputMode={field.kind === "number" ? "decimal" : undefined}
          value={value}
        />
      ) : (
        <textarea {...shared} rows={3} spellcheck={false} value={value} />
      )}
      <span id={`${id}-about`} class={problem ? "is-bad" : "dim"}>
        {problem ?? field.about}
      </span>
    </div>
  );
}

function Result({ result, error }: Came): JSX.Element {
  if (!result) return <p class="is-bad">{error instanceof Error ? error.message : String(error)}</p>;
  const content = (result.result?.content ?? []) as { type?: string; text?: string }[];
  const texts = content.filter((one) => one.type === "text").map((one) => one.text ?? "");
  const isPlain = texts.length === content.length && texts.length > 0;
  const facts = [
    `${Math.round(result.milliseconds ?? 0)} ms`,
    (result.attempts ?? 1) > 1 ? `${result.attempts} attempts` : "",
    size(result.bytes ?? 0),
  ].filter(Boolean);
  return (
    <>
      <p>
        <b class={result.outcome === "done" ? "is-ok" : "is-bad"}>{result.outcome}</b>{" "}
        <span class="dim">{facts.join(" · ")}</span>
      </p>
      <pre class="card" tabIndex={0} aria-label="Answer">
        {isPlain ? texts.join("\n") : JSON.stringify(result.result, null, 2)}
      </pre>
    </>
  );
}
