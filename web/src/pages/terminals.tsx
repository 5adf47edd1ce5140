// Hands on: the terminals of services, and new shells beside them.
import type { JSX } from "preact";
import { type PageProps, address, navigate } from "../routes.ts";
import { may } from "../state/connection.ts";
import { isLoaded, services } from "../state/services.ts";
import { openTerminal } from "../state/verbs.ts";
import { Button } from "../ui/button.tsx";
import { State } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";
import { TabPanel, Tabs } from "../ui/tabs.tsx";
import { TerminalPanel } from "../ui/terminalpanel.tsx";

export default function Terminals({ params }: PageProps): JSX.Element {
  const all = [...services.value].filter(([, service]) => service.terminal).map(([name]) => name).sort();
  const asked = params.service;
  const current = asked ?? all[0];
  const known = current !== undefined && services.value.has(current);
  return (
    <>
      <div class="page-head" data-page="terminals" data-state={isLoaded.value ? "shown" : "loading"}>
        <h1>Terminals</h1>
        <span class="grow" />
        <Button
          icon="plus"
          hasMenu
          why={may("operate") ? undefined : "your role may look only"}
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, "Open terminal beside", [
              { heading: "A shell with the user, folder and environment of" },
              ...[...services.value.keys()].sort().map((name) => ({
                title: name,
                run: () => void openTerminal(name),
              })),
            ])
          }
        >
          Open terminal
        </Button>
      </div>
      {all.length > 0 && (
        <Tabs
          label="Terminals"
          current={current ?? ""}
          onChange={(name) => navigate(address(["terminals", name]))}
          tabs={all.map((name) => ({
            key: name,
            href: address(["terminals", name]),
            title: (
              <>
                {name} <State state={services.value.get(name)?.status ?? ""} word="" />
              </>
            ),
          }))}
        />
      )}
      {isLoaded.value && !known && (
        <div class="empty">
          <p>{asked ? `There is no terminal ${asked}.` : "No service has a terminal."}</p>
          <p>
            A service has one with <code>terminal: true</code>; a shell beside a service opens above, if
            <code> commands: {"{allow_terminals: true}"}</code> admits it.
          </p>
        </div>
      )}
      {known && (
        <TabPanel current={current} class="fill stack">
          <TerminalPanel key={current} service={current} />
        </TabPanel>
      )}
    </>
  );
}
