// What of a log is looked for: text or a regular expression, level, stream, time.
import { LINE, type LogLine } from "./loglines.ts";

export interface LogQuery {
  text: string;
  isRegex: boolean;
  isCase: boolean;
  isWord: boolean;
  /** The least level that is shown. */
  level: number;
  /** 0 stdout, 1 stderr; null: both. */
  stream: number | null;
  /** Unix milliseconds. */
  since: number | null;
  until: number | null;
}

export const EVERYTHING: LogQuery = {
  text: "",
  isRegex: false,
  isCase: false,
  isWord: false,
  level: 0,
  stream: null,
  since: null,
  until: null,
};

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** The expression that finds what was typed; null: nothing was. Raises if it is malformed. */
export function expressionOf(query: LogQuery, flags = ""): RegExp | null {
  if (query.text === "") return null;
  let source = query.isRegex ? query.text : query.text.replace(SPECIAL, "\\$&");
  if (query.isWord) source = `(?<![\\p{L}\\p{N}_])(?:${source})(?![\\p{L}\\p{N}_])`;
  const more = query.isCase ? "" : "i";
  return new RegExp(source, `${flags}${more}${query.isWord ? "u" : ""}`);
}

/** Whether a line has the level, the stream and the time that are asked for. Markers, gaps and
    marks are always shown, unless their time is another. */
export function fits(query: LogQuery, line: LogLine): boolean {
  if (query.since !== null && line.time !== 0 && line.time < query.since) return false;
  if (query.until !== null && line.time >= query.until) return false;
  if (line.kind !== LINE) return true;
  if (line.level < query.level) return false;
  return query.stream === null || line.stream === query.stream;
}

/** Where a text matches: pairs of begin and end, none empty and not more than `most`. */
export function matches(expression: RegExp, text: string, most = 50): [number, number][] {
  const found: [number, number][] = [];
  for (const match of text.matchAll(expression)) {
    if (match[0] !== "") found.push([match.index, match.index + match[0].length]);
    if (found.length >= most) break;
  }
  return found;
}

/** The same for the search of all history, which the supervisor does with ripgrep. */
export function ripgrepPattern(query: LogQuery): { pattern: string; literal: boolean } {
  if (!query.isWord) return { pattern: query.text, literal: !query.isRegex };
  const source = query.isRegex ? query.text : query.text.replace(SPECIAL, "\\$&");
  return { pattern: `\\b(?:${source})\\b`, literal: false };
}
