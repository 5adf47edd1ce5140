// What happened to a service, in words, for the stream of its log.
import { duration } from "./time.ts";

/** A sentence about an event; null: it is not told between lines. */
export function sentenceOf(event: { kind: string; service?: string | null; data?: any }): string | null {
  const data = event.data ?? {};
  const name = event.service ?? "";
  switch (event.kind) {
    case "process:started": {
      const run = data.number ? `run ${data.number}` : "a run";
      return `${name}: ${run} started${data.pid ? ` (pid ${data.pid})` : ""}`;
    }
    case "exit": {
      const how = data.signal
        ? `ended by ${data.signal}`
        : data.unknown
          ? "ended, exit code unknown"
          : `exited with code ${data.code}`;
      return `${name} ${how}${seconds(data.seconds, " after ")}`;
    }
    case "process:start_failed":
      return `${name} could not start${data.reason ? `: ${data.reason}` : ""}`;
    case "service:restart_scheduled":
      return `${name} is started again${seconds(data.delay, " in ")}`;
    case "service:suppressed":
      return `${name} failed too often and is left failed`;
    case "service:condemned":
      return `${name} is ended as a failure${data.cause ? `: ${data.cause}` : ""}`;
    case "service:ready":
      return `${name} is ready${seconds(data.after, " after ")}`;
    case "service:requested": {
      const why = data.because ? `: ${data.because}` : "";
      return `${name}: ${data.request ?? "a change"} requested${why}`;
    }
    case "supervisor:started":
      return "Holdfast's supervisor was replaced; the services went on";
    case "keeper:replaced":
      return "Holdfast's keeper was replaced; the services went on";
    case "holdfast:started":
      return "Holdfast started";
    default:
      return null;
  }
}

function seconds(value: unknown, before: string): string {
  return typeof value === "number" ? before + duration(value) : "";
}
