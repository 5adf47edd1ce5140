// Logs of one or more services with everything to read them: follow, search, filter, jump, mark,
// download, link. `LogPanel` is what the page Logs and a service's tab show.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LogHit } from "../api.gen.ts";
import { ERROR, INFO, LINE, type LogLine, MARK, WARN } from "../core/loglines.ts";
import { type LogQuery, ripgrepPattern } from "../core/logquery.ts";
import { clock, count, stamp } from "../core/time.ts";
import { BASE, ROOT, setQuery } from "../routes.ts";
import { type Action, offer } from "../state/actions.ts";
import { isLive, read, socket } from "../state/connection.ts";
import { fail, toast } from "../state/toasts.ts";
import { CAPACITY, type ListState, LogList } from "../views/loglist.ts";
import { hueOf } from "../core/hue.ts";
import { LogSession } from "../views/logsession.ts";
import "../views/loglist.css";
import { Button, Segments } from "./button.tsx";
import { Icon } from "./icon.tsx";
import { openMenu } from "./menu.tsx";
import { copy } from "./copy.ts";

export interface LogPanelProps {
  services: readonly string[];
  /** The address's query: search, filters and place are kept there. */
  query: URLSearchParams;
}

declare global {
  interface HTMLElement {
    /** For `scripts/bench web`. */
    holdfastList?: LogList;
  }
}

const LEVELS = [
  { value: "0", title: "All" },
  { value: String(INFO), title: "Info" },
  { value: String(WARN), title: "Warn+" },
  { value: String(ERROR), title: "Error" },
] as const;
const NOTHING: ListState = {
  isFollowing: true, newLines: 0, kept: 0, shown: 0, hits: -1, hit: 0, errors: 0,
  isCleared: false, problem: "",
};
const STATE_MS = 100;
const MOST_HITS = 200;
const ANNOUNCE_MS = 5000;

interface Look {
  isWrapped: boolean;
  isFolded: boolean;
  isUtc: boolean;
  isAnnounced: boolean;
}

function keptLook(): Look {
  const kept = localStorage.getItem("holdfast-logs") ?? "";
  return {
    isWrapped: kept.includes("w"),
    isFolded: kept.includes("f"),
    isUtc: kept.includes("u"),
    isAnnounced: kept.includes("a"),
  };
}

/** What of a log the address asks for. */
function queryOf(query: URLSearchParams): LogQuery {
  const stream = query.get("stream");
  const time = (name: string) => {
    const value = Date.parse(query.get(name) ?? "");
    return Number.isNaN(value) ? null : value;
  };
  return {
    text: query.get("q") ?? "",
    isRegex: query.has("re"),
    isCase: query.has("case"),
    isWord: query.has("word"),
    level: Number(query.get("level") ?? 0),
    stream: stream === null ? null : Number(stream === "stderr"),
    since: time("since"),
    until: time("until"),
  };
}

/** `web:4711:1760000000000`: the service, the place in its log, the time. */
function placeOf(query: URLSearchParams): { service: string; position: number; time: number } | null {
  const found = /^(.+):(\d+):(\d+)$/.exec(query.get("at") ?? "");
  return found && { service: found[1]!, position: Number(found[2]), time: Number(found[3]) };
}

function linkTo(line: LogLine, names: readonly string[]): string {
  const query = new URLSearchParams(location.search);
  query.set("at", `${names[line.service]}:${line.position}:${Math.floor(line.time)}`);
  return `${location.origin}${location.pathname}?${query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",")}`;
}

