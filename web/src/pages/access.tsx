// Who may come in, with which rights: tokens, and the real decision about a request.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { AccessResult, TokenInfo, TokenResult } from "../api.gen.ts";
import type { Deed } from "../core/spelling.ts";
import { ago, stamp } from "../core/time.ts";
import { type PageProps, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { act, isLive, may, read } from "../state/connection.ts";
import { useRecords } from "../state/records.ts";
import { services } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { Problem, Show, useAsked, useNow } from "../ui/asking.tsx";
import { Button } from "../ui/button.tsx";
import { copy } from "../ui/copy.ts";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { Dialog, confirm } from "../ui/dialog.tsx";
import { type MenuItem, openMenu } from "../ui/menu.tsx";

const ROLES = {
  viewer: "looks",
  operator: "looks, starts, stops, restarts",
  agent: "an assistant: what mcp: in the configuration admits",
  admin: "everything, tokens too",
} as const;
const EXPIRIES = [
  ["3600", "in an hour"],
  ["86400", "in a day"],
  ["604800", "in a week"],
  ["2592000", "in 30 days"],
  ["7776000", "in 90 days"],
  ["", "never"],
] as const;
const LIMITS = [
  ["commands", "Commands", "status, logs, restart", "--command"],
  ["services", "Services", "web, api*", "--service"],
  ["tags", "Tags", "shop", "--tag"],
  ["paths", "Paths", "src/*", "--path"],
  ["tools", "Tools of MCP servers", "github__get_*", "--tool"],
] as const;
type Limit = (typeof LIMITS)[number][0];
/** Tokens have no events: the record of what changed them tells. */
const CHANGES = /^(create_token|rotate_token|revoke_token|create_login|log_in|log_out)$/;
const ASKED_OFTEN = ["status", "logs", "start", "stop", "restart", "run_workflow", "write_file", "shutdown"];
const DOORS = ["rest", "websocket", "tcp", "mcp"];

interface Shown {
  title: string;
  result: TokenResult;
}

export default function Access({ query }: PageProps): JSX.Element {
  const asked = useAsked(() => read("list_tokens", {}), /^(supervisor:started|config:)/);
  const [isMaking, setMaking] = useState(false);
  const [shown, setShown] = useState<Shown | null>(null);
  const records = useRecords((one) => CHANGES.test(one.command), "tokens", 20);
  const newest = records?.[0]?.seq;
  useEffect(() => {
    if (newest !== undefined) asked.again();
  }, [newest]);
  useEffect(
    () => offer([{ id: "token", group: "do", icon: "plus", title: "Create a token…", run: () => setMaking(true) }]),
    [],
  );
  const why = may("administer") ? (isLive.value ? undefined : "the connection is lost") : "it takes an admin";
  return (
    <div class="stack" data-page="access" data-state={asked.value || asked.error ? "shown" : "loading"}>
      <div class="page-head wraps">
        <h1>Access</h1>
        <span class="dim">Tokens of programs and people, and logins of browsers.</span>
        <span class="grow" />
        <Button icon="plus" kind="primary" why={why} onClick={() => setMaking(true)}>
          Create token
        </Button>
      </div>
      <section class="panel" aria-label="Tokens">
        <Show asked={asked}>
          {({ tokens }) => (
            <Tokens all={tokens} onShow={setShown} again={asked.again} />
          )}
        </Show>
      </section>
      {may("administer") && <May query={query} tokens={asked.value?.tokens ?? []} />}
      {isMaking && (
        <NewToken
          onClose={() => setMaking(false)}
          onMade={(result) => {
            setMaking(false);
            setShown({ title: `The token ${result.token.name}`, result });
            asked.again();
          }}
        />
      )}
      {shown && <Text {...shown} onClose={() => setShown(null)} />}
    </div>
  );
}

function Tokens(props: {
  all: readonly TokenInfo[];
  onShow: (shown: Shown) => void;
  again: () => void;
}): JSX.Element {
  const now = useNow(30_000);
  const sorted = [...props.all].sort(
    (a, b) => Number(a.kind !== "token") - Number(b.kind !== "token") || a.name.localeCompare(b.name),
  );
  useEffect(
    () =>
      offer(
        props.all
          .filter((one) => one.kind === "token")
          .flatMap((one) => [
            {
              id: `rotate:${one.id}`,
              group: "do" as const,
              title: `Rotate the token ${one.name}…`,
              run: () => void rotate(one),
            },
            {
              id: `revoke:${one.id}`,
              group: "do" as const,
              title: `Revoke the token ${one.name}…`,
              run: () => void revoke(one),
            },
            ...copyActions(`Revoke ${one.name}`, deedOf("revoke", one)),
          ]),
      ),
    [props.all],
  );
  async function rotate(token: TokenInfo): Promise<void> {
    const isSure = await confirm({
      title: `Rotate ${token.name}?`,
      detail: "It gets a new text; the old one is refused from now on, and sessions opened with it end.",
      verb: "Rotate",
      danger: "some",
    });
    if (!isSure) return;
    try {
      const result = await act("rotate_token", { token: token.id });
      props.onShow({ title: `The new text of ${token.name}`, result });
    } catch (error) {
      fail(error);
    }
    props.again();
  }
  async function revoke(token: TokenInfo): Promise<void> {
    const isToken = token.kind === "token";
    const isSure = await confirm({
      title: `Revoke ${token.name}?`,
      detail: "It is refused from now on, with the tokens that were made with it. Their sessions end.",
      verb: "Revoke",
      danger: isToken ? "high" : "some",
      name: token.name,
    });
    if (!isSure) return;
    try {
      const { also = [] } = await act("revoke_token", { token: token.id });
      toast("ok", [`${token.name} is revoked`, ...also].join(", "));
    } catch (error) {
      fail(error);
    }
    props.again();
  }
  function menuOf(token: TokenInfo): MenuItem[] {
    const why = isLive.value ? undefined : "the connection is lost";
    return [
      ...(token.kind === "token"
        ? [
            { title: "Rotate…", icon: "restart" as const, why, run: () => void rotate(token) },
            {
              title: "What may it do?",
              icon: "audit" as const,
              run: () => {
                setQuery({ who: token.name });
                document.querySelector<HTMLElement>("[data-may] input")?.focus();
              },
            },
          ]
        : []),
      { title: "Revoke…", icon: "close", kind: "danger", why, run: () => void revoke(token) },
      ...copyItems(deedOf("revoke", token)),
    ];
  }
  return (
    <div class="sideways" tabIndex={0} role="region" aria-label="Tokens as a table">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Role</th>
            <th scope="col">Only</th>
            <th scope="col">Made</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class="sr">Verbs</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((one) => (
            <tr key={one.id} data-token={one.name}>
              <td>
                <b>{one.name}</b> {one.kind !== "token" && <span class="badge">{one.kind}</span>}
              </td>
              <td>{one.role}</td>
              <td class="mono">{limitsOf(one)}</td>
              <td title={stamp(one.created_at)}>
                {ago(one.created_at, now)}
                {one.by && <span class="dim"> by {one.by}</span>}
              </td>
              <td class={expiryTone(one, now)} title={one.expires_at ? stamp(one.expires_at) : undefined}>
                {one.expires_at ? ago(one.expires_at, now) : "never"}
              </td>
              <td>
                <Button
                  kind="plain"
                  icon="more"
                  hasMenu
                  label={`More for ${one.name}`}
                  onClick={(event) =>
                    openMenu(event.currentTarget as HTMLElement, `Token ${one.name}`, menuOf(one))
                  }
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length === 0 && <p class="empty">No token yet.</p>}
    </div>
  );
}

function deedOf(verb: "rotate" | "revoke", { name }: TokenInfo): Deed {
  return { cli: ["token", verb, name], method: "POST", path: `api/tokens/${verb}`, fields: { token: name } };
}

function limitsOf({ scopes = {} }: TokenInfo): ComponentChildren {
  const parts = Object.entries(scopes).map(([name, value]) => `${name}: ${[value].flat().join(", ")}`);
  return parts.length ? parts.join("; ") : <span class="dim">no limit</span>;
}

function expiryTone({ expires_at: at, kind }: TokenInfo, now: number): string {
  if (!at || kind !== "token") return "dim";
  return at - now / 1000 < 7 * 86_400 ? "is-warn" : "";
}

/** A form for a new token: name, role, how long, and what it is limited to. */
function NewToken(props: { onClose: () => void; onMade: (result: TokenResult) => void }): JSX.Element {
  const [name, setName] = useState("");
  const [role, setRole] = useState<keyof typeof ROLES>("operator");
  const [expiry, setExpiry] = useState<string>("2592000");
  const [limits, setLimits] = useState<Partial<Record<Limit, string>>>({});
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const chosen = LIMITS.flatMap(([key, , , option]) => {
    const words = (limits[key] ?? "").split(",").map((word) => word.trim()).filter(Boolean);
    return words.length ? [{ key, words, option }] : [];
  });
  const fields = {
    token_name: name.trim(),
    role,
    ...(expiry && { expires_in: Number(expiry) }),
    ...Object.fromEntries(chosen.map(({ key, words }) => [key, words])),
  };
  const deed: Deed = {
    cli: [
      ...["token", "create", name.trim() || "NAME", "--role", role],
      ...(expiry ? ["--expires", `${expiry}s`] : []),
      ...chosen.flatMap(({ option, words }) => [option, words.join(",")]),
    ],
    method: "POST",
    path: "api/tokens",
    fields,
  };
  async function make(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    try {
      props.onMade(await act("create_token", fields));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setBusy(false);
    }
  }
  return (
    <Dialog title="Create a token" onClose={props.onClose} class="wide">
      <form class="stack" onSubmit={(event) => void make(event)}>
        <Field title="Name" hint="as the audit shows it">
          {(id) => (
            <input
              id={id}
              class="input"
              required
              autofocus
              autocomplete="off"
              maxLength={100}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          )}
        </Field>
        <Field title="Role" hint={ROLES[role]}>
          {(id) => (
            <select
              id={id}
              class="input"
              value={role}
              onChange={(event) => setRole(event.currentTarget.value as keyof typeof ROLES)}
            >
              {Object.keys(ROLES).map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
        <Field title="Expires">
          {(id) => (
            <select id={id} class="input" value={expiry} onChange={(event) => setExpiry(event.currentTarget.value)}>
              {EXPIRIES.map(([value, title]) => (
                <option key={value} value={value}>
                  {title}
                </option>
              ))}
            </select>
          )}
        </Field>
        <fieldset>
          <legend>Only these (patterns with *, several with commas; empty: no limit)</legend>
          {LIMITS.map(([key, title, example]) => (
            <Field key={key} title={title}>
              {(id) => (
                <input
                  id={id}
                  class="input mono"
                  autocomplete="off"
                  spellcheck={false}
                  placeholder={example}
                  value={limits[key] ?? ""}
                  onInput={(event) => setLimits({ ...limits, [key]: event.currentTarget.value })}
                />
              )}
            </Field>
          ))}
        </fieldset>
        {problem && (
          <p role="alert" class="is-bad">
            {problem}
          </p>
        )}
        <div class="dialog-foot">
          <Button
            hasMenu
            onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deed).slice(1))}
          >
            Copy as
          </Button>
          <span class="grow" />
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" kind="primary" busy={isBusy}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Field(props: { title: string; hint?: string; children: (id: string) => JSX.Element }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.title}</label>
      {props.children(id)}
      {props.hint && <span class="dim">{props.hint}</span>}
    </div>
  );
}

/** The text of a token, which is shown this once. */
function Text({ title, result, onClose }: Shown & { onClose: () => void }): JSX.Element {
  const text = result.text ?? "";
  return (
    <Dialog title={title} onClose={onClose} class="wide">
      <p>Copy it now: it is shown this once, and only its hash is stored.</p>
      <pre class="card secret" tabIndex={0} aria-label="The token">
        {text}
      </pre>
      {(result.sessions ?? []).length > 0 && <p class="dim">{result.sessions!.length} sessions ended.</p>}
      <div class="dialog-foot">
        <Button icon="copy" onClick={() => void copy(text).then(() => toast("ok", "Copied the token"))}>
          Copy
        </Button>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  );
}

/** «May X do Y to Z?», answered by the decision itself; nothing is done. */
function May({ query, tokens }: { query: URLSearchParams; tokens: readonly TokenInfo[] }): JSX.Element {
  const asked = {
    who: query.get("who") ?? "",
    about: query.get("about") ?? "",
    on: query.get("on") ?? "",
    door: query.get("door") ?? "rest",
  };
  const [typed, setTyped] = useState(asked);
  const [answer, setAnswer] = useState<{ key: string; result: AccessResult | null; error: unknown } | null>(null);
  const key = JSON.stringify(asked);
  const names = asked.on.split(",").map((name) => name.trim()).filter(Boolean);
  const fields = { who: asked.who, about: asked.about, services: names, door: asked.door };
  useEffect(() => setTyped(asked), [key]);
  useEffect(() => {
    if (!asked.who || !asked.about) return;
    let isOver = false;
    read("check_access", fields).then(
      (result) => isOver || setAnswer({ key, result, error: null }),
      (error) => isOver || setAnswer({ key, result: null, error }),
    );
    return () => {
      isOver = true;
    };
  }, [key, isLive.value]);
  const deed: Deed = {
    cli: ["may", asked.who, asked.about, ...names, ...(asked.door === "rest" ? [] : ["--door", asked.door])],
    method: "POST",
    path: "api/access/check",
    fields,
  };
  useEffect(
    () => (asked.who && asked.about ? offer(copyActions(`May ${asked.who} ${asked.about}?`, deed)) : undefined),
    [key],
  );
  const set = (name: keyof typeof asked) => (event: { currentTarget: { value: string } }) =>
    setTyped({ ...typed, [name]: event.currentTarget.value });
  const people = [...Object.keys(ROLES), ...tokens.filter((one) => one.kind === "token").map((one) => one.name)];
  return (
    <section class="panel" aria-label="May somebody do something?" data-may>
      <div class="panel-head wraps">
        <h2>May …?</h2>
        <span class="dim">The real decision: role, limits, lockdown, policies, filters. Nothing is done.</span>
      </div>
      <form
        class="panel-body row may"
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ ...typed, door: typed.door === "rest" ? null : typed.door });
        }}
      >
        <Word title="Who" list={people} value={typed.who} onInput={set("who")} example="ci, or operator" />
        <Word title="Command" list={ASKED_OFTEN} value={typed.about} onInput={set("about")} example="restart" />
        <Word title="Services" list={[...services.value.keys()]} value={typed.on} onInput={set("on")} example="db" />
        <label class="field">
          Door
          <select class="input" value={typed.door} onChange={set("door")}>
            {DOORS.map((door) => (
              <option key={door}>{door}</option>
            ))}
          </select>
        </label>
        <Button type="submit" kind="primary">
          Ask
        </Button>
        {asked.who && asked.about && (
          <Button
            kind="plain"
            hasMenu
            icon="copy"
            label="Copy this question as"
            onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deed).slice(1))}
          />
        )}
      </form>
      <div class="panel-body" role="status" data-role="answer">
        {answer?.key === key && answer.result && <Answer result={answer.result} />}
        {answer?.key === key && answer.error !== null && (
          <Problem error={answer.error} again={() => setQuery({ who: asked.who })} />
        )}
      </div>
    </section>
  );
}

function Word(props: {
  title: string;
  list: readonly string[];
  value: string;
  onInput: (event: { currentTarget: { value: string } }) => void;
  example: string;
}): JSX.Element {
  const list = useId();
  return (
    <label class="field">
      {props.title}
      <input
        class="input"
        list={list}
        autocomplete="off"
        spellcheck={false}
        placeholder={props.example}
        value={props.value}
        onInput={props.onInput}
      />
      <datalist id={list}>
        {props.list.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </label>
  );
}

function Answer({ result }: { result: AccessResult }): JSX.Element {
  const [tone, word] = !result.allowed
    ? ["bad", "No"]
    : result.needs_approval
      ? ["warn", `After approval by an ${result.approvers ?? "admin"}`]
      : ["ok", "Yes"];
  return (
    <p>
      <b class={`is-${tone}`}>{word}.</b> {result.who}: {result.reason}
      {result.cause && <span class="dim"> ({result.cause})</span>}
    </p>
  );
}
