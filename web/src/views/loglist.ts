// The list of log lines: any number of them, of which only the visible ones are in the document.
// No framework: lines are added by the thousand, and painted once a frame.
import { hueOf } from "../core/hue.ts";
import { pieces } from "../core/ansi.ts";
import { ERROR, GAP, LINE, type LogLine, MARK, MARKER, WARN } from "../core/loglines.ts";
import { EVERYTHING, type LogQuery, expressionOf, fits, matches } from "../core/logquery.ts";
import { Numbers, lowerBound } from "../core/numbers.ts";
import { Ring } from "../core/ring.ts";
import { clock, count, size } from "../core/time.ts";

export const CAPACITY = 100_000;
const ROW = 18;
const TICK_MS = 250;
/** A paused list that is full takes nothing more when so few lines are left above. */
const RESERVE = 2000;

export interface ListState {
  isFollowing: boolean;
  /** Lines that came while it did not follow. */
  newLines: number;
  kept: number;
  shown: number;
  /** Lines that match; -1: nothing is looked for. */
  hits: number;
  /** Which of them is outlined, from 1 on; 0: none. */
  hit: number;
  errors: number;
  isCleared: boolean;
  /** What is wrong with the expression. */
  problem: string;
}

export interface ListOptions {
  names: readonly string[];
  /** Whether lines say which service printed them. */
  isNamed: boolean;
  onState: (state: ListState) => void;
  onLoadGap: (line: LogLine) => void;
  /** A line was chosen, by a click or a key. */
  onSelect: (line: LogLine | null) => void;
  /** Called once a frame, before painting. */
  onFrame: () => void;
  /** The oldest line is in sight: there may be older ones. */
  onTop: () => void;
}

interface Row {
  element: HTMLDivElement;
  line: LogLine | null;
  key: string;
}

export class LogList {
  readonly ring = new Ring<LogLine>(CAPACITY);
  isFollowing = true;
  selected: LogLine | null = null;
  private options: ListOptions;
  private query: LogQuery = EVERYTHING;
  private isFilter = false;
  private isWrapped = false;
  private isFolded = false;
  private isUtc = false;
  private expression: RegExp | null = null;
  private marking: RegExp | null = null;
  private problem = "";
  /** Numbers of the lines that are shown, from `start` on. */
  private shown: number[] = [];
  private start = 0;
  private tops: number[] = [];
  private readonly hits = new Numbers();
  private readonly errors = new Numbers();
  private readonly repeats = new Map<number, number>();
  private clearedBefore = Number.NEGATIVE_INFINITY;
  private newLines = 0;
  private hue: number[] = [];

  private root: HTMLElement | null = null;
  private scroller!: HTMLDivElement;
  private spacer!: HTMLDivElement;
  private sheet!: HTMLDivElement;
  private ticks!: HTMLCanvasElement;
  private rows: Row[] = [];
  private height = 0;
  private columns = 120;
  private cell = 7.2;
  private top = 0;
  private isDirty = true;
  private frame = 0;
  private ticksAt = 0;
  private observer: ResizeObserver | null = null;
  private wroteTop = -1;

  constructor(options: ListOptions) {
    this.options = options;
    this.setNames(options.names, options.isNamed);
  }

