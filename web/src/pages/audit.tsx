// Who did what, through what, and whether it was allowed; and the proof that no record was changed.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { AuditVerdict } from "../api.gen.ts";
import { CommandError } from "../core/socket.ts";
import type { Deed } from "../core/spelling.ts";
import { ago, count, duration, stamp } from "../core/time.ts";
import { type PageProps, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { isLive, may, read } from "../state/connection.ts";
import { fail, toast } from "../state/toasts.ts";
import { Button, Segments } from "../ui/button.tsx";
import { copy } from "../ui/copy.ts";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { Dialog } from "../ui/dialog.tsx";
import { State } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { type Column, VirtualTable } from "../ui/table.tsx";

interface Entry {
  seq: number;
  time: number;
  actor: string;
  role: string;
  door: string;
  command: string;
  arguments: Record<string, unknown>;
  decision: string;
  reason: string;
  outcome: string;
  seconds?: number;
  [fact: string]: unknown;
}

const FIRST = 500;
const MORE = 2000;
const ALL = 10_000;
const DECISIONS = [
  { value: "all", title: "All" },
  { value: "refused", title: "Refused" },
  { value: "failed", title: "Failed" },
] as const;
type Decision = (typeof DECISIONS)[number]["value"];

export default function Audit({ query }: PageProps): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const { entries, older, problem, isAll } = useEntries();
  const [opened, setOpened] = useState<Entry | null>(null);
  const text = query.get("q") ?? "";
  const decision = (query.get("decision") ?? "all") as Decision;
  const shown = useMemo(() => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return (entries ?? []).filter(
      (one) => fits(one, decision) && words.every((found) => matches(one, found)),
    );
  }, [entries, text, decision]);
  const deed = deedOf(text);
  const isEmpty = shown.length === 0;
  useEffect(
    () =>
      offer([
        { id: "audit-filter", group: "do", title: "Filter the audit", keys: "/", run: () => field.current?.focus() },
        {
          id: "refused",
          group: "go",
          title: "Audit: what was refused",
          run: () => setQuery({ decision: "refused" }),
        },
        ...copyActions("Show the audit", deed),
      ]),
    [text],
  );
  if (problem)
    return (
      <div class="empty" data-page="audit" data-state="shown">
        <h1>Audit</h1>
        <p role="alert">{problem}</p>
        {!may("administer") && <p>It takes an admin to read it: `holdfast dashboard` gives a link for one.</p>}
      </div>
    );
  return (
    <div class="service-page" data-page="audit" data-state={entries ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Audit</h1>
        <input
          ref={field}
          class="input filter"
          type="search"
          aria-label="Filter"
          placeholder="Filter, for example command:restart actor:ci door:rest"
          title="Words: actor: role: door: command: decision: outcome:"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setQuery({ q: event.currentTarget.value })}
          onKeyDown={(event) => event.key === "Escape" && (setQuery({ q: null }), event.currentTarget.blur())}
        />
        <Segments<Decision>
          label="Which"
          options={DECISIONS}
          value={decision}
          onChange={(value) => setQuery({ decision: value === "all" ? null : value })}
        />
        <span class="dim" role="status">
          {entries && `${count(shown.length)} of ${count(entries.length)}`}
        </span>
        <span class="grow" />
        <Verify />
        <Button
          icon="download"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Export", [
              { heading: `The ${count(shown.length)} records shown here` },
              { title: "As JSON lines", icon: "download", run: () => saveLines(shown) },
              { title: "As CSV", icon: "download", run: () => saveTable(shown) },
              { heading: "Everything that is kept" },
              { title: "As JSON lines, with the chain", icon: "download", run: () => void saveAll() },
              ...copyItems(deed),
            ])
          }
        >
          Export
        </Button>
      </div>
      <div class="panel fill">
        <VirtualTable<Entry>
          label="Audit"
          rows={shown}
          columns={COLUMNS}
          rowHeight={36}
          keyOf={(one) => String(one.seq)}
          onOpen={setOpened}
          onMenu={(one, at) => openMenu(at, `Record ${one.seq}`, menuOf(one, setOpened))}
          onKey={(one, event) => {
            if (event.key !== "m") return false;
            openMenu(event.currentTarget as HTMLElement, `Record ${one.seq}`, menuOf(one, setOpened));
            return true;
          }}
          empty={
            entries && (
              <div class="empty">
                <p>{entries.length === 0 ? "Nothing is on record yet." : "No record matches."}</p>
                {text && <Button onClick={() => setQuery({ q: null, decision: null })}>Clear filter</Button>}
              </div>
            )
          }
        />
        <div class="panel-foot">
          {isAll || !entries ? (
            <span>{isEmpty ? "" : "That is everything since record "}{!isEmpty && entries?.at(-1)?.seq}</span>
          ) : (
            <Button onClick={() => void older()}>Load older records</Button>
          )}
        </div>
      </div>
      {opened && <Details one={opened} onClose={() => setOpened(null)} />}
    </div>
  );
}

