// The frame around every page: top bar, banners, navigation, and what floats above.
import { signal, useSignalEffect } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { duration } from "../core/time.ts";
import { type PageName, type PageProps, PAGES, address, navigate, route } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { link, linkReason, logOut, lostAt, session, socket } from "../state/connection.ts";
import { planned } from "../state/banners.ts";
import { theme } from "../state/prefs.ts";
import { services, supervisor } from "../state/services.ts";
import { fail } from "../state/toasts.ts";
import { Banner } from "./banner.tsx";
import { SupervisorBanners } from "./banners.tsx";
import { Button } from "./button.tsx";
import { copy } from "./copy.ts";
import { Questions } from "./dialog.tsx";
import { Icon, toneOf } from "./icon.tsx";
import { KeyHelp, areKeysShown } from "./keys.tsx";
import { Menus, openMenu } from "./menu.tsx";
import { Palette, isPaletteOpen } from "./palette.tsx";
import { Toasts } from "./toast.tsx";

/** Numbers beside a page's name in the navigation; urgent: a person is needed. */
export const counts = signal<Partial<Record<string, { count: number; isUrgent?: boolean }>>>({});

const LOST_AFTER_MS = 1000;
const palettes = { title: "Search services and actions", keys: "Ctrl+k" };

export function Shell(): JSX.Element {
  useEffect(
    () =>
      offer([
        ...pageActions(),
        { id: "palette", group: "do", ...palettes, run: () => (isPaletteOpen.value = true) },
        { id: "keys", group: "do", title: "Show all keys", keys: "?", run: () => (areKeysShown.value = true) },
        { id: "dark", group: "do", title: "Theme: dark", run: () => (theme.value = "dark") },
        { id: "light", group: "do", title: "Theme: light", run: () => (theme.value = "light") },
        { id: "system", group: "do", title: "Theme: as the system", run: () => (theme.value = "system") },
        { id: "link", group: "copy", title: "Copy link to this view", run: () => copy(location.href) },
        { id: "logout", group: "do", title: "Log out", run: () => void logOut().catch(fail) },
      ]),
    [],
  );
  useTitle();
  return (
    <div class="frame">
      <a class="skip" href="#page" onClick={focusPage}>
        Skip to the page
      </a>
      <Top />
      <div class="banners">
        <LinkBanner />
        <SupervisorBanners />
      </div>
      <Rail />
      <main class="page" id="page" tabIndex={-1} aria-label={PAGES[route.value?.name ?? "overview"].title}>
        <CurrentPage />
      </main>
      <Menus />
      <Questions />
      <Palette />
      <KeyHelp />
      <Toasts />
    </div>
  );
}

function focusPage(event: Event): void {
  event.preventDefault();
  document.getElementById("page")?.focus();
}

const MENU_KEY = "Account and theme";

function Top(): JSX.Element {
  const who = session.value;
  return (
    <header class="top">
      <a class="brand" href="./" aria-label="Holdfast, overview">
        <img src="./favicon.svg" alt="" />
        <span class="only-wide">Holdfast</span>
      </a>
      <span class="ellipsis" title={supervisor.value?.config ?? undefined}>
        {location.hostname === "holdfast.localhost" ? "" : `${location.hostname} · `}
        <b title={who?.project}>{folderOf(who?.project)}</b>
      </span>
      <button class="search" type="button" onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="search" />
        <span class="grow ellipsis">{palettes.title}</span>
        <kbd class="only-wide">Ctrl K</kbd>
      </button>
      <LinkState />
      <button
        type="button"
        class="chip"
        aria-haspopup="menu"
        title={MENU_KEY}
        onClick={(event) =>
          openMenu(event.currentTarget, MENU_KEY, [
            { heading: `${who?.actor} (${who?.role})` },
            ...(["system", "dark", "light"] as const).map((name) => ({
              title: name === "system" ? "Theme: as the system" : `Theme: ${name}`,
              checked: theme.value === name,
              run: () => (theme.value = name),
            })),
            "line",
            { title: "Keys", keys: "?", run: () => (areKeysShown.value = true) },
            { title: "Log out", run: () => void logOut().catch(fail) },
          ])
        }
      >
        <Icon name="user" />
        <span class="only-wide">{who?.actor.replace(/^token browser .*/, "browser")}</span>{" "}
        <span class="dim only-wide">{who?.role}</span>
        <span class="only-small sr">{MENU_KEY}</span>
      </button>
    </header>
  );
}

function LinkState(): JSX.Element {
  const isLive = link.value === "live";
  return (
    <span class={`chip is-${isLive ? "ok" : "warn"}`} data-link={link.value} role="status">
      <span class="dot" aria-hidden="true" />
      <span class="only-wide">{isLive ? "Live" : link.value === "connecting" ? "Connecting" : "Offline"}</span>
    </span>
  );
}

