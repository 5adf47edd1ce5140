// THE table of pages: their addresses, below the page's base, and how each is loaded.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { type Match, Routes, address } from "./core/router.ts";
import type { IconName } from "./ui/icon.tsx";

export interface PageProps {
  params: Record<string, string>;
  query: URLSearchParams;
}

export interface Page {
  path: string;
  title: string;
  load: () => Promise<{ default: ComponentType<PageProps> }>;
  /** Its place in the navigation; a page without one is reached from others. */
  nav?: { icon: IconName; group?: "Automation" | "Governance"; key?: string; href?: string };
}

const table = {
  overview: {
    path: "",
    title: "Overview",
    load: () => import("./pages/overview.tsx"),
    nav: { icon: "overview", key: "o" },
  },
  services: {
    path: "services",
    title: "Services",
    load: () => import("./pages/services.tsx"),
    nav: { icon: "services", key: "s" },
  },
  service: {
    path: "services/{name}/{tab?}",
    title: "Service",
    load: () => import("./pages/service.tsx"),
  },
  logs: {
    path: "logs",
    title: "Logs",
    load: () => import("./pages/logs.tsx"),
    nav: { icon: "logs", key: "l" },
  },
  metrics: {
    path: "metrics",
    title: "Metrics",
    load: () => import("./pages/metrics.tsx"),
    nav: { icon: "metrics", key: "m" },
  },
  terminals: {
    path: "terminals/{service?}",
    title: "Terminals",
    load: () => import("./pages/terminals.tsx"),
    nav: { icon: "terminal", key: "t", href: "terminals" },
  },
  sessions: {
    path: "sessions/{session?}",
    title: "Sessions",
    load: () => import("./pages/sessions.tsx"),
    nav: { icon: "sessions", group: "Automation", key: "a" },
  },
  agents: {
    path: "agents/{session?}/{tab?}",
    title: "Agents",
    load: () => import("./pages/agents.tsx"),
    nav: { icon: "agents", group: "Automation", key: "i" },
  },
  workflows: {
    path: "workflows/{part?}/{id?}",
    title: "Workflows",
    load: () => import("./pages/workflows.tsx"),
    nav: { icon: "workflows", group: "Automation", key: "w" },
  },
  schedules: {
    path: "schedules",
    title: "Schedules",
    load: () => import("./pages/schedules.tsx"),
    nav: { icon: "schedules", group: "Automation", key: "d" },
  },
  audit: {
    path: "audit",
    title: "Audit",
    load: () => import("./pages/audit.tsx"),
    nav: { icon: "audit", group: "Governance", key: "u" },
  },
  mcp: {
    path: "mcp/{server?}/{tab?}",
    title: "MCP servers",
    load: () => import("./pages/mcp.tsx"),
    nav: { icon: "mcp", group: "Automation", key: "p" },
  },
  access: {
    path: "access",
    title: "Access",
    load: () => import("./pages/access.tsx"),
    nav: { icon: "access", group: "Governance", key: "e" },
  },
  security: {
    path: "security/{tab?}",
    title: "Security",
    load: () => import("./pages/security.tsx"),
    nav: { icon: "security", group: "Governance", key: "y" },
  },
  connect: {
    path: "connect/{client?}",
    title: "Connect",
    load: () => import("./pages/connect.tsx"),
    nav: { icon: "connect", group: "Governance", key: "c" },
  },
  settings: {
    path: "settings",
    title: "Settings",
    load: () => import("./pages/settings.tsx"),
    nav: { icon: "settings", group: "Governance", key: "," },
  },
  login: {
    path: "login",
    title: "Log in",
    load: () => import("./pages/login.tsx"),
  },
} satisfies Record<string, Page>;

export type PageName = keyof typeof table;
export const PAGES: Record<PageName, Page> = table;

const paths = Object.fromEntries(
  Object.entries(PAGES).map(([name, page]) => [name, page.path]),
) as Record<PageName, string>;
const routes = new Routes<PageName>(paths);
/** The page's base, `/dashboard/`: everything the page asks for is at or above it. */
export const BASE = new URL(document.baseURI).pathname;
/** The gate's root, with which REST and WebSocket begin. */
export const ROOT = BASE.replace(/dashboard\/$/, "");

function here(): Match<PageName> | null {
  const path = location.pathname;
  const inside = path.startsWith(BASE) ? path.slice(BASE.length) : path.slice(ROOT.length);
  return routes.match(inside === "dashboard" ? "" : inside, location.search);
}

/** The page that the address bar names; null: there is none. */
export const route = signal<Match<PageName> | null>(here());

/** Go to an address below the base: `services/web/logs?at=…`. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const url = BASE + to;
  if (options.replace) history.replaceState(null, "", url);
  else if (url !== location.pathname + location.search) history.pushState(null, "", url);
  const before = route.peek();
  route.value = here();
  if (!options.replace && before?.name !== route.peek()?.name) window.scrollTo(0, 0);
}

/** Change values of the address's query and stay on the page. */
export function setQuery(values: Record<string, string | null>, options = { replace: true }): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const path = location.pathname.slice(BASE.length);
  const search = query.toString().replaceAll("%2C", ",").replaceAll("%40", "@");
  navigate(search ? `${path}?${search}` : path, options);
}

/** Follow history and clicks on links of ours; those of other sites and downloads are the browser's. */
export function startRouter(): void {
  addEventListener("popstate", () => {
    route.value = here();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a");
    if (!link || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    navigate(link.pathname.slice(BASE.length) + link.search);
  });
}

export { address };