const COLUMNS: Column<Entry>[] = [
  {
    key: "time",
    title: "Time",
    width: "176px",
    cell: (one) => (
      <span class="mono" title={ago(one.time)}>
        {stamp(one.time)}
      </span>
    ),
  },
  { key: "actor", title: "Actor", width: "minmax(96px, 1.2fr)", cell: (one) => one.actor },
  { key: "role", title: "Role", width: "84px", isOptional: true, cell: (one) => <span class="dim">{one.role}</span> },
  { key: "door", title: "Door", width: "84px", isOptional: true, cell: (one) => <span class="dim">{one.door}</span> },
  {
    key: "what",
    title: "What",
    width: "minmax(96px, 2.4fr)",
    cell: (one) => (
      <>
        <b>{one.command}</b> <span class="mono dim">{said(one)}</span>
      </>
    ),
  },
  {
    key: "result",
    title: "Result",
    width: "minmax(96px, 1fr)",
    cell: (one) => <State state={stateOf(one)} word={one.decision === "refused" ? "refused" : one.outcome} />,
  },
  {
    key: "why",
    title: "Why",
    width: "minmax(120px, 2fr)",
    isOptional: true,
    cell: (one) => (
      <span class="dim" title={one.reason}>
        {one.reason}
      </span>
    ),
  },
];

function stateOf(one: Entry): string {
  if (one.decision === "refused") return "failed";
  return one.outcome === "ok" ? "done" : "backoff";
}

/** The arguments, short. */
function said(one: Entry): string {
  const values = Object.entries(one.arguments ?? {}).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return values.join(" ").slice(0, 300);
}

function fits(one: Entry, decision: Decision): boolean {
  if (decision === "all") return true;
  const isRefused = one.decision === "refused";
  return decision === "refused" ? isRefused : !isRefused && one.outcome !== "ok";
}

function matches(one: Entry, found: string): boolean {
  const [, key, value] = /^(actor|role|door|command|decision|outcome):(.*)$/.exec(found) ?? [];
  if (key) return String(one[key] ?? "").toLowerCase().includes(value!);
  return `${one.actor} ${one.command} ${said(one)} ${one.reason} ${one.outcome}`.toLowerCase().includes(found);
}

/** The same on the command line; it knows an actor and a command. */
function deedOf(text: string): Deed {
  const actor = /\bactor:(\S+)/.exec(text)?.[1];
  const about = /\bcommand:(\S+)/.exec(text)?.[1];
  const cli = ["audit", ...(actor ? ["--actor", actor] : []), ...(about ? ["--command", about] : [])];
  const fields = { ...(actor && { actor }), ...(about && { about }) };
  return { cli, method: "GET", path: "api/audit", fields };
}

function menuOf(one: Entry, open: (one: Entry) => void) {
  return [
    { title: "Details", icon: "info" as const, run: () => open(one) },
    {
      title: `Everything of ${one.actor}`,
      icon: "user" as const,
      run: () => setQuery({ q: `actor:${one.actor.replaceAll(" ", " actor:")}` }),
    },
    {
      title: `Every ${one.command}`,
      icon: "search" as const,
      run: () => setQuery({ q: `command:${one.command}` }),
    },
    "line" as const,
    { heading: "Copy as" },
    {
      title: "JSON",
      icon: "copy" as const,
      run: () => void copy(JSON.stringify(one)).then(() => toast("ok", `Copied: record ${one.seq}`)),
    },
  ];
}