/** The connection is lost: what is shown is as it was, and nothing can be done. */
function LinkBanner(): JSX.Element | null {
  const [now, setNow] = useState(Date.now());
  const since = lostAt.value;
  useEffect(() => {
    if (since === 0) return;
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [since]);
  if (since === 0 || now - since < LOST_AFTER_MS) return null;
  const next = Math.max(0, Math.ceil((socket.nextTry - now) / 1000));
  const when = next ? `Next try in ${next} s.` : "Trying…";
  const why = linkReason.value || "Services go on.";
  const expected = planned.value;
  return (
    <Banner
      severity={expected ? "info" : "warn"}
      title={expected ?? "Connection lost"}
      detail={`What you see is ${duration(Math.floor((now - since) / 1000))} old. ${why} ${when}`}
    >
      <Button onClick={() => socket.connect()}>Try now</Button>
    </Banner>
  );
}

const GROUPS = [undefined, "Automation", "Governance"] as const;
const SMALL = new Set<string>(["overview", "services", "logs", "sessions"]);

function Rail(): JSX.Element {
  const entries = Object.entries(PAGES).filter(([, page]) => page.nav);
  return (
    <nav class="rail" aria-label="Pages">
      {GROUPS.map((group) => {
        const inside = entries.filter(([, page]) => page.nav?.group === group);
        return (
          <>
            {group && inside.length > 0 && <h2>{group}</h2>}
            {inside.map(([name, page]) => {
              const count = counts.value[name];
              const isHere = route.value?.name.startsWith(name);
              return (
                <a
                  key={name}
                  href={page.nav?.href ?? page.path.replace(/\/?\{.*/, "") ?? "./"}
                  class={SMALL.has(name) ? undefined : "only-wide"}
                  aria-current={isHere ? "page" : undefined}
                  aria-label={count ? `${page.title}, ${count.count}` : page.title}
                  title={page.title}
                  onPointerEnter={() => void page.load()}
                >
                  <Icon name={page.nav!.icon} />
                  <span class="label">{page.title}</span>{" "}
                  {count && (
                    <span class="count" data-urgent={count.isUrgent || undefined}>
                      {count.count}
                    </span>
                  )}
                </a>
              );
            })}
          </>
        );
      })}
      <button
        type="button"
        class="only-small"
        aria-haspopup="menu"
        onClick={(event) =>
          openMenu(event.currentTarget, "Pages", [
            ...entries.map(([, page]) => ({
              title: page.title,
              icon: page.nav!.icon,
              run: () => navigate(page.path.replace(/\/?\{.*/, "")),
            })),
          ])
        }
      >
        <Icon name="more" />
        <span class="label">More</span>
      </button>
      <span class="grow" />
      <button type="button" class="only-wide" title="Keys" onClick={() => (areKeysShown.value = true)}>
        <Icon name="keys" />
        <span class="label">Keys</span>
        <span class="count">
          <kbd>?</kbd>
        </span>
      </button>
      <span class="faint foot only-wide" style={{ padding: "4px 12px", fontSize: "12px" }}>
        {supervisor.value && `${supervisor.value.version} · up ${duration(supervisor.value.uptime)}`}
      </span>
    </nav>
  );
}

const loaded = new Map<string, ComponentType<PageProps>>();

/** The page that the address names. What was loaded once is drawn at once. */
function CurrentPage(): JSX.Element | null {
  const found = route.value;
  const name = found?.name;
  const [, redraw] = useState(0);
  const [error, setError] = useState<{ name: string; error: unknown } | null>(null);
  useEffect(() => {
    if (!name || loaded.has(name)) return;
    let isCurrent = true;
    PAGES[name].load().then(
      (module) => {
        loaded.set(name, module.default);
        if (isCurrent) redraw((count) => count + 1);
      },
      (why) => isCurrent && setError({ name, error: why }),
    );
    return () => {
      isCurrent = false;
    };
  }, [name]);
  if (!found || !name) return <NotFound />;
  if (error?.name === name)
    return (
      <div class="empty">
        <p>This page could not be loaded. Perhaps Holdfast was upgraded since.</p>
        <Button kind="primary" onClick={() => location.reload()}>
          Reload
        </Button>
      </div>
    );
  const Found = loaded.get(name);
  return Found ? <Found key={name} params={found.params} query={found.query} /> : null;
}

function NotFound(): JSX.Element {
  return (
    <div class="empty" data-state="missing">
      <h1>There is no such page</h1>
      <a href="./">Go to the overview</a>
    </div>
  );
}

function pageActions() {
  return (Object.entries(PAGES) as [PageName, (typeof PAGES)[PageName]][])
    .filter(([, page]) => page.nav)
    .map(([name, page]) => ({
      id: `page:${name}`,
      title: page.title,
      group: "go" as const,
      icon: page.nav!.icon,
      ...(page.nav?.key && { keys: `g ${page.nav.key}` }),
      run: () => navigate(page.nav?.href ?? address(page.path ? [page.path.split("/")[0]!] : [""])),
    }));
}

/** The last part of a path. */
function folderOf(path = ""): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path;
}

/** `▲2 · Overview · demo · Holdfast`. */
function useTitle(): void {
  useSignalEffect(() => {
    let ill = 0;
    for (const service of services.value.values()) ill += Number(toneOf(service.status) === "bad");
    const page = route.value ? PAGES[route.value.name].title : "Not found";
    const parts = [ill ? `▲${ill}` : "", page, folderOf(session.value?.project), "Holdfast"];
    document.title = parts.filter(Boolean).join(" · ");
  });
}

