// Filter words: `state:backoff tag:shop cpu>50 restarts>3 -name:worker`. Touches no document.

/** What the words ask about. */
export interface Facts {
  name: string;
  state: string;
  health: string;
  tags: readonly string[];
  groups: readonly string[];
  template: string;
  cpu: number | null;
  /** Megabytes. */
  memory: number | null;
  restarts: number;
  /** Seconds. */
  uptime: number | null;
  origin: string;
}

export type Test = (facts: Facts) => boolean;

const TEXTS: Record<string, (facts: Facts) => readonly string[]> = {
  name: (facts) => [facts.name],
  state: (facts) => [facts.state],
  status: (facts) => [facts.state],
  health: (facts) => [facts.health],
  tag: (facts) => facts.tags,
  group: (facts) => facts.groups,
  of: (facts) => [facts.template],
  origin: (facts) => [facts.origin],
};
const NUMBERS: Record<string, (facts: Facts) => number | null> = {
  cpu: (facts) => facts.cpu,
  mem: (facts) => facts.memory,
  memory: (facts) => facts.memory,
  restarts: (facts) => facts.restarts,
  up: (facts) => facts.uptime,
};
const UNITS: Record<string, number> = {
  "": 1,
  "%": 1,
  mb: 1,
  gb: 1000,
  kb: 0.001,
  s: 1,
  m: 60,
  h: 3600,
  d: 86_400,
};

/** The names of words, for the help beside the field. */
export const WORDS = [...Object.keys(TEXTS).map((name) => `${name}:`), "cpu>", "mem>", "restarts>", "up<"];

/** What a filter stands for. All words must fit; a minus in front of one turns it round. */
export function parse(text: string): Test {
  const tests = words(text).map(testOf);
  return (facts) => tests.every((test) => test(facts));
}

/** Words, of which one in quotes may have spaces. */
function words(text: string): string[] {
  return (text.match(/-?(?:\w+[:<>=]+)?"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

function testOf(word: string): Test {
  if (word.startsWith("-") && word.length > 1) {
    const test = testOf(word.slice(1));
    return (facts) => !test(facts);
  }
  const compared = /^(\w+)(<=|>=|<|>|=)([\d.]+)([a-z%]*)$/i.exec(word);
  const number = compared && NUMBERS[compared[1]!.toLowerCase()];
  if (compared && number) {
    const wanted = Number(compared[3]) * (UNITS[compared[4]!.toLowerCase()] ?? 1);
    return (facts) => {
      const value = number(facts);
      return value !== null && compare(value, compared[2]!, wanted);
    };
  }
  const named = /^(\w+):(.*)$/.exec(word);
  const texts = named && TEXTS[named[1]!.toLowerCase()];
  if (named && texts) {
    const wanted = named[2]!.toLowerCase().split(",").filter(Boolean);
    return (facts) =>
      wanted.length === 0 ||
      texts(facts).some((value) => wanted.some((part) => value.toLowerCase().includes(part)));
  }
  const part = word.toLowerCase();
  return (facts) =>
    facts.name.toLowerCase().includes(part) ||
    facts.state === part ||
    facts.tags.some((tag) => tag.toLowerCase() === part);
}

function compare(value: number, how: string, wanted: number): boolean {
  if (how === "<") return value < wanted;
  if (how === ">") return value > wanted;
  if (how === "<=") return value <= wanted;
  if (how === ">=") return value >= wanted;
  return value === wanted;
}
