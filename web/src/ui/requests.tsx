// What waits for a person's approval: each request with its exact call, and the two answers.
import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { ApprovalInfo } from "../api.gen.ts";
import type { Deed } from "../core/spelling.ts";
import { duration, stamp } from "../core/time.ts";
import { address } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { decide } from "../state/approvals.ts";
import { isLive, session as login } from "../state/connection.ts";
import { useNow } from "./asking.tsx";
import { Button } from "./button.tsx";
import { copy } from "./copy.ts";
import { copyActions, copyItems } from "./copyas.ts";
import { Dialog } from "./dialog.tsx";
import { openMenu } from "./menu.tsx";

const RANKS: Record<string, number> = { operator: 2, admin: 3, owner: 3 };

/** The requests as cards; the palette approves and rejects them, too. */
export function Requests(props: { waiting: readonly ApprovalInfo[]; marked?: string | null }): JSX.Element {
  const { waiting } = props;
  const [rejected, setRejected] = useState<ApprovalInfo | null>(null);
  const known = waiting.map((one) => one.approval).join();
  useEffect(
    () =>
      offer(
        waiting.flatMap((one) => [
          {
            id: `approve:${one.approval}`,
            group: "do" as const,
            icon: "check" as const,
            title: `Approve ${subjectOf(one)} for ${one.actor}`,
            run: () => whyNotDecide(one) ?? void decide("approve", one),
          },
          {
            id: `reject:${one.approval}`,
            group: "do" as const,
            icon: "close" as const,
            title: `Reject ${subjectOf(one)} for ${one.actor}…`,
            run: () => whyNotDecide(one) ?? setRejected(one),
          },
          ...copyActions(`Approve ${subjectOf(one)}`, deedOf("approve", one)),
        ]),
      ),
    [known],
  );
  return (
    <>
      <ul class="cards">
        {waiting.map((one) => (
          <Waiting
            key={one.approval}
            info={one}
            isMarked={one.approval === props.marked}
            onReject={() => setRejected(one)}
          />
        ))}
      </ul>
      {rejected && <RejectDialog info={rejected} onClose={() => setRejected(null)} />}
    </>
  );
}

/** `restart of db, cache`: what a request is about, in words. */
export function subjectOf({ command, arguments: given }: ApprovalInfo): string {
  if (command === "approve_mcp_tools") return `approval of ${[given.tools].flat().join(", ")}`;
  if (command === "use_tool") return `${given.tool} in ${given.service}`;
  const names = [given.services, given.service ?? given.name ?? given.tool ?? given.path].flat();
  const some = names.filter((name): name is string => typeof name === "string");
  const more = some.length > 4 ? ` and ${some.length - 4} more` : "";
  return some.length ? `${command} of ${some.slice(0, 4).join(", ")}${more}` : command;
}

function deedOf(verb: "approve" | "reject", { approval }: ApprovalInfo): Deed {
  return { cli: [verb, approval], method: "POST", path: `api/approvals/${approval}/${verb}`, fields: {} };
}

function whyNotDecide(info: ApprovalInfo): string | undefined {
  if (!isLive.value) return "the connection is lost";
  if ((RANKS[login.value?.role ?? ""] ?? 0) < (RANKS[info.approvers] ?? 3)) return `it takes an ${info.approvers}`;
  return undefined;
}

function Waiting(props: { info: ApprovalInfo; isMarked: boolean; onReject: () => void }): JSX.Element {
  const { info } = props;
  const [isBusy, setBusy] = useState(false);
  const card = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (props.isMarked) card.current?.scrollIntoView({ block: "nearest" });
  }, [props.isMarked]);
  const why = whyNotDecide(info);
  const what = subjectOf(info);
  const isTools = info.command === "approve_mcp_tools";
  async function approve(): Promise<void> {
    setBusy(true);
    if (!(await decide("approve", info))) setBusy(false);
  }
  return (
    <li class="approval" ref={card} data-approval={info.approval} data-marked={props.isMarked || undefined}>
      <div class="row">
        <h3>
          <b>{info.actor}</b> wants <b class="mono">{what}</b>
        </h3>
        <span class="grow" />
        <Expiry at={info.expires_at} />
      </div>
      <p>{info.reason}</p>
      <dl class="facts">
        <dt>Role</dt>
        <dd>
          {info.role}, through {info.door}
          {info.session && (
            <>
              , <a href={address([info.door === "agent" ? "agents" : "sessions", info.session])}>its session</a>
            </>
          )}
        </dd>
        <dt>Policy</dt>
        <dd>
          {info.policy}; asked {stamp(info.asked_at)}
        </dd>
        <dt>The call</dt>
        <dd class="mono">{`${info.command} ${JSON.stringify(info.arguments)}`}</dd>
      </dl>
      <div class="verbs">
        {isTools && (
          <a class="button" href={address(["mcp", String(info.arguments.service), "held"])}>
            See what changed
          </a>
        )}
        <Button
          kind="plain"
          icon="more"
          hasMenu
          label={`More for ${info.approval}`}
          onClick={(event) =>
            openMenu(event.currentTarget as HTMLElement, `More for ${info.approval}`, [
              {
                title: "Copy link",
                icon: "copy",
                run: () => void copy(linkOf(info)),
              },
              ...copyItems(deedOf("approve", info)),
            ])
          }
        />
        <Button why={why} onClick={props.onReject} label={`Reject ${what}`}>
          Reject…
        </Button>
        <Button kind="primary" why={why} busy={isBusy} onClick={() => void approve()} label={`Approve ${what}`}>
          Approve
        </Button>
      </div>
    </li>
  );
}

function linkOf({ approval }: ApprovalInfo): string {
  return new URL(address(["sessions"], { approval }), document.baseURI).href;
}

/** How long it still waits; what nobody decides is refused. */
function Expiry({ at }: { at: number | null }): JSX.Element {
  const now = useNow(1000);
  if (at === null) return <span class="chip">waits until somebody decides</span>;
  const left = Math.max(0, Math.round(at - now / 1000));
  return (
    <span class={`chip ${left < 60 ? "is-warn" : ""}`} title={stamp(at)}>
      {left > 0 ? `refused in ${duration(left)}` : "time is up"}
    </span>
  );
}

function RejectDialog({ info, onClose }: { info: ApprovalInfo; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const field = useId();
  async function reject(): Promise<void> {
    onClose();
    await decide("reject", info, reason.trim());
  }
  return (
    <Dialog title={`Reject ${subjectOf(info)}?`} onClose={onClose}>
      <p>{info.actor} is told that it was rejected, and why.</p>
      <label class="field" for={field}>
        Reason
        <input
          id={field}
          class="input"
          autocomplete="off"
          autofocus
          maxLength={500}
          placeholder="for example: after the backup"
          value={reason}
          onInput={(event) => setReason(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && void reject()}
        />
      </label>
      <div class="dialog-foot">
        <Button onClick={onClose}>Cancel</Button>
        <Button kind="danger" onClick={() => void reject()}>
          Reject
        </Button>
      </div>
    </Dialog>
  );
}
