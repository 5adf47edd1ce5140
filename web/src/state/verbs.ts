// What can be done to services: optimistic (the row says so at once) but truthful (it is done when
// the supervisor says that it is). Menus, buttons, keys and the palette all come here.
import { signal } from "@preact/signals";
import type { Outcomes, ServiceStatus } from "../api.gen.ts";
import { CommandError } from "../core/socket.ts";
import type { Deed } from "../core/spelling.ts";
import { address, navigate } from "../routes.ts";
import type { IconName } from "../ui/icon.tsx";
import { confirm } from "../ui/dialog.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import { copyItems } from "../ui/copyas.ts";
import { act, isLive, may, newKey } from "./connection.ts";
import { dependents, ensureGraph, graph, isGraphLoaded } from "./graph.ts";
import { refresh, services } from "./services.ts";
import { fail, toast } from "./toasts.ts";

export type VerbName = "start" | "restart" | "stop" | "pause" | "resume" | "kill" | "remove" | "rolling";

interface Verb {
  title: string;
  /** What the row says until the supervisor has its own word. */
  word: string;
  done: string;
  icon: IconName;
  keys?: string;
  isDanger?: boolean;
  command: "start" | "restart" | "stop" | "pause" | "resume" | "remove" | "rolling_restart";
  fields?: Record<string, unknown>;
  /** Why it makes no sense now. */
  why: (service: ServiceStatus) => string | undefined;
}

const ALIVE = new Set(["running", "starting", "stopping", "paused"]);
const AT_REST = new Set(["stopped", "exited", "failed", "pending"]);
const isUp = (service: ServiceStatus) => ALIVE.has(service.status);

export const VERBS: Record<VerbName, Verb> = {
  start: {
    title: "Start",
    word: "starting",
    done: "started",
    icon: "play",
    command: "start",
    why: (service) => (isUp(service) ? "it runs" : undefined),
  },
  restart: {
    title: "Restart",
    word: "restarting",
    done: "restarted",
    icon: "restart",
    keys: "r",
    command: "restart",
    why: () => undefined,
  },
  stop: {
    title: "Stop",
    word: "stopping",
    done: "stopped",
    icon: "stop",
    keys: "s",
    command: "stop",
    isDanger: true,
    why: (service) => (AT_REST.has(service.status) ? `it is ${service.status}` : undefined),
  },
  pause: {
    title: "Pause",
    word: "pausing",
    done: "paused",
    icon: "pause",
    command: "pause",
    why: (service) => (service.status === "running" ? undefined : "it does not run"),
  },
  resume: {
    title: "Resume",
    word: "resuming",
    done: "resumed",
    icon: "play",
    command: "resume",
    why: (service) => (service.paused ? undefined : "it is not paused"),
  },
  kill: {
    title: "Kill",
    word: "killing",
    done: "killed",
    icon: "warn",
    command: "stop",
    isDanger: true,
    fields: { grace: 0 },
    why: (service) => (isUp(service) ? undefined : "it does not run"),
  },
  rolling: {
    title: "Rolling restart",
    word: "waiting its turn",
    done: "restarted",
    icon: "restart",
    command: "rolling_restart",
    why: (service) => (isUp(service) ? undefined : "it does not run"),
  },
  remove: {
    title: "Remove",
    word: "removing",
    done: "removed",
    icon: "close",
    command: "remove",
    isDanger: true,
    why: (service) => (service.origin === "config" ? "the configuration declares it" : undefined),
  },
};

export interface Request {
  verb: VerbName;
  /** Unix milliseconds. */
  since: number;
}

/** What was asked of a service and is not answered yet. */
export const requests = signal<ReadonlyMap<string, Request>>(new Map());
/** Why the last request about a service failed; gone with the next one. */
export const failures = signal<ReadonlyMap<string, string>>(new Map());

const SLOW_MS = 10_000;
const SOME = 5;

/** The word of a row: the supervisor's own, until then the request's. */
export function wordOf(name: string, status: ServiceStatus): string {
  const request = requests.value.get(name);
  if (!request) return status.paused ? "paused" : status.status;
  const word = VERBS[request.verb].word;
  return word === "starting" || word === "restarting" || word === "stopping" ? word : `${word}…`;
}

/** Why nothing can be done now; undefined: it can. */
export function whyNot(verb?: VerbName, service?: ServiceStatus): string | undefined {
  if (!may("operate")) return "your role may look, not act; an admin can give another one";
  if (!isLive.value) return "the connection is lost";
  return verb && service ? VERBS[verb].why(service) : undefined;
}

/** Ask for confirmation where it is dangerous, and do it. */
export async function perform(verb: VerbName, names: readonly string[]): Promise<void> {
  if (names.length === 0 || whyNot()) return;
  await ensureGraph();
  const question = danger(verb, names);
  if (question && !(await confirm(question))) return;
  await request(verb, names);
}

function danger(verb: VerbName, names: readonly string[]) {
  const { title } = VERBS[verb];
  const what = names.length === 1 ? names[0]! : `${names.length} services`;
  const inside = new Set(names);
  const others = [...new Set(names.flatMap(dependents))].filter((name) => !inside.has(name));
  const needed = others.length
    ? `${list(others)} need${others.length === 1 ? "s" : ""} ${names.length === 1 ? "it" : "them"}.`
    : "";
  const isMany = names.length > SOME;
  if (verb === "kill" || verb === "remove" || isMany) {
    const effect = {
      kill: "Its processes end at once, without time to save anything.",
      remove: "It is stopped and forgotten. Its runs and logs are deleted.",
    }[verb as "kill" | "remove"];
    return {
      title: `${title} ${what}?`,
      detail: [effect, needed].filter(Boolean).join(" "),
      verb: `${title} ${what}`,
      danger: "high" as const,
      name: names.length === 1 ? names[0]! : what,
    };
  }
  if (verb === "start" || verb === "resume") return null;
  if (names.length === 1 && verb !== "stop" && others.length === 0) return null;
  const detail =
    needed ||
    (verb === "stop"
      ? isGraphLoaded.peek()
        ? "Nothing else needs it."
        : "It is not known what needs it."
      : "One after the other is away for a moment.");
  return { title: `${title} ${what}?`, detail, verb: `${title} ${what}`, danger: "some" as const };
}

