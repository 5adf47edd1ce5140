// Which page an address stands for, and the address of a page. Touches no document.

export interface Match<Name extends string> {
  name: Name;
  params: Record<string, string>;
  query: URLSearchParams;
}

interface Pattern<Name extends string> {
  name: Name;
  expression: RegExp;
  keys: string[];
}

/** Paths are relative to the page's base: `services/{name}/{tab}`. A `?` behind a parameter's name
    says that it and what follows may be missing. */
export class Routes<Name extends string> {
  private readonly patterns: Pattern<Name>[];

  constructor(paths: Record<Name, string>) {
    this.patterns = Object.entries<string>(paths).map(([name, path]) => {
      const keys: string[] = [];
      const source = path
        .split("/")
        .map((part, place) => {
          const slash = place === 0 ? "" : "/";
          const parameter = /^\{(\w+)(\??)\}$/.exec(part);
          if (parameter === null) return slash + part;
          keys.push(parameter[1] as string);
          return parameter[2] ? `(?:${slash}([^/]+))?` : `${slash}([^/]+)`;
        })
        .join("");
      return { name: name as Name, expression: new RegExp(`^${source}/?$`), keys };
    });
  }

  match(path: string, search: string): Match<Name> | null {
    for (const { name, expression, keys } of this.patterns) {
      const found = expression.exec(path);
      if (found === null) continue;
      const params: Record<string, string> = {};
      for (const [place, key] of keys.entries()) {
        const value = found[place + 1];
        if (value !== undefined) params[key] = decode(value);
      }
      return { name, params, query: new URLSearchParams(search) };
    }
    return null;
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `services/web@1/logs?at=…`; parts are encoded, empty values of the query are left out. */
export function address(
  parts: string[],
  query: Record<string, string | number | boolean | null | undefined> = {},
): string {
  const path = parts.map((part) => encodeURIComponent(part).replaceAll("%40", "@")).join("/");
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "" && value !== false)
      values.set(name, String(value === true ? 1 : value));
  const search = values.toString().replaceAll("%2C", ",").replaceAll("%40", "@");
  return search ? `${path}?${search}` : path;
}
