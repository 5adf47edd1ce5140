// What happened across services: the logs of any set of them in one stream.
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type PageProps, setQuery } from "../routes.ts";
import { isLoaded, services } from "../state/services.ts";
import { Button } from "../ui/button.tsx";
import { Icon } from "../ui/icon.tsx";
import { LogPanel } from "../ui/logpanel.tsx";
import { openMenu } from "../ui/menu.tsx";
import { hueOf } from "../core/hue.ts";

/** One session takes so many. */
const MOST = 64;

export default function Logs({ query }: PageProps): JSX.Element {
  const named = query.get("s");
  const known = [...services.value.keys()].sort().join("\n");
  const shown = useMemo(() => {
    const all = known ? known.split("\n") : [];
    const asked = named?.split(",").filter(Boolean) ?? all;
    return asked.filter((name) => services.peek().has(name)).slice(0, MOST);
  }, [named, known]);
  useEffect(() => {
    document.getElementById("page")?.focus({ preventScroll: true });
  }, []);
  function set(names: readonly string[]): void {
    setQuery({ s: names.length === services.peek().size ? null : names.join(","), at: null });
  }
  return (
    <>
      <div class="page-head" data-page="logs" data-state={isLoaded.value ? "shown" : "loading"}>
        <h1>Logs</h1>
        {named === null && shown.length > 8 ? (
          <span class="chip">All {shown.length} services</span>
        ) : (
          shown.map((name) => (
            <span key={name} class="chip">
              <span class={`dot hue${hueOf(name)}`} aria-hidden="true" />
              {name}
              {shown.length > 1 && (
                <button
                  type="button"
                  class="chip-close"
                  aria-label={`Leave out ${name}`}
                  onClick={() => set(shown.filter((one) => one !== name))}
                >
                  <Icon name="close" />
                </button>
              )}
            </span>
          ))
        )}
        <Button
          icon="plus"
          hasMenu
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Which services", [
              { title: "All services", checked: named === null, run: () => setQuery({ s: null, at: null }) },
              "line",
              ...[...services.value.keys()].sort().map((name) => ({
                title: name,
                checked: shown.includes(name),
                run: () =>
                  set(shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name]),
              })),
            ])
          }
        >
          Services
        </Button>
        {known.split("\n").length > MOST && named === null && (
          <span class="dim">the first {MOST} of {services.value.size}</span>
        )}
      </div>
      {isLoaded.value && shown.length === 0 ? (
        <div class="empty">
          <p>There is no service {named ? `called ${named}` : "yet"}.</p>
          {named && <Button onClick={() => setQuery({ s: null })}>Show all services</Button>}
        </div>
      ) : (
        shown.length > 0 && <LogPanel services={shown} query={query} />
      )}
    </>
  );
}