function list(names: readonly string[]): string {
  const more = names.length > 4 ? ` and ${names.length - 4} more` : "";
  return names.slice(0, 4).join(", ") + more;
}

async function request(verb: VerbName, names: readonly string[]): Promise<void> {
  const { command, fields, title, done } = VERBS[verb];
  const since = Date.now();
  mark(names, { verb, since });
  const slow = setTimeout(() => tellSlow(verb, names), SLOW_MS);
  try {
    const answer = (await act(command, { ...fields, services: [...names] } as never, {
      key: newKey(),
    })) as Outcomes;
    const failed = Object.entries(answer.services).filter(([, outcome]) => outcome.outcome === "failed");
    for (const [name, outcome] of failed) {
      const reason = outcome.reason ?? `it is ${outcome.status}`;
      note(name, `${title} failed: ${reason}`);
      toast("bad", `${title} of ${name} failed: ${reason}`, {
        action: { title: "Show log", run: () => navigate(address(["services", name, "logs"])) },
      });
    }
    const count = names.length - failed.length;
    if (count > 0) toast("ok", `${count === 1 ? oneOf(names, failed) : `${count} services`} ${done}`);
  } catch (error) {
    const isUnknown = error instanceof CommandError && error.code === "outcome_unknown";
    if (isUnknown) {
      toast("info", `The supervisor was replaced meanwhile; whether ${list(names)} ${done}, the state tells`);
    } else {
      for (const name of names) note(name, error instanceof Error ? error.message : String(error));
      fail(error);
    }
  } finally {
    clearTimeout(slow);
    mark(names, null, since);
    refresh();
  }
}

function oneOf(names: readonly string[], failed: readonly [string, unknown][]): string {
  return names.find((name) => !failed.some(([other]) => other === name)) ?? names[0]!;
}

function tellSlow(verb: VerbName, names: readonly string[]): void {
  if (verb !== "stop") return;
  const alive = names.filter((name) => services.peek().get(name)?.pid);
  if (alive.length === 0) return;
  toast("info", `${list(alive)} still run${alive.length === 1 ? "s" : ""} after ${SLOW_MS / 1000} s`, {
    action: { title: "Kill…", run: () => void perform("kill", alive) },
  });
}

function mark(names: readonly string[], request: Request | null, since?: number): void {
  const next = new Map(requests.peek());
  for (const name of names) {
    if (request) next.set(name, request);
    else if (next.get(name)?.since === since) next.delete(name);
  }
  requests.value = next;
  if (!request) return;
  const left = new Map(failures.peek());
  for (const name of names) left.delete(name);
  failures.value = left;
}

function note(name: string, why: string): void {
  failures.value = new Map(failures.peek()).set(name, why);
}

/** Start a shell with a service's user, folder and environment, and go to it. */
export async function openTerminal(name: string): Promise<void> {
  try {
    const opened = await act("open_terminal", { service: name });
    refresh();
    navigate(address(["terminals", opened.service]));
  } catch (error) {
    fail(error);
  }
}

/** The menu of a service, or of several: verbs, places, copies. */
export function menuOf(names: readonly string[]): MenuItem[] {
  const [name] = names;
  const one = names.length === 1 && name ? services.value.get(name) : undefined;
  const order: VerbName[] = ["start", "restart", "stop", "pause", "resume", "kill"];
  if (one && graph.value[name!]?.template) order.splice(2, 0, "rolling");
  if (!one) order.splice(2, 0, "rolling");
  if (one && one.origin !== "config") order.push("remove");
  const items: MenuItem[] = order
    .filter((verb) => !one || !one.paused === (verb !== "resume") || verb === "stop" || verb === "kill")
    .map((verb) => {
      const { title, icon, keys, isDanger } = VERBS[verb];
      return {
        title: danger(verb, names) ? `${title}…` : title,
        icon,
        ...(keys && { keys }),
        ...(isDanger && { kind: "danger" as const }),
        why: whyNot(verb, one),
        run: () => void perform(verb, names),
      };
    });
  if (one && name) {
    items.push(
      {
        title: "Custom restart…",
        icon: "restart",
        why: whyNot(),
        run: () => navigate(address(["workflows", "custom-restart", name])),
      },
      "line",
      { title: "Logs", icon: "logs", keys: "l", run: () => navigate(address(["services", name, "logs"])) },
      { title: "Metrics", icon: "metrics", run: () => navigate(address(["services", name, "metrics"])) },
      { title: "History", icon: "clock", run: () => navigate(address(["services", name, "history"])) },
      {
        title: "Open terminal",
        icon: "terminal",
        keys: "t",
        why: whyNot(),
        run: () => void openTerminal(name),
      },
    );
  }
  return [...items, ...copyItems(deedOf("restart", names))];
}

const CLI: Record<string, string> = { rolling_restart: "rolling-restart" };
const TOOL = new Set(["start", "restart", "stop", "pause", "resume"]);

/** How a verb is given elsewhere. */
export function deedOf(command: string, names: readonly string[]): Deed {
  return {
    cli: [CLI[command] ?? command, ...names],
    method: "POST",
    path: `api/services/${command}`,
    fields: { services: names },
    ...(TOOL.has(command) && { tool: { name: "control", arguments: { action: command, names } } }),
  };
}
