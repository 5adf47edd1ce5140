// The first thing that runs: who is logged in, then the frame and the page.
import "./tokens.css";
import "./theme.css";
import "./pages.css";
import { effect } from "@preact/signals";
import { render } from "preact";
import { BASE, navigate, route, startRouter } from "./routes.ts";
import { begin, link } from "./state/connection.ts";
import { followApprovals } from "./state/approvals.ts";
import { followBanners } from "./state/banners.ts";
import { followPreferences } from "./state/prefs.ts";
import { followServices } from "./state/services.ts";
import { startKeys } from "./ui/keys.tsx";
import { Shell } from "./ui/shell.tsx";

const root = document.getElementById("app") as HTMLElement;
let isShown = false;

function show(): void {
  if (isShown) return;
  isShown = true;
  followServices();
  followBanners();
  followApprovals();
  followPreferences();
  render(<Shell />, root);
}

async function showLogin(): Promise<void> {
  isShown = false;
  const Login = (await import("./pages/login.tsx")).default;
  render(<Login onDone={start} />, root);
}

async function start(): Promise<void> {
  if (await begin()) show();
  else toLogin();
}

/** Ask for a login, and come back to where the person wanted to be. */
function toLogin(): void {
  const wanted = location.pathname.slice(BASE.length) + location.search;
  if (route.peek()?.name !== "login") {
    if (wanted) sessionStorage.setItem("holdfast-wanted", wanted);
    navigate("login", { replace: true });
  }
  void showLogin();
}

startRouter();
startKeys();
effect(() => {
  // The login ended while the page was open: its token was revoked, or expired.
  if (link.value === "refused") location.assign(`${BASE}login`);
});
if (route.value?.name === "login") void showLogin();
else void start();
