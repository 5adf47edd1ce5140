// Lines of logs as a view keeps them: of records of the wire, with level, marks and gaps.
import { plain } from "./ansi.ts";
import { EVENT, EVENT_LANE, LineSplitter, NOTE, OUTPUT, PLACE, type WireRecord, records } from "./wire.ts";

export const LINE = 0;
/** What happened to a service, between its lines. */
export const MARKER = 1;
/** Lines that are not here, and why. */
export const GAP = 2;
/** A mark that a person set. */
export const MARK = 3;

export const DEBUG = 0;
export const INFO = 1;
export const WARN = 2;
export const ERROR = 3;

export interface LogLine {
  kind: number;
  /** Its place in the list of services; -1: of all. */
  service: number;
  stream: number;
  /** Unix milliseconds; 0: not known. */
  time: number;
  position: number;
  /** As it was printed. */
  text: string;
  /** As it is read and searched. */
  plain: string;
  level: number;
  gap?: Gap;
}

export interface Gap {
  reason: string;
  bytes: number | null;
  from: string;
  to: string;
}

const BAD_WORDS = "fatal|critical|panic|emerg|alert|error|err|severe|exception|traceback";
const LEVELS: [number, RegExp][] = [
  // `errors=0` and `error: null` tell of none.
  [ERROR, new RegExp(`\\b(?:${BAD_WORDS})\\b(?!\\s*[=:]\\s*(?:0|null|none|nil|false)\\b)`, "i")],
  [WARN, /\b(?:warn|warning|deprecated)\b/i],
  [DEBUG, /\b(?:debug|trace|verbose)\b/i],
];
const FIELD = /["']?(?:level|lvl|severity)["']?\s*[=:]\s*["']?(\w+)/i;
/** Where programs write a line's level; further on, the word is one of many. */
const LOOKED_AT = 160;

/** How serious a line is, by the words in it. */
export function levelOf(text: string): number {
  const head = text.length > LOOKED_AT ? text.slice(0, LOOKED_AT) : text;
  const named = FIELD.exec(head);
  const looked = named ? (named[1] as string) : head;
  for (const [level, words] of LEVELS) if (words.test(looked)) return level;
  return /^\s*(?:\w+Error|\w+Exception)\b/.test(head) ? ERROR : INFO;
}

/** Makes lines of the frames of one session. */
export class LogStream {
  /** By service: the cursor behind everything that came of it, to come back with. */
  readonly cursors = new Map<number, string>();
  private readonly splitters = new Map<number, LineSplitter>();
  private readonly onLine: (line: LogLine) => void;
  private readonly sayEvent: (event: any) => string | null;
  private readonly names: readonly string[];

  constructor(
    names: readonly string[],
    sayEvent: (event: any) => string | null,
    onLine: (line: LogLine) => void,
  ) {
    this.names = names;
    this.sayEvent = sayEvent;
    this.onLine = onLine;
  }

  push(frame: DataView<ArrayBuffer>): void {
    for (const record of records(frame)) this.take(record);
  }

  /** The stream is over: what waits for the rest of its line is a line. */
  end(): void {
    for (const [key, splitter] of this.splitters)
      splitter.flush((text, time, position) => this.add(key >> 1, key & 1, text, time, position));
  }

  private take(record: WireRecord): void {
    const { service, stream, type, data } = record;
    if (type === OUTPUT) {
      const key = service * 2 + stream;
      let splitter = this.splitters.get(key);
      if (splitter === undefined) this.splitters.set(key, (splitter = new LineSplitter()));
      splitter.push(record, (text, time, position) =>
        this.add(service, stream, text, time, position),
      );
      return;
    }
    const text = new TextDecoder().decode(data);
    if (type === PLACE) this.cursors.set(service, text);
    else if (type === NOTE) this.note(record, JSON.parse(text));
    else if (type === EVENT && service === EVENT_LANE) this.event(JSON.parse(text));
  }

  private add(service: number, stream: number, text: string, time: number, position: number): void {
    const read = plain(text);
    this.onLine({
      kind: LINE,
      service,
      stream,
      time,
      position,
      text,
      plain: read,
      level: levelOf(read),
    });
  }

  private note(record: WireRecord, note: any): void {
    const { service, time, position } = record;
    for (const stream of [0, 1])
      this.splitters
        .get(service * 2 + stream)
        ?.flush((text, when, at) => this.add(service, stream, text, when, at));
    if (note.kind === "run") return;
    const gap: Gap = { reason: note.kind, bytes: note.bytes, from: note.from, to: note.to };
    const line = { service, stream: 0, time, position, text: note.text, plain: note.text };
    this.onLine({ ...line, kind: GAP, level: INFO, gap });
  }

  private event(event: any): void {
    const text = this.sayEvent(event);
    if (text === null) return;
    const service = this.names.indexOf(event.service);
    const isBad = ["exit", "process:start_failed", "service:suppressed"].includes(event.kind);
    this.onLine({
      kind: MARKER,
      service,
      stream: 0,
      time: event.time * 1000,
      position: 0,
      text,
      plain: text,
      level: isBad && event.data?.code !== 0 ? WARN : INFO,
    });
  }
}
