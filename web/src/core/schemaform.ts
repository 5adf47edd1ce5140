// A form made from a JSON schema: its fields, and the values of what was typed. What no field fits
// is typed as JSON. Touches no document; the server checks everything again.

export interface FormField {
  name: string;
  kind: "text" | "long" | "lines" | "number" | "choice" | "json";
  isRequired: boolean;
  about: string;
  /** What it accepts, in a word or two. */
  type: string;
  /** Of a choice: values as JSON. */
  choices: readonly string[];
  initial: string;
}

type Schema = Record<string, any>;

export function fieldsOf(schema: unknown): FormField[] {
  const { properties = {}, required = [] } = (schema ?? {}) as Schema;
  const names = Object.keys(properties);
  const isRequired = (name: string) => Array.isArray(required) && required.includes(name);
  return names
    .sort((a, b) => Number(isRequired(b)) - Number(isRequired(a)))
    .map((name) => fieldOf(name, properties[name] as Schema, isRequired(name)));
}

function fieldOf(name: string, told: Schema, isRequired: boolean): FormField {
  const schema = plain(told);
  const choices = choicesOf(schema);
  const kind = choices.length ? "choice" : kindOf(schema);
  return {
    name,
    kind,
    isRequired,
    about: String(told.description ?? schema.description ?? told.title ?? ""),
    type: choices.length ? "one of these" : typeOf(schema, kind),
    choices,
    initial: initialOf(schema.default ?? told.default, kind),
  };
}

/** The one type of «this or null». */
function plain(schema: Schema): Schema {
  const others = (schema.anyOf ?? schema.oneOf ?? []).filter((one: Schema) => one?.type !== "null");
  if (others.length === 1) return others[0];
  if (!Array.isArray(schema.type)) return schema;
  const types = schema.type.filter((type: string) => type !== "null");
  return { ...schema, type: types.length === 1 ? types[0] : undefined };
}

function choicesOf(schema: Schema): string[] {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value));
  if (schema.type === "boolean") return ["true", "false"];
  return "const" in schema ? [JSON.stringify(schema.const)] : [];
}

function kindOf(schema: Schema): FormField["kind"] {
  if (schema.type === "string") return /multiline|textarea/.test(schema.format ?? "") ? "long" : "text";
  if (schema.type === "number" || schema.type === "integer") return "number";
  if (schema.type === "array" && plain(schema.items ?? {}).type === "string" && !schema.items?.enum) return "lines";
  return "json";
}

function typeOf(schema: Schema, kind: FormField["kind"]): string {
  if (kind === "lines") return "one on each line";
  if (kind === "json") return schema.type ? `${schema.type}, as JSON` : "JSON";
  return schema.format ?? schema.type;
}

function initialOf(value: unknown, kind: FormField["kind"]): string {
  if (value === undefined || value === null) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  return kind === "text" || kind === "long" || kind === "number" ? String(value) : JSON.stringify(value);
}

export interface Filled {
  values: Record<string, unknown>;
  /** By the name of the field: why it cannot be sent. */
  problems: Record<string, string>;
}

/** The arguments that were typed; what is left empty is left out. */
export function filled(fields: readonly FormField[], typed: Readonly<Record<string, string>>): Filled {
  const values: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const text = typed[field.name] ?? field.initial;
    if (text.trim() === "") {
      if (field.isRequired) problems[field.name] = "this is required";
      continue;
    }
    try {
      values[field.name] = valueOf(field, text);
    } catch (error) {
      problems[field.name] = error instanceof Error ? error.message : String(error);
    }
  }
  return { values, problems };
}

function valueOf({ kind, type }: FormField, text: string): unknown {
  switch (kind) {
    case "number": {
      const number = Number(text);
      if (!Number.isFinite(number)) throw new Error("this is no number");
      if (type === "integer" && !Number.isInteger(number)) throw new Error("this is no whole number");
      return number;
    }
    case "lines":
      return text.split("\n").filter((line) => line !== "");
    case "choice":
    case "json":
      try {
        return JSON.parse(text);
      } catch {
        throw new Error("this is not JSON");
      }
    default:
      return text;
  }
}
