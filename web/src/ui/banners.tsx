// The banners of the supervisor: two are seen, the rest is counted.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import type { Banner as Told } from "../api.gen.ts";
import { ago, duration } from "../core/time.ts";
import { address, navigate } from "../routes.ts";
import { banners, planned } from "../state/banners.ts";
import { act, isLive, may } from "../state/connection.ts";
import { refresh } from "../state/services.ts";
import { fail, toast } from "../state/toasts.ts";
import { Banner } from "./banner.tsx";
import { Button } from "./button.tsx";
import { copy } from "./copy.ts";
import { confirm } from "./dialog.tsx";

/** So many are seen at once; on a phone one. */
const SEEN = innerWidth < 700 ? 1 : 2;
const isOpen = signal(false);
const TONES = { error: "bad", warning: "warn", info: "info", success: "ok" } as const;
const NEEDED: Record<string, "operate" | "administer"> = { unlock: "administer" };
const PLACES: Partial<Record<Told["kind"], string>> = {
  approval: "sessions",
  workflow: "workflows",
  rolling: "services",
};

export function SupervisorBanners(): JSX.Element {
  const all = banners.value;
  const shown = isOpen.value ? all : all.slice(0, SEEN);
  const isAnnounced = planned.value !== null && all.some((one) => one.title === planned.value);
  return (
    <>
      {planned.value !== null && !isAnnounced && isLive.value && (
        <Banner severity="info" title={planned.value} detail="This page comes back by itself." />
      )}
      {shown.map((one) => (
        <One key={one.id} told={one} />
      ))}
      {all.length > SEEN && (
        <div class="banner-more">
          <Button kind="plain" expanded={isOpen.value} onClick={() => (isOpen.value = !isOpen.value)}>
            {isOpen.value ? "Fewer" : `+ ${all.length - SEEN} more`}
          </Button>
        </div>
      )}
    </>
  );
}

function One({ told }: { told: Told }): JSX.Element {
  const { progress, service } = told;
  const place = service ? address(["services", service]) : PLACES[told.kind];
  const since = told.since
    ? progress
      ? duration(Math.max(0, Date.now() / 1000 - told.since))
      : ago(told.since)
    : "";
  const detail = [
    told.detail,
    progress && `step ${progress.step} of ${progress.steps}, ${progress.what}`,
    since,
  ];
  return (
    <Banner
      severity={TONES[told.severity]}
      title={told.title}
      detail={detail.filter(Boolean).join(" · ")}
      progress={
        progress ? { value: progress.step, of: progress.steps, label: `${told.title}: progress` } : undefined
      }
    >
      {place && (
        <Button onClick={() => navigate(place)} label={`View: ${told.title}`}>
          View
        </Button>
      )}
      {(told.actions ?? []).map((action) => (
        <Button
          key={action.label}
          {...(action.label === "Cancel" && { kind: "danger" as const })}
          why={whyNot(action.command)}
          onClick={() => void perform(told, action)}
        >
          {action.label}
        </Button>
      ))}
      {told.hint && told.severity !== "success" && (
        <Button
          class="only-wide"
          kind="plain"
          icon="copy"
          label={`Copy: ${told.hint}`}
          onClick={() => void copyHint(told.hint!)}
        />
      )}
      {told.is_dismissible && may("operate") && (
        <Button
          kind="plain"
          icon="close"
          label={`Put away: ${told.title}`}
          onClick={() => void act("dismiss_banner", { banner: told.id }).then(refresh, fail)}
        />
      )}
    </Banner>
  );
}

function whyNot(command: string): string | undefined {
  if (!isLive.value) return "the connection is lost";
  return may(NEEDED[command] ?? "operate") ? undefined : "your role may not do this";
}

async function perform(told: Told, action: NonNullable<Told["actions"]>[number]): Promise<void> {
  const question = {
    title: `${action.label}?`,
    detail: told.title,
    verb: action.label,
    danger: "some" as const,
  };
  if (!(await confirm(question))) return;
  try {
    await act(action.command as "unlock", (action.arguments ?? {}) as never);
    refresh();
  } catch (error) {
    fail(error);
  }
}

async function copyHint(hint: string): Promise<void> {
  await copy(hint);
  toast("ok", `Copied: ${hint}`);
}
