// Which action a key press means: single keys, `Shift+e`, and two in a row (`g s`).

export interface Press {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
}

/** The name of a key press as actions spell it. */
export function nameOf(press: Press): string {
  const { key } = press;
  const isLetter = key.length === 1;
  const parts: string[] = [];
  if (press.ctrlKey || press.metaKey) parts.push("Ctrl");
  if (press.altKey) parts.push("Alt");
  // A sign such as `?` has its Shift in itself.
  if (press.shiftKey && (!isLetter || /[a-z]/i.test(key))) parts.push("Shift");
  parts.push(key === " " ? "Space" : isLetter ? key.toLowerCase() : key);
  return parts.join("+");
}

/** Remembers the first key of two. */
export class KeySequence {
  private first = "";
  private at = 0;

  /** The keys that this press may complete, the longer first. */
  take(name: string, nowMs: number): string[] {
    const isPair = this.first !== "" && nowMs - this.at < 1200;
    const found = isPair ? [`${this.first} ${name}`, name] : [name];
    this.first = name;
    this.at = nowMs;
    return found;
  }

  forget(): void {
    this.first = "";
  }
}
