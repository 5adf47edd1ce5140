// Colours of a line of output, and its text without them. What a terminal would do with other
// control sequences is left out; what could deceive a reader is made visible.

export interface Piece {
  text: string;
  /** Names of classes: `a1 bold`. */
  look: string;
  /** Colours that have no name, as CSS. */
  color?: string;
  ground?: string;
}

// CSI, OSC (to BEL or ST), other strings (DCS, PM, APC, SOS), two-byte escapes, and C1 controls.
const SEQUENCE = new RegExp(
  "\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)?|" +
    "[PX^_][^\\u001b]*(?:\\u001b\\\\)?|[ -/]*[0-~])|[\\u0080-\\u009f]",
  "g",
);
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;
/** Marks that turn the direction of text, or are not seen. */
const HIDDEN = /[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/;
const ALL_HIDDEN = new RegExp(`${CONTROL.source}|${HIDDEN.source}`, "g");
const TAB = 8;

/** The text that a person reads: without control sequences, and only what the last carriage return
    left. */
export function plain(text: string): string {
  if (!CONTROL.test(text) && !/[\u0080-\u009f]/.test(text)) return text;
  return afterReturn(text.replace(SEQUENCE, ""));
}

function afterReturn(text: string): string {
  const whole = text.endsWith("\r") ? text.slice(0, -1) : text;
  return whole.slice(whole.lastIndexOf("\r") + 1);
}

/** Every control and every mark of direction as a sign that is seen. */
export function visible(text: string): string {
  const told = text.replace(ALL_HIDDEN, (sign) => {
    const code = sign.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
  return told.includes("\t") ? untabbed(told) : told;
}

function untabbed(text: string): string {
  let out = "";
  for (const part of text.split("\t")) {
    if (out !== "" || text.startsWith("\t")) out += " ".repeat(TAB - (out.length % TAB));
    out += part;
  }
  return text.startsWith("\t") ? out.slice(TAB) || out : out;
}

interface Look {
  fg: string;
  bg: string;
  styles: Set<string>;
}

/** Pieces of a line, each with its colours. */
export function pieces(text: string): Piece[] {
  if (!text.includes("\u001b")) {
    const only = visible(plain(text));
    return only === "" ? [] : [{ text: only, look: "" }];
  }
  const look: Look = { fg: "", bg: "", styles: new Set() };
  let found: Piece[] = [];
  let from = 0;
  const add = (part: string) => {
    const whole = part.endsWith("\r") && from >= text.length ? part.slice(0, -1) : part;
    const back = whole.lastIndexOf("\r");
    if (back >= 0 && whole.length > back + 1) found = [];
    const seen = visible(back >= 0 ? whole.slice(back + 1) : whole);
    if (seen !== "") found.push(piece(seen, look));
  };
  for (const match of text.matchAll(SEQUENCE)) {
    if (match.index > from) add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[0].startsWith("\u001b[") && match[0].endsWith("m")) change(look, match[0].slice(2, -1));
  }
  const last = text.slice(from);
  from = text.length;
  if (last) add(last);
  return found;
}

function piece(text: string, look: Look): Piece {
  const isTurned = look.styles.has("inverse");
  const [fg, bg] = isTurned ? [look.bg, look.fg] : [look.fg, look.bg];
  const made: Piece = { text, look: "" };
  const names: string[] = [];
  if (fg.startsWith("#")) made.color = fg;
  else if (fg) names.push(`a${fg}`);
  else if (isTurned) names.push("on");
  if (bg.startsWith("#")) made.ground = bg;
  else if (bg) names.push(`b${bg}`);
  else if (isTurned) names.push("turned");
  for (const style of look.styles) if (style !== "inverse") names.push(style);
  made.look = names.join(" ");
  return made;
}

const STYLES: Record<number, string> = {
  1: "bold",
  2: "weak",
  3: "italic",
  4: "under",
  7: "inverse",
  9: "struck",
};

function change(look: Look, codes: string): void {
  const numbers = codes.replaceAll(":", ";").split(";").map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] as number;
    if (code === 0) {
      look.fg = look.bg = "";
      look.styles.clear();
    } else if (STYLES[code]) look.styles.add(STYLES[code] as string);
    else if (code === 22) {
      look.styles.delete("bold");
      look.styles.delete("weak");
    } else if (code > 22 && code < 30) look.styles.delete(STYLES[code - 20] ?? "");
    else if (code >= 30 && code <= 37) look.fg = String(code - 30);
    else if (code >= 90 && code <= 97) look.fg = String(code - 82);
    else if (code >= 40 && code <= 47) look.bg = String(code - 40);
    else if (code >= 100 && code <= 107) look.bg = String(code - 92);
    else if (code === 39) look.fg = "";
    else if (code === 49) look.bg = "";
    else if (code === 38 || code === 48) {
      const [color, used] = extended(numbers.slice(at + 1));
      at += used;
      if (code === 38) look.fg = color;
      else look.bg = color;
    }
  }
}

/** A colour of 256, or of red, green and blue; and how many numbers it took. */
function extended(numbers: number[]): [string, number] {
  const byte = (value: number | undefined) => Math.max(0, Math.min(255, value ?? 0));
  if (numbers[0] === 2) return [hex(numbers.slice(1, 4).map(byte)), 4];
  if (numbers[0] !== 5) return ["", 0];
  const index = byte(numbers[1]);
  if (index < 16) return [String(index), 2];
  if (index >= 232) return [hex(Array(3).fill(8 + (index - 232) * 10)), 2];
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40);
  const cube = index - 16;
  return [hex([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level)), 2];
}

function hex(values: number[]): string {
  const parts = [0, 1, 2].map((at) => (values[at] ?? 0).toString(16).padStart(2, "0"));
  return `#${parts.join("")}`;
}