export function LogPanel({ services, query }: LogPanelProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<LogList | null>(null);
  const session = useRef<LogSession | null>(null);
  const [state, setState] = useState(NOTHING);
  const [rate, setRate] = useState(0);
  const [problem, setProblem] = useState("");
  const [look, setLook] = useState(keptLook);
  const [searched, setSearched] = useState<LogQuery | null>(null);
  const [spoken, setSpoken] = useState("");
  const wanted = queryOf(query);
  const isFilter = query.get("mode") === "filter";
  const isThisRun = query.get("run") === "this";
  const at = query.get("at");
  const names = services.join(",");
  const announced = useRef(look.isAnnounced);
  announced.current = look.isAnnounced;

  useLayoutEffect(() => {
    const place = placeOf(query);
    let toldAt = 0;
    let spokenAt = 0;
    let waiting: ReturnType<typeof setTimeout> | undefined;
    let target = place;
    const made = new LogList({
      names: services,
      isNamed: services.length > 1,
      onState: (now) => {
        const wait = STATE_MS - (performance.now() - toldAt);
        clearTimeout(waiting);
        const tell = () => {
          toldAt = performance.now();
          setState(now);
          setRate(session.current?.linesPerSecond ?? 0);
        };
        if (wait <= 0) tell();
        else waiting = setTimeout(tell, wait);
      },
      onFrame: () => {
        session.current?.drain();
        if (target) seek();
      },
      onLoadGap: (line) => void loadGap(line),
      onSelect: () => undefined,
      onTop: () => void older(),
    });
    const seek = () => {
      if (!target) return;
      const line = made.find(services.indexOf(target.service), target.position);
      if (line?.position !== target.position) return;
      target = null;
      void older().then(() => made.reveal(line));
      made.reveal(line);
    };
    const older = async () => {
      try {
        const lines = (await session.current?.older()) ?? [];
        made.insert(null, lines);
      } catch (error) {
        fail(error);
      }
    };
    const loadGap = async (line: LogLine) => {
      try {
        const lines = (await session.current?.ofGap(line)) ?? [];
        made.insert(line, lines);
        made.remove(line);
      } catch (error) {
        fail(error);
      }
    };
    list.current = made;
    made.setQuery(wanted, isFilter);
    made.setLook(look);
    if (place) made.isFollowing = false;
    made.mount(box.current!);
    box.current!.holdfastList = made;
    setProblem("");
    session.current = services.length
      ? new LogSession(
          socket,
          { services, isThisRun, at: place, since: wanted.since === null ? null : wanted.since / 1000 },
          {
            add: (line) => {
              made.add(line);
              if (!announced.current || line.level !== ERROR || performance.now() - spokenAt < ANNOUNCE_MS)
                return;
              spokenAt = performance.now();
              setSpoken(`${services[line.service] ?? ""}: ${line.plain}`);
            },
            hasRoom: () => made.hasRoom(),
            onProblem: setProblem,
            onBegin: () => undefined,
          },
        )
      : null;
    return () => {
      clearTimeout(waiting);
      session.current?.close();
      session.current = null;
      made.dispose();
      list.current = null;
    };
  }, [names, isThisRun, at, query.get("since")]);

  useEffect(() => {
    list.current?.setQuery(wanted, isFilter);
  }, [query.toString()]);

  useEffect(() => {
    list.current?.setLook(look);
    const kept = `${look.isWrapped ? "w" : ""}${look.isFolded ? "f" : ""}${look.isUtc ? "u" : ""}`;
    localStorage.setItem("holdfast-logs", kept + (look.isAnnounced ? "a" : ""));
  }, [look]);

  const steps = useMemo(() => makeSteps(list, field, () => services), [names]);
  useEffect(
    () =>
      offer([
        ...steps.actions,
        {
          id: "logs:wrap", group: "do", title: "Wrap long lines", keys: "w",
          run: () => setLook((now) => ({ ...now, isWrapped: !now.isWrapped })),
        },
      ]),
    [steps],
  );

  function set(values: Record<string, string | null>): void {
    setQuery(values);
  }

  const flags = [
    ["re", ".*", "Regular expression", wanted.isRegex],
    ["case", "Aa", "Match case", wanted.isCase],
    ["word", "W", "Whole words", wanted.isWord],
  ] as const;
  const nothing = state.shown === 0 && state.kept > 0;
  return (
    <div class="panel fill" data-logs={isLive.value ? "live" : "offline"} data-following={state.isFollowing}>
      <div class="panel-head">
        <span class="row grow logsearch">
          <Icon name="search" />
          <input
            ref={field}
            class="input grow mono"
            type="search"
            aria-label="Search in these logs"
            placeholder="Search  ( / )"
            value={wanted.text}
            aria-invalid={state.problem !== "" || undefined}
            title={state.problem || undefined}
            onInput={(event) => set({ q: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key === "Enter") list.current?.step("hit", event.shiftKey ? 1 : -1);
              else if (event.key === "Escape") list.current?.focus();
              else return;
              event.preventDefault();
            }}
          />
          {flags.map(([name, sign, title, isOn]) => (
            <button
              key={name}
              type="button"
              class="button mono"
              aria-label={title}
              title={title}
              aria-pressed={isOn}
              onClick={() => set({ [name]: isOn ? null : "1" })}
            >
              {sign}
            </button>
          ))}
        </span>
        <Segments
          label="What the search does"
          options={[
            { value: "highlight", title: "Highlight" },
            { value: "filter", title: "Filter" },
          ]}
          value={isFilter ? "filter" : "highlight"}
          onChange={(mode) => set({ mode: mode === "filter" ? mode : null })}
        />
        {state.hits >= 0 && (
          <>
            <span class="dim" data-hits={state.hits} role="status">
              {state.hit ? `${count(state.hit)} of ${count(state.hits)}` : `${count(state.hits)} found`}
            </span>
            <Button icon="up" label="Previous hit" keys="Shift+N" onClick={() => steps.hit(-1)} />
            <Button icon="down" label="Next hit" keys="N" onClick={() => steps.hit(1)} />
            <Button onClick={() => setSearched(wanted)}>Search all history</Button>
          </>
        )}
        <Segments
          label="Level"
          options={LEVELS}
          value={String(wanted.level) as "0"}
          onChange={(level) => set({ level: level === "0" ? null : level })}
        />
        <Button onClick={() => steps.error(1)} keys="E" why={state.errors ? undefined : "no errors here"}>
          Next error
        </Button>
        <Button
          icon="more"
          label="More about these logs"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "More about these logs", [
              { heading: "Show" },
              ...([
                ["Both streams", null],
                ["Only stdout", "stdout"],
                ["Only stderr", "stderr"],
              ] as const).map(([title, value]) => ({
                title,
                checked: query.get("stream") === value,
                run: () => set({ stream: value }),
              })),
              "line",
              { title: "All runs", checked: !isThisRun, run: () => set({ run: null, at: null }) },
              { title: "This run only", checked: isThisRun, run: () => set({ run: "this", at: null }) },
              "line",
              ...([
                ["Wrap long lines", "isWrapped", "W"],
                ["Fold repeated lines", "isFolded", ""],
                ["Times in UTC", "isUtc", ""],
                ["Announce errors to screen readers", "isAnnounced", ""],
              ] as const).map(([title, name, keys]) => ({
                title,
                keys,
                checked: look[name],
                run: () => setLook((now) => ({ ...now, [name]: !now[name] })),
              })),
              "line",
              { title: "Mark this moment", keys: "M", icon: "mark" as const, run: steps.mark },
              state.isCleared
                ? { title: "Show again what was cleared", run: () => list.current?.unclear() }
                : { title: "Clear the view", keys: "C", run: steps.clear },
            ])
          }
        />
      </div>
      {problem && (
        <div class="banner" data-severity="bad" role="alert">
          {problem}
        </div>
      )}
      {state.problem && (
        <div class="banner" data-severity="warn" role="status">
          {state.problem}
        </div>
      )}
      {searched && (
        <HistorySearch query={searched} services={services} onClose={() => setSearched(null)} />
      )}
      <div class="logbox fill" ref={box}>
        {/* The list draws itself. */}
      </div>
      {nothing && (
        <div class="logempty">
          0 of {count(state.kept)} lines match.{" "}
          <Button onClick={() => set({ q: null, level: null, stream: null, since: null, until: null })}>
            Clear filter
          </Button>
        </div>
      )}
      <span class="sr" aria-live="assertive">
        {spoken}
      </span>
      <div class="panel-foot">
        {state.isFollowing ? (
          <Button onClick={() => list.current?.pause()} keys="Space">
            Following
          </Button>
        ) : (
          <Button kind="primary" icon="down" keys="End" onClick={() => steps.follow()}>
            {state.newLines ? `${count(state.newLines)} new lines, resume following` : "Resume following"}
          </Button>
        )}
        <span data-kept={state.kept}>
          {count(rate)} lines/s · {count(state.kept)} kept
          {state.kept >= CAPACITY && " (older ones are on disk)"}
        </span>
        <span class="grow" />
        <span class="only-wide">
          wrap {look.isWrapped ? "on" : "off"} · times {look.isUtc ? "UTC" : "local"}
        </span>
        <Button icon="copy" keys="Y" onClick={() => steps.link()}>
          Copy link to line
        </Button>
        <Button
          icon="download"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Download", [
              { title: `The ${count(state.shown)} lines shown here`, run: () => steps.download() },
              ...services.slice(0, 10).map((name) => ({
                title: `Whole log of ${name}`,
                run: () => save(`${ROOT}api/services/${encodeURIComponent(name)}/log?format=text`, `${name}.log`),
              })),
            ])
          }
        >
          Download
        </Button>
      </div>
    </div>
  );
}

