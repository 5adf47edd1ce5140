// Builds the page into the Python package. `npm run dev` serves the sources instead and passes
// everything else on to a running Holdfast: HOLDFAST_URL=http://127.0.0.1:3001 npm run dev
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

const here = fileURLToPath(new URL(".", import.meta.url));
const holdfast = (globalThis as any).process.env.HOLDFAST_URL ?? "http://127.0.0.1:3001";
const passed = { target: holdfast, ws: true, changeOrigin: true };

/** The digest of everything that the page is built from; hatch_build.py computes the same. */
function digest(): string {
  const files = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"];
  for (const folder of ["public", "src"])
    for (const entry of readdirSync(join(here, folder), { recursive: true, withFileTypes: true }))
      if (entry.isFile()) files.push(join(entry.parentPath, entry.name).slice(here.length).replaceAll("\\", "/"));
  const sum = createHash("sha256");
  for (const name of files.sort()) {
    const text = readFileSync(join(here, name), "latin1").replaceAll("\r\n", "\n");
    sum.update(`${name}\0`).update(createHash("sha256").update(text, "latin1").digest());
  }
  return sum.digest("hex");
}

const SELDOM =
  /src\/(core\/(conversation|schemaform|workflowruns)|state\/(records|workflows)|ui\/(asking|requests)|pages\/(access|agents|audit|connect|mcp|schedules|se(curity|ss|tt)|workflows))/;
const OFTEN = /src\/(pages\/(service|metrics)|views\/(service_tabs|metrics))/;
const LINES = /src\/(pages\/logs|ui\/logpanel|views\/log|core\/(ansi|find|log|numbers|ring|eventwords|wire))/;

const SHARED =
  /src\/(core\/(hue|layout|query|sentences|spelling|strips|words)|state\/(graph|past|usage|verbs)|ui\/(copyas|diagnosis|table|tabs)|views\/(graph|runs|spark|strip|tiles))\.tsx?$/;

const facts = {
  name: "holdfast-facts",
  apply: "build" as const,
  generateBundle(this: any) {
    this.emitFile({ type: "asset", fileName: "build.json", source: `${JSON.stringify({ inputs: digest() })}\n` });
  },
};

export default {
  base: "./",
  plugins: [facts],
  define: { __BUILD__: JSON.stringify(digest().slice(0, 12)) },
  build: {
    outDir: "../src/holdfast/gate/dashboard",
    emptyOutDir: true,
    target: "es2022",
    // One style sheet weighs 2 kB less than six.
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 600,
    assetsInlineLimit: 0,
    rolldownOptions: {
      // Together they weigh less: what pages share, and small pages that are opened now and then.
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            { name: "common", test: SHARED },
            { name: "more", test: SELDOM },
            { name: "services", test: OFTEN },
            { name: "lines", test: LINES },
            { name: "terminals", test: /src\/(pages\/terminals|ui\/terminalpanel)/ },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      "/api": passed, "/ws": passed, "/login": passed, "/logout": passed, "/session": passed,
    },
  },
};
