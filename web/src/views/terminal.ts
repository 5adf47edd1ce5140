// A terminal on the screen: xterm, and the session of a service that it shows. One viewer drives it,
// the others watch: only the driver's keys, size and answers to queries reach the program. What is
// replayed is never answered.
import { FitAddon } from "@xterm/addon-fit";
import { SerializeAddon } from "@xterm/addon-serialize";
import { type ITheme, Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { type CellRow, findInRows } from "../core/find.ts";
import { clipboardText, firstLine, pasteable, safePoint } from "../core/screen.ts";
import type { Frame, Socket } from "../core/socket.ts";
import { OUTPUT, records } from "../core/wire.ts";

const WINDOW = 512 * 1024;
/** How much of a log is replayed where no screen is kept. */
const REPLAY = 256 * 1024;
const SCROLLBACK = 5000;
const KEPT_LINES = 1000;
const LARGEST_KEPT = 400_000;
const SAVE_MS = 1000;
const HEAD = 13;

export interface TerminalState {
  /** connecting, live, ended, refused. */
  stage: "connecting" | "live" | "ended" | "refused";
  isMine: boolean;
  isHeld: boolean;
  columns: number;
  rows: number;
  renderer: "webgl" | "dom";
  /** How the last run ended, or why there is nothing to see. */
  ending: string;
  isReplaying: boolean;
}

export interface TerminalOptions {
  service: string;
  socket: Socket;
  mayType: boolean;
  /** Ask a person; the answer is whether it may be done. */
  ask: (title: string, detail: string, verb: string) => Promise<boolean>;
  onState: (state: TerminalState) => void;
  onFind: () => void;
  onFault: (error: unknown) => void;
}

interface Kept {
  at: number;
  screen: string;
  columns: number;
  rows: number;
}

export class TerminalView {
  readonly terminal: Terminal;
  private readonly options: TerminalOptions;
  private readonly fit = new FitAddon();
  private readonly serializer = new SerializeAddon();
  private readonly forget: () => void;
  private readonly key: string;
  private unlisten: () => void = () => undefined;
  private observer: ResizeObserver | null = null;
  private webgl: { dispose: () => void } | null = null;
  private id = "";
  private number = 0;
  /** The place in the log behind everything that was written to the screen. */
  private at = -1;
  /** What comes before this place is a replay. */
  private replayEnd = 0;
  private writing = 0;
  private saving: ReturnType<typeof setTimeout> | undefined;
  private isOver = false;
  private size = { columns: 0, rows: 0 };
  private state: TerminalState = {
    stage: "connecting", isMine: false, isHeld: false, columns: 80, rows: 24,
    renderer: "dom", ending: "", isReplaying: false,
  };

  constructor(options: TerminalOptions) {
    this.options = options;
    this.key = `holdfast-screen-${options.service}`;
    this.terminal = new Terminal({
      allowProposedApi: true,
      logLevel: "off",
      scrollback: SCROLLBACK,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
      fontSize: 13,
      theme: themeNow(),
      minimumContrastRatio: 4.5,
      linkHandler: { activate: (_, uri) => void this.openLink(uri) },
    });
    for (const addon of [this.fit, this.serializer]) this.terminal.loadAddon(addon);
    this.guardAnswers();
    this.terminal.onData((data) => this.type(data));
    this.terminal.onBinary((data) => this.type(data));
    this.terminal.attachCustomKeyEventHandler((event) => this.onKey(event));
    this.forget = options.socket.keep({
      connect: () => void this.connect(),
      disconnect: () => {
        this.id = "";
        this.set({ stage: "connecting", isMine: false, isHeld: false });
      },
    });
  }

  mount(root: HTMLElement): void {
    this.terminal.open(root);
    root.addEventListener("paste", (event) => void this.onPaste(event), { capture: true });
    this.observer = new ResizeObserver(() => this.refit());
    this.observer.observe(root);
    this.refit();
    void this.loadWebgl();
    addEventListener("pagehide", this.save);
  }

  dispose(): void {
    this.isOver = true;
    removeEventListener("pagehide", this.save);
    clearTimeout(this.saving);
    this.save();
    this.forget();
    this.unlisten();
    this.observer?.disconnect();
    if (this.id) this.options.socket.request("session:close", { sessionId: this.id }).catch(() => undefined);
    this.webgl?.dispose();
    this.terminal.dispose();
  }

  focus(): void {
    this.terminal.focus();
  }

  /** The text of the screen and of what scrolled off it. */
  text(): string {
    const { active } = this.terminal.buffer;
    const lines: string[] = [];
    for (let at = 0; at < active.length; at++) lines.push(active.getLine(at)?.translateToString(true) ?? "");
    return lines.join("\n");
  }

  /** Select the next (or previous) place of a text; returns whether there is one. */
  find(text: string, isBack: boolean): boolean {
    const { active } = this.terminal.buffer;
    const chosen = this.terminal.getSelectionPosition()?.start;
    const from = { row: chosen?.y ?? active.length - 1, column: chosen?.x ?? this.terminal.cols };
    const found = findInRows(text, active.length, (row) => this.cells(row), from, isBack);
    if (!found) {
      this.terminal.clearSelection();
      return false;
    }
    this.terminal.select(found.column, found.row, found.length);
    this.terminal.scrollToLine(Math.max(0, found.row - Math.floor(this.terminal.rows / 2)));
    return true;
  }

  private cells(row: number): CellRow {
    const line = this.terminal.buffer.active.getLine(row);
    const columns: number[] = [];
    let text = "";
    for (let column = 0; line && column < line.length; column++) {
      const cell = line.getCell(column);
      if (!cell || cell.getWidth() === 0) continue;
      const letters = cell.getChars() || " ";
      for (let at = 0; at < letters.length; at++) columns.push(column);
      text += letters;
    }
    return { text, columns };
  }

  retheme(): void {
    this.terminal.options.theme = themeNow();
  }

  setScreenReader(isOn: boolean): void {
    this.terminal.options.screenReaderMode = isOn;
  }

  /** Become the one who types, also against somebody else's will if that is meant. */
  async take(force: boolean, isQuiet = false): Promise<void> {
    const { columns, rows } = this.proposed();
    const size = { cols: columns, rows };
    try {
      await this.options.socket.request("terminal:take", { sessionId: this.id, force, ...size });
    } catch (error) {
      // Somebody else was quicker, or this token may only look: then this is a watcher.
      if (!isQuiet) this.options.onFault(error);
    }
  }

  async release(): Promise<void> {
    await this.options.socket.request("terminal:release", { sessionId: this.id }).catch(this.options.onFault);
  }

  /** Show what was recorded up to a moment. */
  show(pieces: readonly Uint8Array[], isFresh: boolean): void {
    if (isFresh) this.terminal.reset();
    for (const piece of pieces) this.terminal.write(piece);
  }

  // The session

  private async connect(): Promise<void> {
    const { socket, service } = this.options;
    const wanted = { service, binary: true, bufferSize: WINDOW, flushInterval: 8 };
    try {
      const kept = this.at < 0 ? this.kept() : null;
      let place: object = { tail: 0 };
      if (this.at >= 0) place = { offset: this.at };
      else if (kept) place = { offset: kept.at };
      let told = await socket.request("session:create", { ...wanted, ...place });
      const end = Math.max(...cursorParts(told.end));
      if (kept && kept.at <= end) {
        this.terminal.resize(kept.columns, kept.rows);
        this.terminal.write(kept.screen);
        this.at = kept.at;
      } else if (this.at < 0 && end > 0) {
        // No screen is kept: replay the end of the log, from where nothing before it is seen.
        await socket.request("session:close", { sessionId: told.sessionId }).catch(() => undefined);
        await this.replay(end);
        told = await socket.request("session:create", { ...wanted, offset: this.at });
      } else if (this.at < 0) {
        this.at = 0;
      }
      this.begin(told);
    } catch (error) {
      if (this.isOver || socket.link !== "live") return;
      const ending = error instanceof Error ? error.message : String(error);
      this.set({ stage: "refused", ending });
    }
  }

  private begin(told: any): void {
    if (this.isOver) {
      void this.options.socket.request("session:close", { sessionId: told.sessionId }).catch(() => undefined);
      return;
    }
    this.id = told.sessionId;
    this.number = told.number;
    this.replayEnd = Math.max(...cursorParts(told.end));
    this.unlisten = this.options.socket.listen(
      told.sessionId,
      told.number,
      (frame) => this.notice(frame),
      (data) => this.takeBytes(data),
    );
    this.set({ stage: stageOf(told.status), isHeld: told.keyboard });
    this.follow(told.size);
    if (!told.keyboard && this.options.mayType && this.state.stage === "live") void this.take(false, true);
  }

  /** Write the end of the log, beginning where nothing before it is seen. */
  private async replay(end: number): Promise<void> {
    const { service } = this.options;
    const from = Math.max(0, end - REPLAY);
    const parts: Uint8Array[] = [];
    await this.past({ cursors: { [service]: `P${from.toString(36)}` } }, (data) => parts.push(data));
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    const safe = safePoint(all);
    const begin = safe >= 0 ? safe : from > 0 ? firstLine(all) : 0;
    this.write(all.subarray(begin), true);
    this.at = end;
  }

  /** Everything that was recorded of a part of the log, with its times. */
  past(part: object, onPiece: (data: Uint8Array, time: number) => void): Promise<void> {
    const { socket, service } = this.options;
    const fields = { services: [service], until: {}, ...part };
    return socket.request("session:create", fields).then(
      (told) =>
        new Promise((resolve) => {
          const unlisten = socket.listen(
            told.sessionId,
            told.number,
            (frame) => {
              if (frame.event !== "session:closed") return;
              unlisten();
              resolve();
            },
            (frame) => {
              for (const record of records(frame))
                if (record.type === OUTPUT) onPiece(record.data.slice(), record.time);
            },
          );
        }),
    );
  }

  private takeBytes(frame: DataView<ArrayBuffer>): void {
    const position = frame.getUint32(5) * 2 ** 32 + frame.getUint32(9);
    const data = new Uint8Array(frame.buffer, frame.byteOffset + HEAD);
    this.at = position + data.length;
    this.write(data, position < this.replayEnd, data.length);
  }

  /** Write to the screen. What is granted again was drawn. */
  private write(data: Uint8Array, isReplay: boolean, granted = 0): void {
    if (isReplay) {
      this.writing += 1;
      if (!this.state.isReplaying) this.set({ isReplaying: true });
    }
    this.terminal.write(data, () => {
      if (isReplay && --this.writing === 0) this.set({ isReplaying: false });
      if (granted && this.id) this.options.socket.send("ack", { sessionId: this.id, bytes: granted });
      this.saving ??= setTimeout(() => {
        this.saving = undefined;
        this.save();
      }, SAVE_MS);
    });
  }

  private notice(frame: Frame): void {
    switch (frame.event) {
      case "terminal:keyboard":
        this.set({ isMine: frame.data.mine, isHeld: frame.data.held });
        if (frame.data.mine) this.refit(true);
        break;
      case "terminal:size":
        this.follow(frame.data);
        break;
      case "status": {
        const { state, exitCode, signal, reason } = frame.data.data;
        const how = signal ? `ended by ${signal}` : `exited with code ${exitCode ?? "unknown"}`;
        const isOver = state === "completed" || state === "failed";
        this.set({ stage: isOver ? "ended" : "live", ending: isOver ? reason || how : "" });
        break;
      }
      case "output:gap":
        this.at = frame.data.offset.stdout;
        this.terminal.write(`\r\n\u001b[0m[${frame.data.message}]\r\n`);
        break;
      case "session:closed":
        this.id = "";
        this.set({ stage: "ended", ending: frame.data.reason });
        break;
      case "error":
        this.options.onFault(new Error(frame.data?.data?.message));
        break;
    }
  }

  // The screen that survives a reload

  private readonly save = (): void => {
    if (this.at < 0 || this.state.isReplaying || this.writing) return;
    const screen = this.serializer.serialize({ scrollback: KEPT_LINES });
    const { cols: columns, rows } = this.terminal;
    const kept: Kept = { at: this.at, screen, columns, rows };
    if (screen.length > LARGEST_KEPT) return;
    try {
      sessionStorage.setItem(this.key, JSON.stringify(kept));
    } catch {
      sessionStorage.removeItem(this.key);
    }
  };

  private kept(): Kept | null {
    try {
      return JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    } catch {
      return null;
    }
  }

  // Keys, paste, links

  private type(data: string): void {
    if (!this.options.mayType || !this.id || this.writing > 0 || this.state.stage !== "live") return;
    if (this.state.isHeld && !this.state.isMine) return;
    const text = new TextEncoder().encode(data);
    const frame = new Uint8Array(5 + text.length);
    frame[0] = 16;
    new DataView(frame.buffer).setUint32(1, this.number);
    frame.set(text, 5);
    this.options.socket.sendBytes(frame);
  }

  private onKey(event: KeyboardEvent): boolean {
    if (event.type !== "keydown") return true;
    if (event.key === "F6") {
      this.terminal.blur();
      document.getElementById("page")?.focus();
      return false;
    }
    if (!event.ctrlKey || !event.shiftKey) return true;
    if (event.code === "KeyF") {
      event.preventDefault();
      this.options.onFind();
      return false;
    }
    if (event.code === "KeyC") {
      event.preventDefault();
      const chosen = this.terminal.getSelection();
      if (chosen) navigator.clipboard.writeText(chosen).catch(this.options.onFault);
      return false;
    }
    // The browser pastes.
    return event.code !== "KeyV";
  }

  private async onPaste(event: ClipboardEvent): Promise<void> {
    event.preventDefault();
    event.stopPropagation();
    const { text, lines, hadControls } = pasteable(event.clipboardData?.getData("text/plain") ?? "");
    if (!text) return;
    if (lines > 1 || hadControls) {
      const title = lines > 1 ? `Paste ${lines} lines?` : "Paste this?";
      const note = hadControls ? "Control characters were taken out.\n\n" : "";
      const shown = text.replaceAll("\r", "\n");
      const detail = note + (shown.length > 600 ? `${shown.slice(0, 600)}…` : shown);
      if (!(await this.options.ask(title, detail, "Paste"))) return;
      this.focus();
    }
    this.terminal.paste(text);
  }

  private async openLink(uri: string): Promise<void> {
    if (!/^https?:\/\//i.test(uri)) return;
    if (await this.options.ask("Open this link?", uri, "Open")) window.open(uri, "_blank", "noopener,noreferrer");
  }

  /** Queries are answered by the driver only, and never while something is replayed. */
  private guardAnswers(): void {
    const { parser } = this.terminal;
    const isSilent = () => !this.state.isMine || this.writing > 0;
    for (const id of [
      { final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" },
      { prefix: "?", final: "n" }, { intermediates: "$", final: "p" }, { final: "t" },
      { prefix: "?", intermediates: "$", final: "p" }, { prefix: ">", final: "q" },
      { prefix: "?", final: "u" },
    ])
      parser.registerCsiHandler(id, isSilent);
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, isSilent);
    for (const code of [4, 10, 11, 12])
      parser.registerOscHandler(code, (data) => data.includes("?") && isSilent());
    parser.registerOscHandler(52, (data) => {
      const text = clipboardText(data);
      if (text !== null && !isSilent()) void this.offerClipboard(text);
      return true;
    });
  }

  private async offerClipboard(text: string): Promise<void> {
    const title = "The program wants to write your clipboard";
    if (!(await this.options.ask(title, text.slice(0, 600), "Allow"))) return;
    navigator.clipboard.writeText(text).catch(this.options.onFault);
  }

  // Size and renderer

  private proposed(): { columns: number; rows: number } {
    const size = this.fit.proposeDimensions();
    // Where it is not laid out yet, there is no size.
    const known = (value: number | undefined, otherwise: number) =>
      value !== undefined && Number.isFinite(value) ? value : otherwise;
    return {
      columns: Math.max(2, known(size?.cols, this.terminal.cols)),
      rows: Math.max(1, known(size?.rows, this.terminal.rows)),
    };
  }

  /** The driver's size is the program's; a watcher has the driver's. */
  private refit(isNew = false): void {
    if (!this.terminal.element) return;
    if (this.state.isHeld && !this.state.isMine && this.size.columns) {
      this.terminal.resize(this.size.columns, this.size.rows);
    } else {
      const { columns, rows } = this.proposed();
      const isOther = columns !== this.terminal.cols || rows !== this.terminal.rows;
      if (isOther) this.terminal.resize(columns, rows);
      if (this.state.isMine && this.id && (isOther || isNew))
        this.options.socket.send("terminal:resize", { sessionId: this.id, cols: columns, rows });
    }
    this.set({ columns: this.terminal.cols, rows: this.terminal.rows });
  }

  private follow(size: { cols: number; rows: number } | null | undefined): void {
    if (size) this.size = { columns: size.cols, rows: size.rows };
    this.refit();
  }

  private async loadWebgl(): Promise<void> {
    try {
      const { WebglAddon } = await import("@xterm/addon-webgl");
      if (this.isOver) return;
      const addon = new WebglAddon();
      addon.onContextLoss(() => {
        addon.dispose();
        this.webgl = null;
        this.set({ renderer: "dom" });
        this.refit();
      });
      this.terminal.loadAddon(addon);
      this.webgl = addon;
      this.set({ renderer: "webgl" });
      this.refit();
    } catch {
      // No WebGL here: the document draws the cells.
      this.set({ renderer: "dom" });
    }
  }

  private set(change: Partial<TerminalState>): void {
    this.state = { ...this.state, ...change };
    if (!this.isOver) this.options.onState(this.state);
  }
}

function stageOf(status: string): TerminalState["stage"] {
  return ["running", "starting", "paused", "stopping"].includes(status) ? "live" : "ended";
}

function cursorParts(cursor: string): number[] {
  return cursor.slice(1).split(".").map((digits) => Number.parseInt(digits, 36));
}

/** The page's colours, and the sixteen of its logs. */
function themeNow(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
  const theme: Record<string, string> = {
    background: color("bg"),
    foreground: color("text"),
    cursor: color("accent"),
    cursorAccent: color("bg"),
    selectionBackground: color("select"),
    selectionInactiveBackground: color("raised"),
  };
  names.forEach((name, at) => {
    theme[name] = color(`ansi-${at}`);
    theme[`bright${name[0]!.toUpperCase()}${name.slice(1)}`] = color(`ansi-${at + 8}`);
  });
  return theme;
}
