// Everything that is known of a service in trouble, as text for a person or an assistant.
import type { Explanation } from "../api.gen.ts";
import { stamp } from "../core/time.ts";
import { read } from "../state/connection.ts";
import { fail, toast } from "../state/toasts.ts";
import { copy } from "./copy.ts";

export async function copyDiagnosis(name: string): Promise<void> {
  try {
    const { explanations } = await read("explain", { service: name });
    const found = explanations[0];
    if (!found) return;
    await copy(diagnosis(found));
    toast("ok", `Copied the diagnosis of ${name}`);
  } catch (error) {
    fail(error);
  }
}

export function diagnosis(one: Explanation): string {
  const lines = [`${one.service}: ${one.summary}`, `state: ${one.status} since ${stamp(one.since)}`];
  if (one.next) lines.push(`next: ${one.next}`);
  if (one.ending) {
    const { code, signal, seconds, stage, meaning } = one.ending;
    const how = stage ? `failed at ${stage}` : signal ? `signal ${signal}` : `exit code ${code ?? "unknown"}`;
    lines.push(
      `last run: ${how}${seconds ? ` after ${seconds.toFixed(1)} s` : ""}${meaning ? ` (${meaning})` : ""}`,
    );
  }
  if (one.command?.length) lines.push(`command: ${one.command.join(" ")}`, `folder: ${one.working_dir}`);
  for (const change of one.changes?.fields ?? [])
    lines.push(
      `changed since run ${one.changes?.run}: ${change.field} ${change.before ?? "…"} → ${change.after ?? "…"}`,
    );
  for (const hint of one.hints ?? []) lines.push(`hint: ${hint}`);
  if (one.last_err?.length)
    lines.push("", "last lines of stderr:", ...one.last_err.map((line) => `  ${line}`));
  if (one.last_out?.length)
    lines.push("", "last lines of stdout:", ...one.last_out.map((line) => `  ${line}`));
  return `${lines.join("\n")}\n`;
}
