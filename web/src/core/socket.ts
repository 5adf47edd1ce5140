// One WebSocket to Holdfast: requests with answers, notices, binary frames, and coming back by
// itself after it was lost. Knows nothing of what is asked, and touches no document.

export interface Frame {
  event: string;
  id?: number;
  data?: any;
  seq?: number;
  subscription?: number;
}

export interface Problem {
  code: string;
  message: string;
  hint?: string;
  details?: unknown;
}

/** What could not be done, in the server's words. */
export class CommandError extends Error {
  readonly code: string;
  readonly hint: string;
  readonly details: unknown;

  constructor(problem: Problem) {
    super(problem.message);
    this.code = problem.code;
    this.hint = problem.hint ?? "";
    this.details = problem.details;
  }
}

/** The part of a browser's WebSocket that is used here. */
export interface SocketLike {
  binaryType: string;
  readyState: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: string | ArrayBufferView<ArrayBuffer>): void;
  close(): void;
}

/** connecting: for the first time; lost: was live, and comes back; refused: the login is over. */
export type Link = "connecting" | "live" | "lost" | "refused" | "closed";

/** Something that lives on a connection and is made anew on each. */
export interface Resource {
  connect(): void;
  disconnect?(): void;
}

export interface Request {
  /** Ask again on the next connection if this one is lost: for what is harmless to ask twice. */
  again: boolean;
  onItem?: (item: any) => void;
  signal?: AbortSignal;
}

interface Pending extends Request {
  text: string;
  isSent: boolean;
  resolve: (data: any) => void;
  reject: (error: Error) => void;
}

interface Options {
  open: () => SocketLike;
  onLink: (link: Link, why: string) => void;
  onNotice?: (frame: Frame) => void;
}

const MOST_OPEN = 24;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const PING_MS = 15_000;
const PONG_MS = 10_000;
const NO_TOKEN = 4401;
const CONNECT_MS = 10_000;

export class Socket {
  link: Link = "connecting";
  /** Unix milliseconds of the next try, while the link is lost. */
  nextTry = 0;
  private readonly options: Options;
  private socket: SocketLike | null = null;
  private isReady = false;
  private count = 0;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private heartbeat: ReturnType<typeof setTimeout> | undefined;
  private readonly pending = new Map<number, Pending>();
  private readonly resources = new Set<Resource>();
  private readonly sessions = new Map<string, (frame: Frame) => void>();
  private readonly numbers = new Map<number, (data: DataView<ArrayBuffer>) => void>();
  private readonly subscriptions = new Map<number, (frame: Frame) => void>();

  constructor(options: Options) {
    this.options = options;
  }

