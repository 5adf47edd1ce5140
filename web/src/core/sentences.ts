// What happened, in a sentence: subject, verb, object. Touches no document.

export interface Told {
  kind: string;
  service?: string | null;
  data: Record<string, any>;
}

export interface Sentence {
  text: string;
  more: string;
  tone: "ok" | "warn" | "bad" | "info" | "idle";
}

type Words = (name: string, data: Record<string, any>) => [string, string?, Sentence["tone"]?];

const EXIT = (data: Record<string, any>): string =>
  data.unknown
    ? "ended, nobody saw how"
    : data.signal
      ? `was ended by ${data.signal}`
      : `exited with code ${data.code}`;

const KINDS: Record<string, Words> = {
  "process:started": (name, data) => [`${name} started`, data.number ? `run ${data.number}` : "", "ok"],
  exit: (name, data) => [
    `${name} ${EXIT(data)}`,
    data.seconds === undefined || data.seconds === null ? "" : `after ${brief(data.seconds)}`,
    data.code === 0 ? "idle" : "bad",
  ],
  "process:start_failed": (name, data) => [`${name} did not start`, text(data.reason), "bad"],
  "service:restart_scheduled": (name, data) => [
    `${name} will be restarted`,
    `in ${brief(data.delay)}`,
    "warn",
  ],
  "service:suppressed": (name) => [`${name} failed too often and stays failed`, "", "bad"],
  "service:ready": (name) => [`${name} is ready`, "", "ok"],
  "service:requested": (name, data) => [`${name}: ${data.request} requested`, text(data.because), "info"],
  "service:waiting": (name, data) => [`${name} waits`, list(data.waiting_for), "info"],
  "service:follows": (name, data) => [`${name} restarts with what it needs`, text(data.reason), "info"],
  "health:changed": (name, data) => [
    `${name} is ${text(data.to) || "another"}`,
    text(data.reason),
    /^(un|not)/.test(String(data.to)) ? "bad" : "ok",
  ],
  "limit:reached": (name, data) => [
    `${name} reached its limit of ${text(data.limit)}`,
    text(data.action),
    "warn",
  ],
  "limit:cleared": (name, data) => [`${name} is below its limit of ${text(data.limit)} again`, "", "ok"],
  "rolling:step": (name, data) => [`Rolling restart: ${name}`, `step ${data.step} of ${data.of}`, "info"],
  "rolling:finished": () => ["The rolling restart is over", "", "info"],
  "service:added": (name) => [`${name} was added`, "", "info"],
  "service:changed": (name) => [`The declaration of ${name} changed`, "", "info"],
  "service:removed": (name) => [`${name} was removed`, "", "info"],
  "service:scaled": (name, data) => [`${name} has ${data.to} instances`, `it had ${data.from}`, "info"],
  "service:signalled": (name, data) => [`${name} got ${text(data.signal)}`, "", "info"],
  "config:reloaded": (_, data) => ["The configuration was reloaded", reloaded(data), "info"],
  "watch:changed": (name) => [`Files of ${name} changed`, "", "info"],
  "workflow:started": (_, data) => [`${text(data.name)} began`, by(data), "info"],
  "workflow:finished": (_, data) => [
    `${text(data.name)} is over: ${text(data.outcome)}`,
    text(data.reason),
    data.outcome === "done" ? "ok" : "bad",
  ],
  "alert:raised": (_, data) => [text(data.message) || "An alert", "alert", "bad"],
  "supervisor:started": () => ["A new supervisor took over", "services went on", "info"],
  "keeper:replaced": () => ["The keeper was replaced", "services went on", "warn"],
  "holdfast:started": () => ["Holdfast started", "", "ok"],
  "holdfast:stopping": () => ["Holdfast is stopping", "", "warn"],
  "holdfast:upgraded": (_, data) => ["Holdfast was upgraded", `to ${text(data.to)}`, "ok"],
  "session:opened": (_, data) => [`${text(data.client) || "An assistant"} opened a session`, "", "info"],
  "session:closed": (_, data) => ["A session ended", text(data.why), "idle"],
  "mode:switching": (_, data) => ["Mode switching…", `to ${text(data.to)}`, "info"],
  "mode:switched": (_, data) => [`The mode is ${text(data.to)}`, "", "ok"],
  "lockdown:began": (_, data) => ["A lockdown began", text(data.reason), "bad"],
  "lockdown:ended": () => ["The lockdown is over", "", "ok"],
  "approval:requested": (_, data) => [
    `${text(data.actor)} asks to ${text(data.command)}`,
    "waits for approval",
    "warn",
  ],
  "approval:approved": (_, data) => ["A request was approved", by(data), "ok"],
  "session:called": (_, data) => [`${text(data.client)} made its first call`, text(data.call), "ok"],
  "mcp:tools_changed": (name) => [`${name} tells other tools than those approved`, "held", "warn"],
  "mcp:tools_approved": (name, data) => [`Tools of ${name} were approved`, list(data.tools), "ok"],
  "approval:rejected": (_, data) => ["A request was denied", by(data), "info"],
  "door:failed": (_, data) => [`The door ${text(data.door)} cannot listen`, text(data.reason), "bad"],
  "output:gap": (name) => [`Output of ${name} could not be recorded`, "", "bad"],
};

/** The sentence about an event; null: it is not worth one. */
export function sentence({ kind, service, data }: Told): Sentence | null {
  const words = KINDS[kind];
  if (!words) return null;
  const [told, more = "", tone = "info"] = words(service ?? "", data);
  return { text: told, more, tone };
}

function text(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function list(value: unknown): string {
  return Array.isArray(value) ? value.join(" and ") : text(value);
}

function by(data: Record<string, any>): string {
  return data.by ? `by ${data.by}` : "";
}

function brief(seconds: unknown): string {
  const number = Number(seconds);
  return number < 10 ? `${Math.round(number * 10) / 10} s` : `${Math.round(number)} s`;
}

function reloaded(data: Record<string, any>): string {
  const parts = ["added", "restarted", "changed", "removed"]
    .filter((what) => Array.isArray(data[what]))
    .map((what) => `${data[what].length} ${what}`);
  return parts.join(", ");
}
