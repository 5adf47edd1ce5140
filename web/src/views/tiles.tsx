// One tile for each service: the ill one among hundreds is seen at once. One tab stop; arrows move.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { ServiceStatus } from "../api.gen.ts";
import { address, navigate } from "../routes.ts";
import { menuOf, requests, wordOf } from "../state/verbs.ts";
import { StateShape, toneOf } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";

export function Tiles(props: {
  services: readonly (readonly [string, ServiceStatus])[];
  label: string;
}): JSX.Element {
  const { services } = props;
  const box = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState("");
  const active = services.some(([name]) => name === current) ? current : services[0]?.[0];
  void requests.value;

  function onKey(event: KeyboardEvent): void {
    const all = [...(box.current?.children ?? [])] as HTMLElement[];
    const place = all.indexOf(event.target as HTMLElement);
    const first = all[0];
    if (place < 0 || !first) return;
    const inRow = Math.max(1, Math.floor(box.current!.clientWidth / first.offsetWidth));
    const moves: Record<string, number> = {
      ArrowRight: place + 1,
      ArrowLeft: place - 1,
      ArrowDown: place + inRow,
      ArrowUp: place - inRow,
      Home: 0,
      End: all.length - 1,
    };
    const to = moves[event.key];
    const name = services[place]![0];
    if (to !== undefined) {
      const next = Math.max(0, Math.min(all.length - 1, to));
      setCurrent(services[next]![0]);
      all[next]?.focus();
    } else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      openMenu(event.target as HTMLElement, name, menuOf([name]));
    } else return;
    event.preventDefault();
  }

  return (
    <div class="tiles" role="group" aria-label={props.label} ref={box} onKeyDown={onKey}>
      {services.map(([name, status]) => {
        const word = wordOf(name, status);
        const isUnwell = status.health === "unhealthy" && toneOf(word) === "ok";
        const said = isUnwell ? `${word}, unhealthy` : word;
        return (
          <a
            key={name}
            href={address(["services", name])}
            class={`tile tone-${isUnwell ? "warn" : toneOf(word)}`}
            aria-label={`${name}: ${said}`}
            title={`${name}: ${said}`}
            tabIndex={name === active ? 0 : -1}
            onFocus={() => setCurrent(name)}
            onContextMenu={(event) => openMenu(event, name, menuOf([name]))}
            onClick={(event) => {
              event.preventDefault();
              navigate(address(["services", name]));
            }}
          >
            {(isUnwell || toneOf(word) !== "ok") && <StateShape state={isUnwell ? "backoff" : word} />}
          </a>
        );
      })}
    </div>
  );
}