  /** Connect now: at first, or because waiting longer makes no sense. */
  connect(): void {
    if (this.socket !== null || this.link === "closed") return;
    clearTimeout(this.timer);
    const socket = (this.socket = this.options.open());
    socket.binaryType = "arraybuffer";
    // A connection that hangs in its handshake is no connection.
    this.timer = setTimeout(() => this.isReady || socket.close(), CONNECT_MS);
    socket.onmessage = ({ data }: { data: string | ArrayBuffer }) => {
      if (this.socket === socket) this.take(data);
    };
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
      if (this.socket === socket) this.lose(code, reason);
    };
  }

  close(): void {
    this.set("closed", "");
    clearTimeout(this.timer);
    clearTimeout(this.heartbeat);
    const socket = this.socket;
    this.socket = null;
    this.isReady = false;
    socket?.close();
  }

  /** Keep something on this connection and on each that follows; returns what ends that. */
  keep(resource: Resource): () => void {
    this.resources.add(resource);
    if (this.isReady) resource.connect();
    return () => {
      this.resources.delete(resource);
    };
  }

  /** Ask something and wait for its answer. */
  request(event: string, data: unknown, request: Request = { again: false }): Promise<any> {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      const text = JSON.stringify({ event, id, data });
      this.pending.set(id, { ...request, text, isSent: false, resolve, reject });
      request.signal?.addEventListener("abort", () => this.cancel(id), { once: true });
      if (!request.again && !this.isReady) {
        this.pending.delete(id);
        reject(lost());
        return;
      }
      this.sendWaiting();
    });
  }

  /** Send what is not answered; what is sent while the link is lost is gone. */
  send(event: string, data: unknown): void {
    if (this.isReady) this.socket?.send(JSON.stringify({ event, data }));
  }

  sendBytes(data: Uint8Array<ArrayBuffer>): void {
    if (this.isReady) this.socket?.send(data);
  }

  /** Frames of this session come here, and its binary frames there. */
  listen(
    session: string,
    number: number,
    onFrame: (frame: Frame) => void,
    onBytes?: (data: DataView<ArrayBuffer>) => void,
  ): () => void {
    this.sessions.set(session, onFrame);
    if (onBytes) this.numbers.set(number, onBytes);
    return () => {
      this.sessions.delete(session);
      this.numbers.delete(number);
    };
  }

  /** Follow events from now on: each once and in order, over every loss of the connection.
      `onBegin` is called whenever it begins, the first time and after a loss. */
  follow(onEvent: (event: any) => void, onBegin: () => void, services: string[] = []): () => void {
    let last: number | undefined;
    let number = -1;
    const resource: Resource = {
      connect: () => {
        const data = { services, ...(last === undefined ? {} : { since: last }) };
        this.request("subscribe", data).then(
          (answer) => {
            number = answer.subscription;
            // A smaller number: the history was lost and begins anew.
            last = Math.min(last ?? answer.since, answer.since);
            this.subscriptions.set(number, (frame) => {
              last = frame.seq ?? last;
              onEvent(frame.data);
            });
            onBegin();
          },
          () => undefined,
        );
      },
      disconnect: () => {
        this.subscriptions.delete(number);
      },
    };
    const stop = this.keep(resource);
    return () => {
      stop();
      this.subscriptions.delete(number);
      if (number >= 0) this.request("unsubscribe", { subscription: number }).catch(() => undefined);
    };
  }

  private cancel(id: number): void {
    const request = this.pending.get(id);
    if (request === undefined) return;
    this.pending.delete(id);
    if (request.isSent) this.send("command:cancel", { target: id });
    request.reject(new CommandError({ code: "cancelled", message: "cancelled" }));
    this.sendWaiting();
  }

  private sendWaiting(): void {
    if (!this.isReady) return;
    let open = 0;
    for (const request of this.pending.values()) open += Number(request.isSent);
    for (const request of this.pending.values()) {
      if (request.isSent) continue;
      if (open++ >= MOST_OPEN) return;
      request.isSent = true;
      this.socket?.send(request.text);
    }
  }

  private take(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      const view = new DataView(data);
      this.numbers.get(view.getUint32(1))?.(view);
      return;
    }
    const frame: Frame = JSON.parse(data);
    if (frame.event === "auth:ok" && !this.isReady) {
      this.begin();
    } else if (frame.id !== undefined && this.pending.has(frame.id)) {
      this.answer(frame, frame.id);
    } else if (frame.event === "event" && frame.subscription !== undefined) {
      this.subscriptions.get(frame.subscription)?.(frame);
    } else if (frame.data?.sessionId && this.sessions.has(frame.data.sessionId)) {
      this.sessions.get(frame.data.sessionId)?.(frame);
    } else {
      this.options.onNotice?.(frame);
    }
  }

  private answer(frame: Frame, id: number): void {
    const request = this.pending.get(id) as Pending;
    if (frame.event === "command:item") {
      request.onItem?.(frame.data.item);
      return;
    }
    this.pending.delete(id);
    if (frame.event === "error") request.reject(new CommandError(frame.data.data));
    else request.resolve(frame.data);
    this.sendWaiting();
  }

  private begin(): void {
    clearTimeout(this.timer);
    this.isReady = true;
    this.tries = 0;
    this.set("live", "");
    for (const resource of [...this.resources]) resource.connect();
    this.sendWaiting();
    this.beat();
  }

  /** A network may swallow a connection without a word; only an answer proves it. */
  private beat(): void {
    clearTimeout(this.heartbeat);
    this.heartbeat = setTimeout(() => {
      const late = (this.heartbeat = setTimeout(() => this.socket?.close(), PONG_MS));
      this.request("ping", {}).then(
        () => {
          clearTimeout(late);
          this.beat();
        },
        () => clearTimeout(late),
      );
    }, PING_MS);
  }

  private lose(code: number, reason: string): void {
    clearTimeout(this.timer);
    clearTimeout(this.heartbeat);
    const wasReady = this.isReady;
    this.socket = null;
    this.isReady = false;
    this.subscriptions.clear();
    this.sessions.clear();
    this.numbers.clear();
    if (wasReady) for (const resource of [...this.resources]) resource.disconnect?.();
    for (const [id, request] of [...this.pending]) {
      if (request.again && code !== NO_TOKEN) {
        request.isSent = false;
      } else {
        this.pending.delete(id);
        request.reject(lost());
      }
    }
    if (code === NO_TOKEN) {
      this.set("refused", reason);
      return;
    }
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.tries++);
    const wait = longest / 2 + (Math.random() * longest) / 2;
    this.nextTry = Date.now() + wait;
    this.timer = setTimeout(() => this.connect(), wait);
    if (this.link !== "connecting" || this.tries > 1) this.set("lost", reason);
  }

  private set(link: Link, why: string): void {
    this.link = link;
    this.options.onLink(link, why);
  }
}

function lost(): CommandError {
  return new CommandError({
    code: "connection_lost",
    message: "the connection to Holdfast was lost",
    hint: "it comes back by itself; then try again",
  });
}
