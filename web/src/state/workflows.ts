// Workflows, custom restarts and what became of each run, from events; output of those that this
// page follows.
import { computed, signal } from "@preact/signals";
import type { CustomCommand, WorkflowResult, WorkflowsResult } from "../api.gen.ts";
import { plain, visible } from "../core/ansi.ts";
import { runsOf } from "../core/workflowruns.ts";
import { act, isLive, may, read } from "./connection.ts";
import { followPast, past } from "./past.ts";
import { onEvent } from "./services.ts";
import { fail, toast } from "./toasts.ts";

const GATHER_MS = 200;
const KEPT_CHARACTERS = 64 * 1024;
const NAMED = "workflow ";

export const known = signal<WorkflowsResult | null>(null);
export const problem = signal<unknown>(null);
/** What each step printed, of runs that this page follows: `RUN STEP`. */
export const outputs = signal<ReadonlyMap<string, string>>(new Map());
/** The steps of followed runs, also those that are still to come. */
const planned = signal<ReadonlyMap<string, readonly string[]>>(new Map());

/** Every run that the history knows, the newest first. */
export const runs = computed(() =>
  runsOf(past.value, (id, name) => planned.value.get(id) ?? known.value?.workflows[name.slice(NAMED.length)]?.steps),
);

let followers = 0;
let stop: (() => void) | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

async function load(): Promise<void> {
  timer = undefined;
  try {
    known.value = await read("workflows", {});
    problem.value = null;
  } catch (error) {
    problem.value = error;
  }
}

/** Keep all of it current until the returned function is called. */
export function followWorkflows(): () => void {
  followPast();
  followers += 1;
  if (followers === 1) {
    stop = onEvent((event) => {
      if (/^(workflow:|command:|config:|supervisor:)/.test(event.kind)) timer ??= setTimeout(load, GATHER_MS);
    });
    void load();
  }
  return () => {
    followers -= 1;
    if (followers > 0) return;
    stop?.();
    clearTimeout(timer);
    timer = undefined;
  };
}

/** Why nothing can be run now; undefined: it can. */
export function whyNot(): string | undefined {
  if (!may("operate")) return "your role may look, not act";
  return isLive.value ? undefined : "the connection is lost";
}

export interface RestartFields {
  service: string;
  pre_commands?: CustomCommand[];
  post_commands?: CustomCommand[];
  start_args?: string[];
  env_vars?: Record<string, string>;
}

/** Run a workflow; resolves with the id of its run as soon as that has begun. */
export function runWorkflow(name: string): Promise<string | null> {
  return begin(NAMED + name, act("run_workflow", { name }));
}

export function customRestart(fields: RestartFields): Promise<string | null> {
  return begin(`custom restart of ${fields.service}`, act("custom_restart", { ...fields }));
}

/** The answer comes at the end, an event at the begin. Of two with the same name one is refused. */
function begin(name: string, done: Promise<WorkflowResult>): Promise<string | null> {
  return new Promise<string | null>((resolve) => {
    let isBegun = false;
    const forget = onEvent(({ kind, data }) => {
      if (kind !== "workflow:started" || data.name !== name) return;
      isBegun = true;
      forget();
      resolve(data.id);
    });
    const end = (error?: unknown) => {
      forget();
      // The page of a run says itself how it went.
      if (error && !isBegun) fail(error);
      resolve(null);
    };
    done.then(() => end(), end);
  });
}

/** Take what a run prints, from what is kept of it on, until the returned function is called. */
export function followRun(id: string): () => void {
  const abort = new AbortController();
  let place = 1;
  const onItem = (item: any) => {
    if (item.kind === "started") forget(id);
    else if (item.kind === "steps") planned.value = new Map(planned.peek()).set(id, item.steps);
    else if (item.kind === "step") place = item.step;
    else if (item.kind === "output") print(`${id} ${place}`, item.text ?? "(bytes that are no text)\n");
    else if (item.kind === "lost") print(`${id} ${place}`, `(${item.bytes} bytes are not shown: too fast)\n`);
  };
  // Over already, or refused: events tell the rest.
  read("follow_workflow", { workflow: id, follow: true }, { signal: abort.signal, onItem }).catch(() => undefined);
  return () => abort.abort();
}

/** It is told anew from its begin. */
function forget(id: string): void {
  outputs.value = new Map([...outputs.peek()].filter(([key]) => !key.startsWith(`${id} `)));
}

/** Without control sequences; what could deceive a reader is made visible. */
export function readable(text: string): string {
  return text.split("\n").map((line) => visible(plain(line))).join("\n");
}

function print(key: string, text: string): void {
  const printed = (outputs.peek().get(key) ?? "") + text;
  outputs.value = new Map(outputs.peek()).set(key, printed.slice(-KEPT_CHARACTERS));
}

export async function cancelRun(id: string): Promise<void> {
  try {
    const { message = "cancelled" } = await act("cancel_workflow", { workflow: id });
    toast("ok", message);
  } catch (error) {
    fail(error);
  }
}
