// The inbox of approvals: what waits for a person, current for the count in the navigation.
import { effect, signal } from "@preact/signals";
import type { ApprovalInfo, ApprovalsResult } from "../api.gen.ts";
import { counts } from "../ui/shell.tsx";
import { act, isLive, may, read } from "./connection.ts";
import { onEvent } from "./services.ts";
import { fail, toast } from "./toasts.ts";

export const approvals = signal<ApprovalsResult | null>(null);
export const approvalsError = signal<unknown>(null);

const GATHER_MS = 60;
let isFollowing = false;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Begin to follow; called once. */
export function followApprovals(): void {
  if (isFollowing || !may("operate")) return;
  isFollowing = true;
  onEvent((event) => {
    if (/^(approval:|mcp:|lockdown:|supervisor:)/.test(event.kind)) timer ??= setTimeout(loadApprovals, GATHER_MS);
  });
  effect(() => {
    if (isLive.value) void loadApprovals();
  });
}

export async function loadApprovals(): Promise<void> {
  timer = undefined;
  try {
    approvals.value = await read("approvals", {});
    approvalsError.value = null;
    const count = approvals.value.waiting.length;
    const { sessions: _, ...others } = counts.peek();
    counts.value = count ? { ...others, sessions: { count, isUrgent: true } } : others;
  } catch (error) {
    approvalsError.value = error;
  }
}

/** Approve or reject; true if it was decided. */
export async function decide(
  verb: "approve" | "reject",
  { approval, command, actor }: ApprovalInfo,
  reason?: string,
): Promise<boolean> {
  try {
    await act(verb, { approval, ...(reason && { reason }) });
    toast("ok", `${command} of ${actor} is ${verb === "approve" ? "approved" : "rejected"}`);
    return true;
  } catch (error) {
    fail(error);
    return false;
  } finally {
    void loadApprovals();
  }
}
