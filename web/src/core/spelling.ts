// The same deed elsewhere: on the command line, with curl, in Python, as a call of an assistant. A
// token is a variable, never the real one. Touches no document.

export interface Deed {
  /** The words after `holdfast`; left out where the command line has none. */
  cli?: readonly string[];
  method: "GET" | "POST";
  /** Below the gate's root: `api/tokens`. */
  path: string;
  fields?: Readonly<Record<string, unknown>>;
  /** A tool that assistants are offered. */
  tool?: { name: string; arguments: Readonly<Record<string, unknown>> };
}

const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word as a shell reads it. */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Each way of doing it, in the order of a menu. `root` is the gate's own address. */
export function spellings(deed: Deed, root: string): Record<string, string> {
  const { cli, method, fields, tool } = deed;
  const isAsking = method === "GET";
  const url = root + deed.path + (isAsking ? queryOf(fields) : "");
  const body = isAsking ? null : JSON.stringify(fields ?? {});
  const ways: Record<string, string> = {};
  if (cli) ways.CLI = ["holdfast", ...cli.map(quoted)].join(" ");
  ways.curl =
    `curl ${isAsking ? "" : "-X POST "}${quoted(url)} -H "Authorization: Bearer $HOLDFAST_TOKEN"` +
    (body === null ? "" : ` -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'`);
  ways.Python =
    "import json, os, urllib.request\n" +
    `request = urllib.request.Request(${JSON.stringify(url)}, ` +
    (body === null ? "None, {\n" : `${JSON.stringify(body)}.encode(), {\n`) +
    '    "Authorization": f"Bearer {os.environ[\'HOLDFAST_TOKEN\']}"' +
    (body === null ? "" : ', "Content-Type": "application/json"') +
    "})\nprint(json.load(urllib.request.urlopen(request)))\n";
  if (tool) ways["MCP call"] = JSON.stringify(tool);
  return ways;
}

function queryOf(fields: Deed["fields"]): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields ?? {}))
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  return query.size ? `?${query}` : "";
}