  mount(root: HTMLElement): void {
    this.root = root;
    this.scroller = element("div", "loglist");
    this.scroller.tabIndex = 0;
    this.scroller.setAttribute("role", "log");
    this.scroller.setAttribute("aria-live", "off");
    this.scroller.setAttribute("aria-label", "Log lines");
    this.sheet = element("div", "logsheet");
    this.spacer = element("div", "logspace");
    this.ticks = document.createElement("canvas");
    this.ticks.className = "logticks";
    this.ticks.setAttribute("aria-hidden", "true");
    this.scroller.append(this.sheet, this.spacer);
    root.append(this.scroller, this.ticks);
    this.scroller.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.scroller.addEventListener("click", (event) => this.onClick(event));
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.scroller);
    this.measure();
    this.frame = requestAnimationFrame(this.onFrame);
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.observer?.disconnect();
    this.root?.replaceChildren();
    this.root = null;
  }

  setNames(names: readonly string[], isNamed: boolean): void {
    this.options.names = names;
    this.options.isNamed = isNamed;
    this.hue = names.map(hueOf);
    for (const row of this.rows) row.key = "";
    this.isDirty = true;
  }

  setQuery(query: LogQuery, isFilter: boolean): void {
    this.query = query;
    this.isFilter = isFilter;
    try {
      this.expression = expressionOf(query);
      this.marking = expressionOf(query, "g");
      this.problem = "";
    } catch (error) {
      this.expression = this.marking = null;
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.rebuild();
  }

  /** Filter nothing, so that a line is seen among its neighbours. */
  showEverything(): void {
    this.query = { ...this.query, level: 0, stream: null };
    this.isFilter = false;
    this.rebuild();
  }

  setLook(look: { isWrapped: boolean; isFolded: boolean; isUtc: boolean }): void {
    this.isWrapped = look.isWrapped;
    this.isFolded = look.isFolded;
    this.isUtc = look.isUtc;
    this.rebuild();
  }

  /** Whether more lines may come: a list that is read and full keeps what is read. */
  hasRoom(): boolean {
    if (this.isFollowing || this.ring.length < CAPACITY) return true;
    return (this.shown[this.start + this.indexAt(this.top)] ?? this.ring.end) - this.ring.first > RESERVE;
  }

  add(line: LogLine): void {
    const first = this.ring.first;
    this.ring.push(line);
    if (this.ring.first !== first) this.forget();
    if (this.show(this.ring.end - 1, line) && !this.isFollowing) this.newLines += 1;
    this.isDirty = true;
  }

  /** Put lines before this one: older ones, or those that a gap stood for. */
  insert(before: LogLine | null, lines: readonly LogLine[]): void {
    const number = before === null ? this.ring.first : this.numberOf(before);
    if (number === null || lines.length === 0) return;
    const anchor = this.anchor();
    this.ring.insert(number, lines);
    this.rebuild(anchor);
  }

  /** Take a line out: a gap whose lines are here now. */
  remove(line: LogLine): void {
    const all = this.ring.toArray().filter((one) => one !== line);
    const anchor = this.anchor();
    this.ring.clear();
    for (const one of all) this.ring.push(one);
    this.rebuild(anchor);
  }

  /** Begin anew with nothing. */
  empty(): void {
    this.ring.clear();
    this.clearedBefore = Number.NEGATIVE_INFINITY;
    this.newLines = 0;
    this.rebuild();
  }

  /** Hide what is above; undone by `unclear`. */
  clear(): void {
    this.clearedBefore = this.ring.end;
    this.follow();
    this.rebuild();
  }

  unclear(): void {
    this.clearedBefore = Number.NEGATIVE_INFINITY;
    this.rebuild();
  }

  follow(): void {
    this.isFollowing = true;
    this.newLines = 0;
    this.isDirty = true;
  }

  pause(): void {
    this.isFollowing = false;
    this.isDirty = true;
  }

  focus(): void {
    this.scroller?.focus({ preventScroll: true });
  }

  /** Choose a line, and show it in the middle. */
  reveal(line: LogLine): void {
    const number = this.numberOf(line);
    if (number === null) return;
    this.isFollowing = false;
    this.choose(line);
    const place = lowerBound(this.shown, number, this.start) - this.start;
    const y = this.topOf(place) - Math.max(0, (this.height - ROW) / 2);
    this.top = Math.max(0, Math.min(y, this.total() - this.height));
    this.writeTop();
    this.isDirty = true;
  }

  /** Go to the next (1) or previous (-1) line that matches, or has an error. */
  step(kind: "hit" | "error", direction: 1 | -1): boolean {
    const numbers = kind === "hit" ? this.hits : this.errors;
    const from = this.selected ? this.numberOf(this.selected) : null;
    let place = numbers.length - 1;
    // Whoever follows and asks for an error means the newest one.
    if (from !== null || !this.isFollowing) {
      const here = from ?? this.shown[this.start + this.indexAt(this.top)] ?? this.ring.first;
      const at = numbers.lowerBound(here);
      place = direction === -1 ? at - 1 : from !== null && numbers.at(at) === here ? at + 1 : at;
    }
    // Behind the last one comes the first.
    const wrapped = (place + numbers.length) % Math.max(1, numbers.length);
    const line = this.ring.at(numbers.at(wrapped) ?? Number.NaN);
    if (!line) return false;
    this.reveal(line);
    return true;
  }

  /** The next (1) or previous (-1) shown line. */
  stepLine(direction: 1 | -1): void {
    const number = this.selected ? this.numberOf(this.selected) : null;
    const at =
      number === null
        ? this.start + this.indexAt(this.top)
        : lowerBound(this.shown, number, this.start) + direction;
    const line = this.ring.at(this.shown[at] ?? Number.NaN);
    if (line) this.reveal(line);
  }

  choose(line: LogLine | null): void {
    this.selected = line;
    for (const row of this.rows) row.key = "";
    this.options.onSelect(line);
    this.isDirty = true;
  }

  /** The newest line of a service at or before this place of its log; null: not here. */
  find(service: number, position: number): LogLine | null {
    let found: LogLine | null = null;
    for (let number = this.ring.first; number < this.ring.end; number++) {
      const line = this.ring.at(number) as LogLine;
      if (line.kind !== LINE || line.service !== service) continue;
      if (line.position === position) return line;
      if (line.position < position) found = line;
    }
    return found;
  }

  /** The lines that are shown, the oldest first. */
  shownLines(): LogLine[] {
    return this.shown.slice(this.start).map((number) => this.ring.at(number) as LogLine);
  }

  isShown(line: LogLine): boolean {
    const number = this.numberOf(line);
    return number !== null && this.shown[lowerBound(this.shown, number, this.start)] === number;
  }

  // What is shown

  private rebuild(anchor = this.anchor()): void {
    this.shown = [];
    this.tops = [];
    this.start = 0;
    this.hits.clear();
    this.errors.clear();
    this.repeats.clear();
    for (let number = this.ring.first; number < this.ring.end; number++)
      this.show(number, this.ring.at(number) as LogLine);
    for (const row of this.rows) row.key = "";
    if (!this.isFollowing && anchor !== null) {
      const number = this.numberOf(anchor.line);
      if (number !== null) {
        this.top = this.topOf(lowerBound(this.shown, number, this.start) - this.start) - anchor.offset;
        this.top = Math.max(0, Math.min(this.top, this.total() - this.height));
        this.spacer.style.height = `${this.total()}px`;
        this.writeTop();
      }
    }
    this.isDirty = true;
  }

  /** Show a line if it is wanted; returns whether it is. */
  private show(number: number, line: LogLine): boolean {
    if (number < this.clearedBefore && line.kind !== MARK) return false;
    if (!fits(this.query, line)) return false;
    const isHit = this.expression !== null && line.kind !== MARK && this.expression.test(line.plain);
    if (this.isFilter && this.expression !== null && !isHit && (line.kind === LINE || line.kind === MARKER))
      return false;
    if (this.isFolded && line.kind === LINE && this.shown.length > this.start) {
      const lastNumber = this.shown.at(-1) as number;
      const last = this.ring.at(lastNumber);
      if (last?.kind === LINE && last.service === line.service && last.plain === line.plain) {
        this.repeats.set(lastNumber, (this.repeats.get(lastNumber) ?? 1) + 1);
        return true;
      }
    }
    if (this.isWrapped) this.tops.push(this.tops.length ? this.bottom() : 0);
    this.shown.push(number);
    if (isHit) this.hits.push(number);
    if (line.kind === LINE && line.level === ERROR) this.errors.push(number);
    return true;
  }

  /** The oldest lines are gone from the ring. */
  private forget(): void {
    const { first } = this.ring;
    while ((this.shown[this.start] ?? first) < first) {
      this.repeats.delete(this.shown[this.start] as number);
      const height = this.isWrapped ? (this.tops[this.start + 1] ?? 0) - (this.tops[this.start] ?? 0) : ROW;
      this.start += 1;
      if (!this.isFollowing) this.top = Math.max(0, this.top - height);
    }
    if (this.start > 65_536) {
      this.shown = this.shown.slice(this.start);
      this.tops = this.tops.slice(this.start);
      this.start = 0;
    }
    this.hits.forgetBefore(first);
    this.errors.forgetBefore(first);
  }

  private numberOf(line: LogLine): number | null {
    for (let number = this.ring.end - 1; number >= this.ring.first; number--)
      if (this.ring.at(number) === line) return number;
    return null;
  }

  /** The line at the top, and how far it is above it. */
  private anchor(): { line: LogLine; offset: number } | null {
    const place = this.indexAt(this.top);
    const line = this.ring.at(this.shown[this.start + place] ?? Number.NaN);
    return line ? { line, offset: this.topOf(place) - this.top } : null;
  }

  // Measures

  private count(): number {
    return this.shown.length - this.start;
  }

  private bottom(): number {
    const last = this.shown.length - 1;
    const line = this.ring.at(this.shown[last] ?? Number.NaN);
    return (this.tops[last] ?? 0) + (line ? this.heightOf(line) : ROW);
  }

  private heightOf(line: LogLine): number {
    const width = Math.max(8, this.columns);
    return ROW * Math.max(1, Math.ceil(cells(line.plain) / width));
  }

  private total(): number {
    if (!this.isWrapped) return this.count() * ROW;
    return this.count() ? this.bottom() - (this.tops[this.start] ?? 0) : 0;
  }

  private topOf(place: number): number {
    if (!this.isWrapped) return place * ROW;
    return (this.tops[this.start + place] ?? 0) - (this.tops[this.start] ?? 0);
  }

  private indexAt(y: number): number {
    if (!this.isWrapped) return Math.max(0, Math.min(this.count() - 1, Math.floor(y / ROW)));
    const base = this.tops[this.start] ?? 0;
    const at = lowerBound(this.tops, y + base + 0.5, this.start) - 1 - this.start;
    return Math.max(0, at);
  }

  private measure(): void {
    if (!this.root) return;
    this.height = this.scroller.clientHeight;
    const probe = element("span", "logprobe");
    probe.textContent = "0".repeat(40);
    this.sheet.append(probe);
    this.cell = probe.getBoundingClientRect().width / 40 || 7.2;
    probe.remove();
    const name = this.options.isNamed ? 17 : 0;
    const columns = Math.floor((this.scroller.clientWidth - 24) / this.cell) - 14 - name;
    const isOther = columns !== this.columns;
    this.columns = columns;
    if (isOther && this.isWrapped) this.rebuild();
    this.isDirty = true;
  }

  // Painting

  private onScroll(): void {
    const top = this.scroller.scrollTop;
    if (Math.abs(top - this.wroteTop) < 2) return;
    const isUp = top < this.top - 1;
    this.top = top;
    this.wroteTop = top;
    const isAtEnd = top + this.height >= this.total() - 2;
    if (isUp && !isAtEnd) this.isFollowing = false;
    else if (isAtEnd && !this.isFollowing) this.follow();
    if (top < 4 * ROW && isUp) this.options.onTop();
    this.isDirty = true;
  }

  private writeTop(): void {
    this.scroller.scrollTop = this.top;
    this.wroteTop = this.scroller.scrollTop;
  }

  private readonly onFrame = (): void => {
    this.frame = requestAnimationFrame(this.onFrame);
    this.options.onFrame();
    if (this.isDirty && this.root) this.paint();
  };

  private paint(): void {
    this.isDirty = false;
    const total = this.total();
    const space = `${total}px`;
    if (this.spacer.style.height !== space) this.spacer.style.height = space;
    if (this.isFollowing) {
      this.top = Math.max(0, total - this.height);
      if (this.wroteTop !== this.top) this.writeTop();
    } else if (Math.abs(this.top - this.wroteTop) > 1) {
      this.writeTop();
    }
    const first = this.count() ? this.indexAt(this.top) : 0;
    let used = 0;
    let y = this.topOf(first) - this.top;
    for (let place = first; place < this.count() && y < this.height; place++) {
      const number = this.shown[this.start + place] as number;
      const line = this.ring.at(number) as LogLine;
      const row = this.row(used++);
      this.draw(row, line, this.repeats.get(number) ?? 1);
      row.element.style.transform = `translateY(${y}px)`;
      y += this.isWrapped ? this.heightOf(line) : ROW;
    }
    for (let at = used; at < this.rows.length; at++) {
      const row = this.rows[at] as Row;
      if (row.line !== null) {
        row.line = null;
        row.key = "";
        row.element.hidden = true;
        row.element.className = "logrow";
        row.element.replaceChildren();
      }
    }
    const now = performance.now();
    if (now - this.ticksAt > TICK_MS) {
      this.ticksAt = now;
      this.drawTicks();
    }
    this.tell();
  }

  private tell(): void {
    const number = this.selected && this.hits.length ? this.numberIfShown(this.selected) : null;
    const at = number === null ? -1 : this.hits.lowerBound(number);
    this.options.onState({
      isFollowing: this.isFollowing,
      newLines: this.newLines,
      kept: this.ring.length,
      shown: this.count(),
      hits: this.expression ? this.hits.length : -1,
      hit: at >= 0 && this.hits.at(at) === number ? at + 1 : 0,
      errors: this.errors.length,
      isCleared: this.clearedBefore > this.ring.first,
      problem: this.problem,
    });
  }

  private selectedNumber = { line: null as LogLine | null, end: 0, first: 0, number: null as number | null };

  /** The number of the chosen line, looked up again only when lines were inserted. */
  private numberIfShown(line: LogLine): number | null {
    const known = this.selectedNumber;
    if (known.line === line && known.number !== null && this.ring.at(known.number) === line)
      return known.number;
    const number = this.numberOf(line);
    this.selectedNumber = { line, end: this.ring.end, first: this.ring.first, number };
    return number;
  }

  private row(place: number): Row {
    let row = this.rows[place];
    if (row === undefined) {
      row = { element: element("div", "logrow"), line: null, key: "" };
      this.rows.push(row);
      this.sheet.append(row.element);
    }
    return row;
  }

  private draw(row: Row, line: LogLine, repeats: number): void {
    const key = `${repeats}${line === this.selected}`;
    if (row.line === line && row.key === key) return;
    row.line = line;
    row.key = key;
    const { element: div } = row;
    div.hidden = false;
    div.className = this.lookOf(line);
    if (line.kind !== LINE) {
      div.replaceChildren(...this.special(line));
      return;
    }
    const parts: Node[] = [span("logtime", line.time ? clock(line.time, this.isUtc) : "")];
    if (this.options.isNamed) {
      const name = span(`logname hue${this.hue[line.service] ?? 0}`, this.options.names[line.service] ?? "");
      name.title = this.options.names[line.service] ?? "";
      parts.push(name);
    }
    const text = element("span", "logtext");
    text.append(...this.textOf(line));
    parts.push(text);
    if (repeats > 1) parts.push(span("logcount", `× ${count(repeats)}`));
    div.replaceChildren(...parts);
  }

  private lookOf(line: LogLine): string {
    const names = ["logrow"];
    if (line.kind === MARKER) names.push("logmarker");
    if (line.kind === GAP) names.push("loggap");
    if (line.kind === MARK) names.push("logmark");
    if (line.kind === LINE && line.level === ERROR) names.push("logerror");
    if (line.level === WARN) names.push("logwarn");
    if (line.stream === 1) names.push("logerr");
    if (line === this.selected) names.push("logchosen");
    if (this.isWrapped) names.push("logwrap");
    return names.join(" ");
  }

  private special(line: LogLine): Node[] {
    const time = span("logtime", line.time ? clock(line.time, this.isUtc) : "");
    if (line.kind === GAP && line.gap) {
      const { bytes, reason } = line.gap;
      const much = bytes === null ? "Output" : size(bytes);
      const text = span("logtext", `${much} not shown: ${line.text}. `);
      if (reason === "slow") {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "loglink";
        button.textContent = "Load it";
        button.addEventListener("click", () => this.options.onLoadGap(line));
        text.append(button);
      }
      return [time, text];
    }
    return [time, span("logtext", line.plain)];
  }

  /** The text of a line: colours, and what matches. Only ever text nodes. */
  private textOf(line: LogLine): Node[] {
    const found = pieces(line.text);
    const all = found.map((piece) => piece.text).join("");
    const marks = this.marking ? matches(this.marking, all) : [];
    const nodes: Node[] = [];
    let at = 0;
    for (const piece of found) {
      const end = at + piece.text.length;
      let from = at;
      const put = (to: number, isMarked: boolean) => {
        if (to <= from) return;
        const text = all.slice(from, to);
        from = to;
        if (!piece.look && !piece.color && !piece.ground && !isMarked) {
          nodes.push(document.createTextNode(text));
          return;
        }
        const node = isMarked ? element("mark", piece.look) : element("span", piece.look);
        node.textContent = text;
        if (piece.color && !isMarked) node.style.color = piece.color;
        if (piece.ground && !isMarked) node.style.backgroundColor = piece.ground;
        nodes.push(node);
      };
      for (const [begin, stop] of marks) {
        if (stop <= at || begin >= end) continue;
        put(Math.max(at, begin), false);
        put(Math.min(end, stop), true);
      }
      put(end, false);
      at = end;
    }
    return nodes;
  }

  /** Where the errors and the hits are, along the scrollbar. */
  private drawTicks(): void {
    const canvas = this.ticks;
    const height = canvas.clientHeight;
    if (canvas.height !== height) canvas.height = height;
    canvas.width = 6;
    const paper = canvas.getContext("2d");
    if (!paper || !this.count()) return;
    const style = getComputedStyle(canvas);
    const draw = (numbers: Numbers, color: string) => {
      paper.fillStyle = color;
      let last = -1;
      for (const number of numbers) {
        const place = this.isFilter || this.isFolded || this.clearedBefore > this.ring.first
          ? lowerBound(this.shown, number, this.start) - this.start
          : number - (this.shown[this.start] ?? 0);
        const y = Math.floor((place / this.count()) * height);
        if (y === last) continue;
        last = y;
        paper.fillRect(0, y, 6, 2);
      }
    };
    if (this.hits.length < this.count()) draw(this.hits, style.getPropertyValue("--warn-fill"));
    draw(this.errors, style.getPropertyValue("--bad"));
  }

  private onClick(event: MouseEvent): void {
    if ((event.target as Element).closest("button") || String(getSelection())) return;
    const row = (event.target as Element).closest(".logrow");
    const found = this.rows.find((one) => one.element === row);
    if (found?.line) this.choose(found.line === this.selected ? null : found.line);
  }
}

/** How many cells a text takes: wide letters take two. */
function cells(text: string): number {
  if (!/[\u0009\u1100-\uffff]/.test(text)) return text.length;
  let total = 0;
  for (const letter of text) {
    const code = letter.codePointAt(0) as number;
    if (code === 9) total += 8 - (total % 8);
    else total += code >= 0x1100 && !(code >= 0x2000 && code < 0x2e80) ? 2 : 1;
  }
  return total;
}

function element<K extends keyof HTMLElementTagNameMap>(name: K, look: string): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  made.className = look;
  return made;
}

function span(look: string, text: string): HTMLSpanElement {
  const made = element("span", look);
  made.textContent = text;
  return made;
}
