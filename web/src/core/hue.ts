// The colour of a service: one of six, always the same for a name. Touches no document.

const HUES = 6;

export function hueOf(name: string): number {
  let sum = 7;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) >>> 0;
  return sum % HUES;
}
