// The end of every menu, and entries of the palette: «Copy as».
import { type Deed, spellings } from "../core/spelling.ts";
import { ROOT } from "../routes.ts";
import type { Action } from "../state/actions.ts";
import { toast } from "../state/toasts.ts";
import { copy } from "./copy.ts";
import type { MenuItem } from "./menu.tsx";

function ways(deed: Deed): [string, () => void][] {
  return Object.entries(spellings(deed, location.origin + ROOT)).map(([way, text]) => [
    way,
    () => void copy(text).then(() => toast("ok", `Copied: ${text.split("\n")[0]!.slice(0, 60)}`)),
  ]);
}

export function copyItems(deed: Deed): MenuItem[] {
  const items = ways(deed).map(([way, run]) => ({ title: way, icon: "copy" as const, run }));
  return ["line", { heading: "Copy as" }, ...items];
}

/** Entries of the palette: `curl for “Revoke ci”`. */
export function copyActions(what: string, deed: Deed): Action[] {
  return ways(deed).map(([way, run]) => ({
    id: `copy:${what}:${way}`,
    group: "copy",
    icon: "copy",
    title: `${way} for “${what}”`,
    run,
  }));
}
