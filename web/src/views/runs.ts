// How a run ended, in a word, and where its log begins.
import type { RunRecord } from "../api.gen.ts";
import { address } from "../routes.ts";

export function endOf(run: RunRecord): { text: string; tone: "ok" | "bad" | "idle" | "info" } {
  if (run.ended_at === null) return { text: "runs", tone: "ok" };
  if (run.unknown) return { text: "ended unseen", tone: "idle" };
  if (run.signal) return { text: run.signal, tone: run.reason?.startsWith("stop") ? "idle" : "bad" };
  return { text: `exit ${run.exit_code}`, tone: run.exit_code === 0 ? "idle" : "bad" };
}

export function logOf(run: RunRecord): string {
  return address(["services", run.service, "logs"], { since: new Date(run.started_at * 1000).toISOString() });
}