function Details({ one, onClose }: { one: Entry; onClose: () => void }): JSX.Element {
  const facts = Object.entries(one).filter(([, value]) => value !== null && value !== "");
  return (
    <Dialog title={`Record ${one.seq}`} onClose={onClose} class="wide">
      <dl class="facts mono" tabIndex={0} style={{ maxHeight: "60vh", overflowY: "auto" }}>
        {facts.map(([name, value]) => (
          <>
            <dt key={name}>{name}</dt>
            <dd>
              {name === "time"
                ? `${stamp(one.time)} (${ago(one.time)})`
                : name === "seconds"
                  ? duration(Number(value))
                  : typeof value === "string"
                    ? value
                    : JSON.stringify(value)}
            </dd>
          </>
        ))}
      </dl>
      <div class="dialog-foot">
        <Button icon="copy" onClick={() => void copy(JSON.stringify(one))}>
          Copy
        </Button>
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}

/** Whether the chain of records is whole: each holds the hash of the one before. */
function Verify(): JSX.Element {
  const [verdict, setVerdict] = useState<AuditVerdict | null>(null);
  const [isBusy, setBusy] = useState(false);
  async function verify(): Promise<void> {
    setBusy(true);
    try {
      setVerdict((await read("audit", { verify: true, limit: 1 })).verdict ?? null);
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  }
  useEffect(
    () =>
      offer([{ id: "verify", group: "do", title: "Verify the chain of the audit", run: () => void verify() }]),
    [],
  );
  const anchors = (verdict?.anchors ?? []).length;
  return (
    <>
      {verdict && (
        <span class={`chip ${verdict.whole ? "is-ok" : "is-bad"}`} role={verdict.whole ? "status" : "alert"}>
          {verdict.whole
            ? `whole: ${count(verdict.records)} records` +
              (anchors ? `, compared with ${anchors} anchor${anchors === 1 ? "" : "s"}` : "")
            : `not whole: ${verdict.problem}`}
        </span>
      )}
      <Button
        icon="check"
        busy={isBusy}
        why={isLive.value ? undefined : "the connection is lost"}
        onClick={() => void verify()}
      >
        Verify the chain
      </Button>
    </>
  );
}

/** The newest records first, more of them as they are written. */
function useEntries() {
  const [entries, setEntries] = useState<readonly Entry[] | null>(null);
  const [problem, setProblem] = useState("");
  const [isAll, setAll] = useState(false);
  const waiting = useRef<Entry[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    let frame = 0;
    const take = () => {
      frame = 0;
      const fresh = waiting.current.splice(0);
      setEntries((before) => {
        const newest = before?.[0]?.seq ?? 0;
        const added = fresh.filter((one) => one.seq > newest).reverse();
        return added.length ? [...added, ...(before ?? [])] : before;
      });
    };
    async function follow(): Promise<void> {
      const told = await read("audit", { limit: FIRST }, { signal: abort.signal });
      setEntries((told.records as unknown as Entry[]).reverse());
      setAll(told.records.length < FIRST);
      const onItem = (one: Entry) => {
        waiting.current.push(one);
        frame ||= requestAnimationFrame(take);
      };
      await read("audit", { since: told.last, follow: true, limit: ALL }, { signal: abort.signal, onItem });
    }
    follow().catch((error) => {
      const isOver = error instanceof CommandError && error.code === "cancelled";
      if (!isOver) setProblem(error instanceof Error ? error.message : String(error));
    });
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, []);
  async function older(): Promise<void> {
    const first = entries?.at(-1)?.seq ?? 1;
    try {
      const told = await read("audit", { since: Math.max(0, first - 1 - MORE), limit: MORE });
      const found = (told.records as unknown as Entry[]).filter((one) => one.seq < first).reverse();
      setEntries((before) => [...(before ?? []), ...found]);
      setAll(found.length < MORE);
    } catch (error) {
      fail(error);
    }
  }
  return { entries, older, problem, isAll };
}

function save(parts: string[], type: string, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function saveLines(shown: readonly Entry[]): void {
  const lines = shown.map((one) => `${JSON.stringify(one)}\n`).reverse();
  save(lines, "application/jsonl", "audit.jsonl");
}

const CELLS = ["seq", "time", "actor", "role", "door", "command", "arguments", "decision", "reason", "outcome"];

function saveTable(shown: readonly Entry[]): void {
  const rows = [...shown].reverse().map((one) => CELLS.map((name) => cell(one, name)).join(","));
  save([`${CELLS.join(",")}\n`, ...rows.map((row) => `${row}\n`)], "text/csv", "audit.csv");
}

/** A cell of CSV. What a spreadsheet would take for a formula is text. */
function cell(one: Entry, name: string): string {
  const value = name === "time" ? new Date(one.time * 1000).toISOString() : one[name];
  const text = typeof value === "string" ? value : JSON.stringify(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

/** Everything that is kept, page by page, as it was written. */
async function saveAll(): Promise<void> {
  const lines: string[] = [];
  try {
    for (let since = 0; ; ) {
      const told = await read("audit", { since, limit: ALL });
      for (const one of told.records) lines.push(`${JSON.stringify(one)}\n`);
      if (told.records.length < ALL) break;
      since = told.last;
    }
    save(lines, "application/jsonl", "audit.jsonl");
    toast("ok", `${count(lines.length)} records exported`);
  } catch (error) {
    fail(error);
  }
}
