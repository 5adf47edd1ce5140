// The lines of some services on their way into a list: live, older ones, those of a gap. Grants the
// gate more bytes only after painting, so a page that cannot keep up is told of a gap, not flooded.
import type { Frame, Socket } from "../core/socket.ts";
import { sentenceOf } from "../core/eventwords.ts";
import { type LogLine, LogStream } from "../core/loglines.ts";
import { cursorAt, positionOf } from "../core/wire.ts";

const WINDOW = 512 * 1024;
const TAIL = 500;
const OLDER = 1000;
/** Of a gap, so many lines are loaded at once. */
const OF_GAP = 20_000;
/** How long of a frame may be spent on making lines. */
const BUDGET_MS = 8;

export interface Wanted {
  services: readonly string[];
  /** Only the newest run. */
  isThisRun: boolean;
  /** Unix seconds: begin there, instead of at the newest lines. */
  since: number | null;
  /** Begin at this place. */
  at: { service: string; position: number; time: number } | null;
}

interface Sink {
  add: (line: LogLine) => void;
  hasRoom: () => boolean;
  onProblem: (message: string) => void;
  /** The first lines that were there already have come. */
  onBegin: () => void;
}

export class LogSession {
  /** Whether older lines may be there. */
  hasOlder = true;
  linesPerSecond = 0;
  private readonly socket: Socket;
  private readonly wanted: Wanted;
  private readonly sink: Sink;
  private readonly queue: DataView<ArrayBuffer>[] = [];
  private readonly stream: LogStream;
  private readonly forget: () => void;
  private id = "";
  private unlisten: () => void = () => undefined;
  /** Where the list begins, of each service. */
  private starts: Record<string, string> = {};
  private beginnings: Record<string, string> = {};
  private isLoading = false;
  private isOver = false;
  private counted = 0;
  private countedAt = performance.now();

  constructor(socket: Socket, wanted: Wanted, sink: Sink) {
    this.socket = socket;
    this.wanted = wanted;
    this.sink = sink;
    this.stream = new LogStream(wanted.services, sentenceOf, (line) => {
      this.counted += 1;
      sink.add(line);
    });
    this.forget = socket.keep({
      connect: () => void this.connect(),
      disconnect: () => {
        this.id = "";
      },
    });
  }

  close(): void {
    this.isOver = true;
    this.forget();
    this.unlisten();
    if (this.id) this.socket.request("session:close", { sessionId: this.id }).catch(() => undefined);
  }

  /** Make lines of what came, as far as a frame's time goes; grant as much again. */
  drain(): void {
    const begin = performance.now();
    let bytes = 0;
    while (this.queue.length && this.sink.hasRoom() && performance.now() - begin < BUDGET_MS) {
      const frame = this.queue.shift() as DataView<ArrayBuffer>;
      bytes += frame.byteLength;
      this.stream.push(frame);
    }
    if (bytes && this.id) this.socket.send("ack", { sessionId: this.id, bytes });
    const seconds = (begin - this.countedAt) / 1000;
    if (seconds >= 1) {
      this.linesPerSecond = Math.round(this.counted / seconds);
      this.counted = 0;
      this.countedAt = begin;
    }
  }

  /** Older lines than the list has; none: there are none. */
  async older(): Promise<LogLine[]> {
    if (this.isLoading || !this.hasOlder) return [];
    this.isLoading = true;
    try {
      const found = await this.history({ until: this.starts, tail: OLDER });
      this.hasOlder = Object.entries(found.starts).some(
        ([name, start]) => positionOf(start) > positionOf(this.beginnings[name] ?? "P0"),
      );
      this.starts = found.starts;
      return found.lines;
    } finally {
      this.isLoading = false;
    }
  }

  /** The lines that a gap stands for. */
  async ofGap(line: LogLine): Promise<LogLine[]> {
    const service = this.wanted.services[line.service];
    if (!line.gap || service === undefined) return [];
    const { from, to } = line.gap;
    const fields = { services: [service], cursors: { [service]: from }, until: { [service]: to } };
    return (await this.history(fields, line.service)).lines;
  }

  private async connect(): Promise<void> {
    const { services, isThisRun, since, at } = this.wanted;
    const isAgain = this.stream.cursors.size > 0;
    const place = at && !isAgain ? { cursors: { [at.service]: cursorAt(at.position) } } : {};
    const begin = isAgain
      ? { cursors: Object.fromEntries([...this.stream.cursors].map(([n, c]) => [services[n], c])) }
      : { ...(isThisRun && { run: -1 }), ...place };
    const from = at ? at.time / 1000 : since;
    const tail = from === null ? { tail: isAgain ? 0 : TAIL } : { since: from };
    const fields = { services, slow: "skip", bufferSize: WINDOW, flushInterval: 30, ...begin, ...tail };
    try {
      const told = await this.socket.request("session:create", fields);
      if (this.isOver) {
        void this.socket.request("session:close", { sessionId: told.sessionId }).catch(() => undefined);
        return;
      }
      this.id = told.sessionId;
      if (!isAgain) {
        for (const one of told.services) {
          this.starts[one.service] = one.cursor;
          this.beginnings[one.service] = one.beginning;
        }
        this.hasOlder = told.services.some(
          (one: any) => positionOf(one.cursor) > positionOf(one.beginning),
        );
        this.sink.onBegin();
      }
      this.unlisten = this.socket.listen(
        told.sessionId,
        told.number,
        (frame) => this.notice(frame),
        (data) => this.queue.push(data),
      );
    } catch (error) {
      if (!this.isOver && this.socket.link === "live")
        this.sink.onProblem(error instanceof Error ? error.message : String(error));
    }
  }

  private notice(frame: Frame): void {
    if (frame.event === "error") this.sink.onProblem(frame.data?.data?.message ?? "the log ended");
    if (frame.event === "session:closed") this.stream.end();
  }

  /** Lines of the past, in a session of their own that ends when they have come. */
  private async history(
    fields: object,
    service?: number,
  ): Promise<{ lines: LogLine[]; starts: Record<string, string> }> {
    const lines: LogLine[] = [];
    const names = service === undefined ? this.wanted.services : [this.wanted.services[service]!];
    const stream = new LogStream(names, sentenceOf, (line) => {
      if (lines.length >= OF_GAP) return;
      if (service !== undefined && line.service >= 0) line.service = service;
      lines.push(line);
    });
    const told = await this.socket.request("session:create", { services: names, ...fields });
    await new Promise<void>((resolve) => {
      const unlisten = this.socket.listen(
        told.sessionId,
        told.number,
        (frame) => {
          if (frame.event !== "session:closed") return;
          unlisten();
          resolve();
        },
        (data) => stream.push(data),
      );
      const stop = this.socket.keep({
        connect: () => undefined,
        disconnect: () => {
          stop();
          resolve();
        },
      });
    });
    stream.end();
    return { lines, starts: Object.fromEntries(told.services.map((one: any) => [one.service, one.cursor])) };
  }
}
