// The newest lines of a view, at most so many. Every line has a number that it keeps.

export class Ring<T> {
  readonly capacity: number;
  /** The number of the oldest item. */
  first = 0;
  length = 0;
  private items: T[] = [];
  private head = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** The number behind the newest item. */
  get end(): number {
    return this.first + this.length;
  }

  /** The item with this number; undefined: it is gone, or was never there. */
  at(number: number): T | undefined {
    const place = number - this.first;
    if (place < 0 || place >= this.length) return undefined;
    return this.items[(this.head + place) % this.capacity];
  }

  /** Add the newest item; the oldest one goes when there is no room. */
  push(item: T): void {
    if (this.length < this.capacity) {
      this.items[(this.head + this.length) % this.capacity] = item;
      this.length += 1;
      return;
    }
    this.items[this.head] = item;
    this.head = (this.head + 1) % this.capacity;
    this.first += 1;
  }

  /** Put items before the one with this number, which keeps its number: earlier ones move down.
      The oldest go when there is no room. */
  insert(number: number, added: readonly T[]): void {
    const all = this.toArray();
    const place = Math.max(0, Math.min(all.length, number - this.first));
    const before = [...all.slice(0, place), ...added];
    const room = this.capacity - (all.length - place);
    const kept = room > 0 ? before.slice(-room) : [];
    this.items = [...kept, ...all.slice(place)];
    this.head = 0;
    this.length = this.items.length;
    this.first = this.first + place - kept.length;
  }

  clear(): void {
    this.first = this.end;
    this.items = [];
    this.head = 0;
    this.length = 0;
  }

  toArray(): T[] {
    const found: T[] = new Array(this.length);
    for (let place = 0; place < this.length; place++)
      found[place] = this.items[(this.head + place) % this.capacity] as T;
    return found;
  }
}
