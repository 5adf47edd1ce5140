// Set up an assistant: what its program must be told, then its first call is waited for.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AssistantSetup, SessionInfo } from "../api.gen.ts";
import type { Deed } from "../core/spelling.ts";
import { stamp } from "../core/time.ts";
import { type PageProps, address, navigate, setQuery } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { read } from "../state/connection.ts";
import { onEvent } from "../state/services.ts";
import { toast } from "../state/toasts.ts";
import { Show, useAsked } from "../ui/asking.tsx";
import { Button, Segments } from "../ui/button.tsx";
import { copy } from "../ui/copy.ts";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { openMenu } from "../ui/menu.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";

const RIGHTS = [
  { value: "all", title: "All that mcp: admits" },
  { value: "look", title: "Look only" },
] as const;
const TOOLSETS = ["process", "files", "search", "git", "servers"] as const;

export default function Connect({ params, query }: PageProps): JSX.Element {
  const isReadOnly = query.get("rights") === "look";
  const starts = query.get("start") === "1";
  const toolsets = (query.get("tools") ?? "").split(",").filter(Boolean);
  const fields = {
    ...(isReadOnly && { read_only: true }),
    ...(starts && { start: true }),
    ...(toolsets.length && { toolsets }),
  };
  const asked = useAsked(
    () => read("assistant_setups", fields),
    /^supervisor:started/,
    JSON.stringify(fields),
  );
  const programs = asked.value?.programs ?? [];
  const current = programs.find(({ name }) => name === params.client) ?? programs[0];
  const search = location.search;
  const go = (name: string) => navigate(address(["connect", name]) + search);
  function toggle(name: string): void {
    const next = TOOLSETS.filter((one) => (one === name) !== toolsets.includes(one));
    setQuery({ tools: next.join(",") || null });
  }
  return (
    <div class="stack" data-page="connect" data-state={asked.value || asked.error ? "shown" : "loading"}>
      <div class="page-head wraps">
        <h1>Connect</h1>
        <span class="dim">Let an assistant work with the services of this project.</span>
      </div>
      <Waiting />
      <section class="panel" aria-label="Set up an assistant">
        <div class="panel-head wraps">
          <Segments
            label="Rights"
            options={RIGHTS}
            value={isReadOnly ? "look" : "all"}
            onChange={(value) => setQuery({ rights: value === "look" ? value : null })}
          />
          <span role="group" aria-label="Sets of tools" class="row">
            {TOOLSETS.map((name) => (
              <Button
                key={name}
                pressed={toolsets.includes(name)}
                onClick={() => toggle(name)}
                label={`Only ${name}`}
              >
                {name}
              </Button>
            ))}
          </span>
          <Button pressed={starts} onClick={() => setQuery({ start: starts ? null : "1" })}>
            Start Holdfast if need be
          </Button>
        </div>
        <div class="panel-body">
          <p class="dim">
            No set chosen: all of them. What an assistant may do is decided by <code>mcp:</code> in the
            configuration; this narrows what it is offered.
          </p>
          <Show asked={asked}>
            {() =>
              current && (
                <>
                  <Tabs
                    label="Assistants"
                    current={current.name}
                    onChange={go}
                    tabs={programs.map(({ name, title }) => ({
                      key: name,
                      title,
                      href: address(["connect", name]) + search,
                    }))}
                  />
                  <TabPanel current={current.name} class="stack setup">
                    <Setup one={current} fields={fields} />
                  </TabPanel>
                </>
              )
            }
          </Show>
        </div>
      </section>
    </div>
  );
}

function Setup({ one, fields }: { one: AssistantSetup; fields: Record<string, unknown> }): JSX.Element {
  const deed: Deed = { cli: one.command.slice(1), method: "GET", path: "api/mcp/setups", fields };
  useEffect(
    () =>
      offer([
        {
          id: "snippet",
          group: "copy",
          icon: "copy",
          title: `Entry for ${one.title}`,
          run: () => void take(one.entry, one.title),
        },
        ...copyActions(`Set up ${one.title}`, deed),
      ]),
    [one],
  );
  return (
    <>
      <h2>One command</h2>
      <p>In the project's folder. It keeps everything else in the file, and the file as it was beside it.</p>
      <Snippet name="Command" text={one.command.join(" ")} />
      <h2>Or by hand</h2>
      <p>
        Put this into <code>{one.file}</code>:
      </p>
      <Snippet name={`Entry for ${one.title}`} text={one.entry} />
      {one.note && <p class="dim">{one.note}.</p>}
      <p>Then restart {one.title}, and ask it: «What runs in this project?»</p>
      <div>
        <Button
          hasMenu
          onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deed).slice(1))}
        >
          Copy as
        </Button>
      </div>
    </>
  );
}

async function take(text: string, what: string): Promise<void> {
  await copy(text);
  toast("ok", `Copied: ${what}`);
}

function Snippet({ name, text }: { name: string; text: string }): JSX.Element {
  return (
    <div class="snippet">
      <pre class="card" tabIndex={0} aria-label={name}>
        {text}
      </pre>
      <Button icon="copy" label={`Copy ${name}`} onClick={() => void take(text, name)} />
    </div>
  );
}

/** Waits until somebody is here, then until it called something; green then. */
function Waiting(): JSX.Element {
  const asked = useAsked(() => read("list_sessions", {}), /^(session:|supervisor:started)/);
  const [since] = useState(Date.now() / 1000);
  const [called, setCalled] = useState<{ session: string; client: string; call: string } | null>(null);
  useEffect(
    () =>
      onEvent((event) => {
        if (event.kind === "session:called") setCalled(event.data as typeof called);
      }),
    [],
  );
  const here = [...(asked.value?.sessions ?? [])].sort((a, b) => b.opened_at - a.opened_at);
  const newest: SessionInfo | undefined = here[0];
  const isNew = newest !== undefined && newest.opened_at >= since;
  const done = called ?? (newest?.first_call ? { ...newest, call: newest.first_call } : null);
  const tone = done ? "ok" : newest ? "info" : "idle";
  return (
    <section class="card waits" data-tone={tone} role="status" aria-label="The first call">
      <span class={`is-${tone}`}>
        <span class={done ? "dot" : "spinner"} aria-hidden="true" />
      </span>
      <div>
        {done ? (
          <>
            <b class="is-ok">Connected.</b> {done.client} made its first call: <code>{done.call}</code>.
          </>
        ) : newest ? (
          <>
            <b>{newest.client} is here</b> since {stamp(newest.opened_at)}.{" "}
            {isNew ? "Waiting for its first call…" : "It has called nothing yet."}
          </>
        ) : (
          <>
            <b>Waiting for an assistant…</b> This turns green with its first call.
          </>
        )}
      </div>
      {done && (
        <a class="button" href={address(["sessions", done.session])}>
          Show its session
        </a>
      )}
    </section>
  );
}
