// What is said in a session with an AI backend: its events, gathered into paragraphs. Touches no
// document.

export interface AgentEvent {
  seq: number;
  kind: string;
  [field: string]: any;
}

/** A paragraph is never changed: with more of it, there is another in its place. */
export interface Paragraph {
  seq: number;
  kind: "prompt" | "text" | "thought" | "tool" | "note";
  text: string;
  /** Of a tool: its id, what it is given, and how far it is. */
  id?: string;
  input?: string;
  state?: "running" | "done" | "failed";
  tone?: "warn" | "bad";
}

const MOST = 400;
const LONGEST = 100_000;
const LONGEST_RESULT = 4000;

/** Take one more event; returns whether anything is to be seen of it. */
export function hear(said: Paragraph[], event: AgentEvent): boolean {
  const { seq, kind } = event;
  const text = String(event.text ?? "");
  const last = said.at(-1);
  const place = said.findLastIndex((one) => one.kind === "tool" && one.id === event.id);
  const tool = said[place];
  switch (kind) {
    case "text.delta":
    case "thought.delta": {
      const of = kind === "text.delta" ? "text" : "thought";
      if (last?.kind === of && last.text.length < LONGEST)
        said[said.length - 1] = { ...last, text: last.text + text };
      else said.push({ seq, kind: of, text });
      break;
    }
    case "turn.started":
      said.push({ seq, kind: "prompt", text });
      break;
    case "tool.started": {
      const title = event.title && event.title !== event.tool ? ` ${event.title}` : "";
      const input = event.input ? JSON.stringify(event.input) : "";
      const call = `${event.tool}${title} ${input}`;
      said.push({ seq, kind: "tool", id: event.id, text: "", state: "running", input: call });
      break;
    }
    case "tool.updated":
    case "tool.finished":
      if (!tool) return false;
      said[place] = {
        ...tool,
        text: (kind === "tool.finished" && text ? text : tool.text + text).slice(-LONGEST_RESULT),
        ...(kind === "tool.finished" && { state: event.is_error ? "failed" : "done" }),
      };
      break;
    default: {
      const [words, tone] = noteOf(event, text);
      if (!words) return false;
      said.push({ seq, kind: "note", text: words, ...(tone && { tone }) });
    }
  }
  if (said.length > MOST) said.splice(0, said.length - MOST);
  return true;
}

function noteOf(event: AgentEvent, text: string): [string, Paragraph["tone"]?] {
  const { kind, reason, sentence, fix } = event;
  switch (kind) {
    case "approval.settled":
      return [`${event.is_approved ? "Allowed" : "Refused"} by ${event.by}${reason ? `: ${reason}` : ""}`];
    case "retrying":
      return [`It does not reach its model and tries again: ${event.cause ?? ""}`, "warn"];
    case "rate_limit":
      return ["Its vendor limits it", "warn"];
    case "warning":
      return [text, "warn"];
    case "turn.finished":
      if (reason === "done") return [""];
      return [`The turn ${reason === "failed" ? "failed" : `is over: ${reason}`}${text && `: ${text}`}`, "bad"];
    case "run.ended":
      return sentence ? [`Its process ended: ${sentence}${fix ? `; ${fix}` : ""}`, "bad"] : ["It was stopped"];
    case "run.started":
      return event.number > 1 ? ["It runs again, in the same conversation"] : [""];
    default:
      return [""];
  }
}
