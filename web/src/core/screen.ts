// Where the replay of a terminal may begin, and what of it must not be believed.

const ESC = 0x1b;
const signs = (...texts: string[]) =>
  texts.map((text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
const CLEARS = signs("[2J", "[3J", "c");
const ENTERS = signs("[?1049h", "[?47h", "[?1047h");
const LEAVES = signs("[?1049l", "[?47l", "[?1047l");

/** The place of the last escape that makes what came before it invisible: the entry into the other
    screen while that is shown, else the last clear of the screen that is. -1: there is none. */
export function safePoint(data: Uint8Array): number {
  let clear = -1;
  let isLeft = false;
  for (let at = data.lastIndexOf(ESC); at >= 0; at = at > 0 ? data.lastIndexOf(ESC, at - 1) : -1) {
    const is = (all: Uint8Array[]) => all.some((sign) => begins(data, at + 1, sign));
    if (is(LEAVES)) {
      if (clear >= 0) return clear;
      isLeft = true;
    } else if (is(ENTERS)) {
      if (!isLeft) return at;
      isLeft = false;
    } else if (clear < 0 && !isLeft && is(CLEARS)) {
      clear = at;
    }
  }
  return clear;
}

function begins(data: Uint8Array, at: number, sign: Uint8Array): boolean {
  return sign.every((byte, place) => data[at + place] === byte);
}

/** Where a text that begins anywhere may be shown from: behind its first line end. */
export function firstLine(data: Uint8Array): number {
  return data.indexOf(10) + 1;
}

/** Text as it may be pasted: line ends as a keyboard sends them, no controls. */
export function pasteable(text: string): { text: string; lines: number; hadControls: boolean } {
  const clean = text.replace(/\r\n|\n/g, "\r");
  const harmless = clean.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u0080-\u009f]/g, "");
  const lines = harmless.replace(/\r+$/, "").split("\r").length;
  return { text: harmless, lines, hadControls: harmless !== clean };
}

/** What a program asks to put into the clipboard (OSC 52); null: it asks to read it, or nothing. */
export function clipboardText(data: string): string | null {
  const payload = data.slice(data.indexOf(";") + 1);
  if (payload === "?" || payload === "") return null;
  try {
    const bytes = Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(bytes);
  } catch {
    return null;
  }
}
