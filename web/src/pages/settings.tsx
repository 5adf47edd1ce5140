// Preferences of whoever is logged in, kept by the supervisor, and facts about this Holdfast.
import "../ui/asking.css";
import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { Deed } from "../core/spelling.ts";
import { duration } from "../core/time.ts";
import { offer } from "../state/actions.ts";
import { isLive, session } from "../state/connection.ts";
import { firstRange, firstView, forgetPreferences, singleKeys, theme } from "../state/prefs.ts";
import { supervisor } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { Button, Segments } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { openMenu } from "../ui/menu.tsx";

const CHOICES = [
  {
    title: "Theme",
    why: "Before the login, too: this browser remembers it.",
    kept: theme as Signal<string>,
    options: { system: "As the system", dark: "Dark", light: "Light" },
  },
  {
    title: "Keys without Ctrl",
    why: "r, s, g o and others. Off helps with speech input. Ctrl+K always works.",
    kept: singleKeys as Signal<string>,
    options: { on: "On", off: "Off" },
  },
  {
    title: "The overview begins with",
    why: "An address with a range of its own is shown as it says.",
    kept: firstRange as Signal<string>,
    options: { "1h": "1h", "6h": "6h", "24h": "24h", "7d": "7d" },
  },
  {
    title: "Services begin as",
    why: "A table, tiles, or the graph of what needs what.",
    kept: firstView as Signal<string>,
    options: { table: "Table", tiles: "Tiles", graph: "Graph" },
  },
] as const;

export default function Settings(): JSX.Element {
  const values = {
    theme: theme.value,
    keys: singleKeys.value,
    range: firstRange.value,
    view: firstView.value,
  };
  const deed: Deed = { method: "POST", path: "api/preferences", fields: { values } };
  const key = JSON.stringify(values);
  useEffect(
    () =>
      offer([
        { id: "forget", group: "do", title: "Reset all preferences", run: () => void forget() },
        ...copyActions("Set these preferences", deed),
      ]),
    [key],
  );
  return (
    <div class="stack" data-page="settings" data-state={supervisor.value ? "shown" : "loading"}>
      <div class="page-head wraps">
        <h1>Settings</h1>
        <span class="dim">Kept by the supervisor, for all browsers of your role.</span>
        <span class="grow" />
        <Button
          hasMenu
          onClick={(event) => openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deed).slice(1))}
        >
          Copy as
        </Button>
        <Button why={isLive.value ? undefined : "the connection is lost"} onClick={() => void forget()}>
          Reset all
        </Button>
      </div>
      <section class="card choices" aria-label="Preferences">
        {CHOICES.map(({ title, why, kept, options }) => (
          <div key={title} class="choice">
            <div>
              <b>{title}</b>
              <div class="dim">{why}</div>
            </div>
            <Segments
              label={title}
              options={Object.entries(options).map(([value, name]) => ({ value, title: name }))}
              value={kept.value}
              onChange={(value) => (kept.value = value)}
            />
          </div>
        ))}
      </section>
      <Facts />
    </div>
  );
}

async function forget(): Promise<void> {
  try {
    await forgetPreferences();
    toast("ok", "All preferences are the defaults again");
  } catch (error) {
    fail(error);
  }
}

function Facts(): JSX.Element {
  const known = supervisor.value;
  const facts: [string, string | undefined | null][] = [
    ["Project", session.value?.project],
    ["Configuration", known?.config],
    ["Version", known?.version],
    ["Up for", known && duration(known.uptime)],
    ["You", session.value && `${session.value.actor} (${session.value.role})`],
    ...Object.entries(known?.doors ?? {}).map(([door, at]): [string, string] => [`Door ${door}`, String(at)]),
  ];
  return (
    <section class="card" aria-label="This Holdfast">
      <h2>This Holdfast</h2>
      <dl class="facts">
        {facts.flatMap(([name, value]) =>
          value ? [<dt key={name}>{name}</dt>, <dd key={`${name}-is`} class="mono">{value}</dd>] : [],
        )}
      </dl>
    </section>
  );
}