function save(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

interface Held<T> {
  current: T | null;
}

/** What keys and buttons do with the list. */
function makeSteps(list: Held<LogList>, field: Held<HTMLInputElement>, names: () => readonly string[]) {
  const hit = (direction: 1 | -1) => void list.current?.step("hit", direction);
  const error = (direction: 1 | -1) => void list.current?.step("error", direction);
  const follow = () => list.current?.follow();
  const clear = () => {
    list.current?.clear();
    toast("info", "The view is cleared; nothing was deleted.", {
      action: { title: "Undo", run: () => list.current?.unclear() },
    });
  };
  const mark = () => {
    const text = `── mark at ${clock(Date.now())} ──`;
    const place = { service: -1, stream: 0, time: Date.now(), position: 0 };
    list.current?.add({ ...place, kind: MARK, text, plain: text, level: INFO });
  };
  const chosen = (): LogLine | null => {
    const line = list.current?.selected ?? null;
    if (line?.kind === LINE) return line;
    toast("info", "Choose a line first: click it, or press J.");
    return null;
  };
  const link = () => {
    const line = chosen();
    if (line) void copy(linkTo(line, names()));
  };
  const context = () => {
    const line = chosen();
    if (!line) return;
    list.current?.showEverything();
    list.current?.reveal(line);
    setQuery({ mode: null, level: null, stream: null });
  };
  const download = () => {
    const lines = (list.current?.shownLines() ?? []).map((line) => {
      const name = names().length > 1 ? ` ${names()[line.service] ?? ""}` : "";
      return `${line.time ? new Date(line.time).toISOString() : ""}${name} ${line.plain}\n`;
    });
    const url = URL.createObjectURL(new Blob(lines, { type: "text/plain" }));
    save(url, `${names().join("+").slice(0, 80)}.log`);
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  const rows: [string, string, () => void][] = [
    ["f", "Follow the log", follow],
    ["Space", "Pause or follow", () => (list.current?.isFollowing ? list.current.pause() : follow())],
    ["End", "Go to the newest line", follow],
    ["e", "Next error", () => error(1)],
    ["Shift+e", "Previous error", () => error(-1)],
    ["n", "Next hit", () => hit(1)],
    ["Shift+n", "Previous hit", () => hit(-1)],
    ["j", "Next line", () => list.current?.stepLine(1)],
    ["k", "Previous line", () => list.current?.stepLine(-1)],
    ["m", "Mark this moment", mark],
    ["c", "Clear the view", clear],
    ["Enter", "Show the line in its context", context],
    ["y", "Copy link to line", link],
    ["/", "Search in these logs", () => field.current?.focus()],
  ];
  const actions = rows.map(
    ([keys, title, run]): Action => ({ id: `logs:${title}`, group: "do", title: `Logs: ${title}`, keys, run }),
  );
  return { hit, error, follow, clear, mark, link, context, download, actions };
}

/** Hits in everything that is stored, found by the supervisor; each leads to its place. */
function HistorySearch(props: {
  query: LogQuery;
  services: readonly string[];
  onClose: () => void;
}): JSX.Element {
  const { query, services, onClose } = props;
  const [hits, setHits] = useState<LogHit[]>([]);
  const [cursor, setCursor] = useState<string | null>(null);
  const [notes, setNotes] = useState<string[]>([]);
  const [isBusy, setBusy] = useState(true);

  async function search(from: string | null): Promise<void> {
    setBusy(true);
    try {
      const { pattern, literal } = ripgrepPattern(query);
      const answer = await read("search_logs", {
        pattern,
        literal,
        services: [...services],
        case: query.isCase ? "sensitive" : "ignore",
        limit: MOST_HITS,
        max_bytes: 64_000,
        ...(query.since && { since: query.since / 1000 }),
        ...(query.until && { until: query.until / 1000 }),
        ...(query.stream !== null && { stream: query.stream ? ("err" as const) : ("out" as const) }),
        ...(from && { cursor: from }),
      });
      setHits((before) => (from ? [...before, ...answer.hits] : answer.hits));
      setCursor(answer.complete ? null : (answer.cursor ?? null));
      setNotes(answer.notes ?? []);
    } catch (error) {
      fail(error);
    } finally {
      setBusy(false);
    }
  }
  useEffect(() => void search(null), [JSON.stringify(query), services.join(",")]);

  return (
    <section class="loghits" aria-label="Hits in all history">
      <div class="row">
        <b role="status">{isBusy ? "Searching…" : `${count(hits.length)}${cursor ? "+" : ""} in all history`}</b>
        <span class="dim grow">{notes.join(" ")}</span>
        {cursor && !isBusy && <Button onClick={() => void search(cursor)}>More</Button>}
        <Button icon="close" kind="plain" label="Close the hits" onClick={onClose} />
      </div>
      <ul>
        {hits.map((hit) => (
          <li key={`${hit.service}${hit.cursor}`}>
            <a href={hitAddress(hit, services)}>
              <span class="faint">{hit.time ? stamp(hit.time) : ""}</span>{" "}
              <span class={`hue${hueOf(hit.service)}`}>{hit.service}</span> {hit.text}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function hitAddress(hit: LogHit, services: readonly string[]): string {
  const parts = hit.cursor.slice(1).split(".");
  const position = Number.parseInt(parts[hit.stream === "err" ? parts.length - 1 : 0]!, 36);
  const place = `${hit.service}:${position}:${Math.floor((hit.time ?? 0) * 1000)}`;
  const query = new URLSearchParams(location.search);
  query.set("at", place);
  query.delete("mode");
  if (location.pathname.slice(BASE.length).startsWith("logs"))
    query.set("s", [...new Set([...services, hit.service])].join(","));
  return `${location.pathname.slice(BASE.length)}?${query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",")}`;
}

