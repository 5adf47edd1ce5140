// The binary frames of a session of several services, and lines of what they hold.
// One frame: kind 3, number of the session, then records of output, notes, events and places.

export const OUTPUT = 0;
export const NOTE = 1;
export const EVENT = 2;
export const PLACE = 3;
export const EVENT_LANE = 0xffff;
const HEAD = 5;
const RECORD = 24;

export interface WireRecord {
  /** Its place in the session's list; EVENT_LANE for events. */
  service: number;
  type: number;
  /** 0 stdout, 1 stderr. */
  stream: number;
  /** Unix milliseconds; 0: not known. */
  time: number;
  position: number;
  data: Uint8Array<ArrayBuffer>;
}

/** The records of a frame, one after the other. */
export function* records(frame: DataView<ArrayBuffer>): Generator<WireRecord> {
  let at = HEAD;
  while (at + RECORD <= frame.byteLength) {
    const length = frame.getUint32(at + 20);
    const begin = at + RECORD;
    yield {
      service: frame.getUint16(at),
      type: frame.getUint8(at + 2),
      stream: frame.getUint8(at + 3),
      time: frame.getFloat64(at + 4),
      // Positions stay far below 2^53 bytes.
      position: frame.getUint32(at + 12) * 2 ** 32 + frame.getUint32(at + 16),
      data: new Uint8Array(frame.buffer, frame.byteOffset + begin, length),
    };
    at = begin + length;
  }
}

/** A cursor at a position of a service's log, as Holdfast writes it. */
export function cursorAt(position: number): string {
  return `P${position.toString(36)}`;
}

/** The position of a cursor: of the earlier stream, where the two differ. */
export function positionOf(cursor: string): number {
  return Math.min(...cursor.slice(1).split(".").map((digits) => Number.parseInt(digits, 36)));
}

/** Collects the bytes of one stream until a line is complete. */
export class LineSplitter {
  private rest = "";
  private restAt = 0;
  private restTime = 0;
  private readonly decoder = new TextDecoder();
  /** Longer lines are cut: nobody reads them, and a browser lays them out for seconds. */
  static readonly LONGEST = 16_384;

  /** Call `onLine` with each complete line, its time, and where in the log it begins. */
  push(
    record: WireRecord,
    onLine: (text: string, time: number, position: number) => void,
  ): void {
    const { data, time, position } = record;
    const text = this.decoder.decode(data, { stream: true });
    let begin = 0;
    let bytes = position;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", begin)) {
      const part = text.slice(begin, end);
      if (this.rest === "") onLine(part, time, bytes);
      else {
        onLine(this.rest + part, this.restTime || time, this.restAt);
        this.rest = "";
      }
      bytes += byteLength(part) + 1;
      begin = end + 1;
    }
    if (begin < text.length) {
      if (this.rest === "") {
        this.restAt = bytes;
        this.restTime = time;
      }
      this.rest += text.slice(begin);
      if (this.rest.length > LineSplitter.LONGEST) this.flush(onLine);
    }
  }

  /** What waits for the rest of its line is a line now: the run ended, or bytes are missing. */
  flush(onLine: (text: string, time: number, position: number) => void): void {
    if (this.rest === "") return;
    const text = this.rest;
    this.rest = "";
    onLine(text, this.restTime, this.restAt);
  }
}

/** How many bytes a text has in UTF-8. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    // Each half of a pair counts two: four bytes together.
    bytes += code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 1 : 2;
  }
  return bytes;
}
