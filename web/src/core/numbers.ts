// Growing numbers, of which the smallest are forgotten again and again: both cost little.

const COMPACT = 16_384;

export class Numbers {
  private items: number[] = [];
  private start = 0;

  get length(): number {
    return this.items.length - this.start;
  }

  at(place: number): number | undefined {
    return place < 0 ? undefined : this.items[this.start + place];
  }

  /** Add a number that is larger than all others. */
  push(number: number): void {
    this.items.push(number);
  }

  clear(): void {
    this.items = [];
    this.start = 0;
  }

  /** Forget what is less. */
  forgetBefore(number: number): void {
    while ((this.items[this.start] ?? number) < number) this.start += 1;
    if (this.start < COMPACT) return;
    this.items = this.items.slice(this.start);
    this.start = 0;
  }

  /** The place of the first number that is not less. */
  lowerBound(wanted: number): number {
    return lowerBound(this.items, wanted, this.start) - this.start;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let at = this.start; at < this.items.length; at++) yield this.items[at] as number;
  }
}

/** The place of the first number that is not less, from `from` on. */
export function lowerBound(numbers: readonly number[], wanted: number, from: number): number {
  let low = from;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((numbers[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
