// Runs of workflows and custom restarts, as their events tell them. Touches no document.

export interface Step {
  what: string;
  /** pre, restart or post, of a custom restart. */
  part: string;
  /** waiting and begun, then how it ended. */
  outcome: string;
  seconds: number | null;
  reason: string;
}

export interface WorkflowRun {
  id: string;
  name: string;
  service: string | null;
  by: string;
  began: number;
  /** running, then how it ended: done, failed, cancelled, interrupted. */
  outcome: string;
  reason: string;
  seconds: number | null;
  steps: Step[];
}

export interface WorkflowEvent {
  kind: string;
  service: string | null;
  time: number;
  data: Record<string, any>;
}

/** The names of all steps of a run, where somebody knows them before they begin. */
export type StepNames = (id: string, name: string) => readonly string[] | undefined;

/** Every run that these events tell of, the newest first. Of one whose begin was forgotten, only
    the steps that are told are known. */
export function runsOf(events: readonly WorkflowEvent[], namesOf: StepNames): WorkflowRun[] {
  const found = new Map<string, WorkflowRun>();
  for (const { kind, service, time, data } of events) {
    if (!kind.startsWith("workflow:")) continue;
    let run = found.get(data.id);
    if (!run) {
      run = {
        id: data.id,
        name: data.name,
        service,
        by: data.by ?? "",
        began: time,
        outcome: "running",
        reason: "",
        seconds: null,
        steps: [],
      };
      found.set(data.id, run);
    }
    if (run.steps.length === 0 && data.steps) run.steps = steps(data.steps, namesOf(run.id, run.name));
    if (kind === "workflow:step") take(run, data);
    else if (kind === "workflow:finished") finish(run, data);
  }
  return [...found.values()].reverse();
}

function steps(count: number, names: readonly string[] | undefined): Step[] {
  const known = names?.length === count ? names : undefined;
  return Array.from({ length: count }, (_, place) => ({
    what: known?.[place] ?? `step ${place + 1}`,
    part: "",
    outcome: "waiting",
    seconds: null,
    reason: "",
  }));
}

function take(run: WorkflowRun, data: Record<string, any>): void {
  run.steps[data.step - 1] = {
    what: data.what,
    part: data.part ?? "",
    outcome: data.outcome,
    seconds: data.seconds ?? null,
    reason: data.reason ?? "",
  };
}

function finish(run: WorkflowRun, data: Record<string, any>): void {
  run.outcome = data.outcome;
  run.reason = data.reason ?? "";
  run.seconds = data.seconds ?? null;
  for (const one of run.steps) {
    if (one.outcome === "waiting") one.outcome = "skipped";
    if (one.outcome === "begun") one.outcome = data.outcome;
  }
}
