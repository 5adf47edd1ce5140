"use strict";
// Shows the commands that /api/openapi.json describes, and tries them. Nothing is loaded from
// anywhere else; everything is written as text, never as markup.

const $ = (id) => document.getElementById(id);
const state = { document: null, operations: [], stop: null };

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") Object.entries(value).forEach(([event, call]) => made.addEventListener(event, call));
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return made;
}

function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
}

function operationsOf(description) {
  const found = [];
  for (const [path, methods] of Object.entries(description.paths))
    for (const [method, operation] of Object.entries(methods))
      found.push({ path, method: method.toUpperCase(), ...operation });
  return found;
}

function kindOf(schema = {}) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" | ");
  if (schema.type === "array") return `list of ${kindOf(schema.items)}`;
  return schema.type || "anything";
}

function choices(schema = {}) {
  const kinds = schema.anyOf || [schema];
  if (kinds.some((kind) => kind.type === "boolean")) return ["", "true", "false"];
  const listed = kinds.find((kind) => kind.enum);
  return listed ? ["", ...listed.enum.filter((one) => one !== null)] : null;
}

function list() {
  const wanted = $("find").value.trim().toLowerCase();
  const groups = new Map();
  for (const operation of state.operations) {
    const text = `${operation.operationId} ${operation.path} ${operation.summary}`.toLowerCase();
    if (wanted && !text.includes(wanted)) continue;
    const group = operation.tags?.[0] || "others";
    groups.set(group, [...(groups.get(group) || []), operation]);
  }
  const current = decodeURIComponent(location.hash.slice(1));
  const parts = [];
  for (const [group, operations] of groups) {
    parts.push(element("h2", {}, group));
    for (const { operationId } of operations)
      parts.push(element("a", { href: `#${operationId}`, "aria-current": operationId === current && "true" }, operationId));
  }
  $("list").replaceChildren(...(parts.length ? parts : [element("p", { class: "note" }, "Nothing of that name.")]));
}

function field(parameter) {
  const id = `field-${parameter.name}`;
  const options = choices(parameter.schema);
  const input = options
    ? element("select", { id, name: parameter.name }, ...options.map((one) => element("option", { value: one }, String(one))))
    : element("input", { id, name: parameter.name, placeholder: parameter.schema?.default ?? "", autocomplete: "off" });
  if (parameter.in === "path" && parameter.example !== undefined) input.value = parameter.example;
  input.dataset.place = parameter.in;
  return element("div", { class: "field" },
    element("label", { for: id }, element("code", {}, parameter.name), parameter.required ? " (needed)" : "",
      element("div", { class: "kind" }, kindOf(parameter.schema))),
    input);
}

function show() {
  stop();
  const name = decodeURIComponent(location.hash.slice(1));
  const operation = state.operations.find((one) => one.operationId === name) || state.operations[0];
  if (!operation) return;
  const effect = operation["x-holdfast-effect"] || "reads";
  const body = operation.requestBody?.content?.["application/json"];
  const answers = operation.responses["200"].content || {};
  const editor = body && element("textarea", { id: "body", "aria-label": "Body, as JSON", spellcheck: "false" });
  if (editor) editor.value = JSON.stringify(body.example || {}, null, 2);
  const output = element("pre", { id: "output", tabindex: "0", "aria-live": "polite" });
  const status = element("span", { role: "status" });
  const form = element("form", { on: { submit: (event) => { event.preventDefault(); attempt(operation, form, output, status, false); } } },
    ...(operation.parameters || []).filter((one) => one.in !== "header").map(field),
    editor,
    element("div", { class: "bar" },
      element("button", { class: "go" }, "Try it"),
      "text/event-stream" in answers &&
        element("button", { type: "button", on: { click: () => attempt(operation, form, output, status, true) } }, "Follow"),
      element("button", { type: "button", on: { click: stop } }, "Stop"),
      status));
  const example = answers["application/json"]?.example;
  const parts = [
    element("h1", {}, operation.operationId),
    element("p", { class: "path" }, element("span", { class: `method ${effect}` }, operation.method), operation.path),
    element("p", {}, ...prose(operation.summary)),
    operation.description ? element("p", { class: "meaning" }, ...prose(operation.description)) : null,
    element("p", { class: "meaning" }, operation["x-holdfast-permission"]
      ? `Needs the right to ${operation["x-holdfast-permission"]}; ${effect}.`
      : operation.security?.length === 0 ? "Needs no token." : "Needs a token."),
    body ? element("details", {}, element("summary", {}, "Fields of the body"),
      ...Object.entries(body.schema.properties || {}).map(([key, schema]) => element("div", { class: "field" },
        element("span", {}, element("code", {}, key), (body.schema.required || []).includes(key) ? " (needed)" : ""),
        element("span", { class: "kind" }, kindOf(schema))))) : null,
    element("h2", {}, "Try it"), form, output,
    example ? element("h2", {}, "An answer may look like this") : null,
    example ? element("pre", { tabindex: "0" }, JSON.stringify(example, null, 2)) : null,
  ];
  $("main").replaceChildren(...parts.filter((part) => part !== null));
  list();
}

function stop() {
  state.stop?.abort();
  state.stop = null;
}

async function attempt(operation, form, output, status, follows) {
  stop();
  const stopping = (state.stop = new AbortController());
  let path = operation.path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("[data-place]")) {
    if (input.dataset.place === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.append(input.name, input.value);
  }
  const headers = {};
  if ($("token").value.trim()) headers.Authorization = `Bearer ${$("token").value.trim()}`;
  if (follows) headers.Accept = "text/event-stream";
  const request = { method: operation.method, headers, signal: stopping.signal };
  const editor = form.querySelector("#body");
  if (editor) {
    request.body = editor.value || "{}";
    headers["Content-Type"] = "application/json";
  }
  output.textContent = "";
  status.textContent = "asked…";
  const began = performance.now();
  try {
    const answer = await fetch(query.size ? `${path}?${query}` : path, request);
    status.textContent = `${answer.status} in ${Math.round(performance.now() - began)} ms`;
    await tell(answer, output);
  } catch (error) {
    status.textContent = error.name === "AbortError" ? "stopped" : String(error);
  }
}

async function tell(answer, output) {
  const kind = answer.headers.get("Content-Type") || "";
  if (!kind.includes("event-stream")) {
    const text = await answer.text();
    try {
      output.textContent = kind.includes("json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
    } catch {
      output.textContent = text;
    }
    return;
  }
  const decoder = new TextDecoder();
  for (const reader = answer.body.getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) return;
    output.textContent = (output.textContent + decoder.decode(value, { stream: true })).slice(-100000);
    output.scrollTop = output.scrollHeight;
  }
}

async function begin() {
  $("access").addEventListener("submit", (event) => event.preventDefault());
  $("find").addEventListener("input", list);
  addEventListener("hashchange", () => { show(); $("main").focus({ preventScroll: true }); });
  try {
    state.document = await (await fetch("/api/openapi.json")).json();
  } catch (error) {
    $("hint").textContent = `The description cannot be read: ${error}`;
    return;
  }
  state.operations = operationsOf(state.document);
  $("version").textContent = state.document.info.version;
  show();
}

begin();
