// Steps in order: the workflows of the configuration, restarts with commands around them, and each
// run with its steps as they go.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Deed, quoted } from "../core/spelling.ts";
import { ago, duration, stamp } from "../core/time.ts";
import type { Step, WorkflowRun } from "../core/workflowruns.ts";
import { type PageProps, address, navigate } from "../routes.ts";
import { offer } from "../state/actions.ts";
import { may } from "../state/connection.ts";
import { isPastLoaded } from "../state/past.ts";
import { isLoaded as hasServices, services } from "../state/services.ts";
import {
  type RestartFields,
  cancelRun,
  customRestart,
  followRun,
  followWorkflows,
  known,
  outputs,
  problem,
  readable,
  runWorkflow,
  runs,
  whyNot,
} from "../state/workflows.ts";
import { Button } from "../ui/button.tsx";
import { copyActions, copyItems } from "../ui/copyas.ts";
import { confirm } from "../ui/dialog.tsx";
import { State } from "../ui/icon.tsx";
import { openMenu } from "../ui/menu.tsx";

const LOOKS: Record<string, string> = { waiting: "pending", begun: "starting", interrupted: "failed" };

export default function Workflows({ params }: PageProps): JSX.Element {
  useEffect(followWorkflows, []);
  const isShown = isPastLoaded.value && hasServices.value && (known.value !== null || problem.value !== null);
  return (
    <div
      class="stack"
      data-page="workflows"
      data-part={params.part ?? "list"}
      data-state={isShown ? "shown" : "loading"}
    >
      {params.part === "runs" ? (
        <RunPage id={params.id ?? ""} isLoaded={isShown} />
      ) : params.part === "custom-restart" ? (
        <RestartForm key={String(hasServices.value)} service={params.id ?? ""} />
      ) : (
        <List isLoaded={isShown} />
      )}
    </div>
  );
}

function deedOf(name: string): Deed {
  const path = `api/workflows/${encodeURIComponent(name)}/run`;
  return { cli: ["workflow", "run", name], method: "POST", path };
}

async function run(name: string): Promise<void> {
  const steps = known.peek()?.workflows[name]?.steps ?? [];
  const question = {
    title: `Run ${name}?`,
    detail: (
      <ol>
        {steps.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ol>
    ),
    verb: `Run ${name}`,
    danger: "some" as const,
  };
  if (await confirm(question)) show(await runWorkflow(name));
}

function show(id: string | null): void {
  if (id) navigate(address(["workflows", "runs", id]));
}

function List({ isLoaded }: { isLoaded: boolean }): JSX.Element {
  const found = Object.entries(known.value?.workflows ?? {});
  const names = found.map(([name]) => name).join();
  useEffect(
    () =>
      offer([
        ...found.map(([name]) => ({
          id: `workflow:${name}`,
          group: "do" as const,
          title: `Run workflow ${name}`,
          icon: "workflows" as const,
          run: () => void run(name),
        })),
        ...found.flatMap(([name]) => copyActions(`Run workflow ${name}`, deedOf(name))),
        {
          id: "custom-restart",
          group: "do",
          title: "Custom restart…",
          icon: "restart",
          run: () => navigate("workflows/custom-restart"),
        },
      ]),
    [names],
  );
  return (
    <>
      <div class="page-head">
        <h1>Workflows</h1>
        <span class="grow" />
        <Button icon="restart" why={whyNot()} onClick={() => navigate("workflows/custom-restart")}>
          Custom restart…
        </Button>
      </div>
      {problem.value !== null && <Failed />}
      {isLoaded && found.length === 0 && problem.value === null && (
        <div class="empty card">
          <p>No workflow is declared. A workflow is a series of steps with a name:</p>
          <pre class="left">{"workflows:\n  release:\n    steps:\n      - make build\n      - restart: web"}</pre>
        </div>
      )}
      <div class="workflow-cards">
        {found.map(([name, one]) => (
          <section key={name} class="card" aria-label={name} data-workflow={name}>
            <div class="row">
              <h2 class="grow">{name}</h2>
              <Button
                kind="primary"
                icon="play"
                why={whyNot() ?? (isRunning(name) ? "it is under way" : undefined)}
                label={`Run ${name}`}
                onClick={() => void run(name)}
              >
                Run
              </Button>
              <Button
                icon="more"
                label={`More for ${name}`}
                hasMenu
                onClick={(event) =>
                  openMenu(event.currentTarget as HTMLElement, name, [
                    { title: "Run…", icon: "play", why: whyNot(), run: () => void run(name) },
                    ...copyItems(deedOf(name)),
                  ])
                }
              />
            </div>
            {one.description && <p>{one.description}</p>}
            <ol class="dim">
              {one.steps.map((step) => (
                <li key={step}>{step}</li>
              ))}
            </ol>
            <p class="faint">At most {duration(one.timeout)}.</p>
          </section>
        ))}
      </div>
      <section class="card" aria-label="Runs">
        <h2>Runs</h2>
        {isLoaded && runs.value.length === 0 && <p class="dim">Nothing was run yet.</p>}
        {runs.value.length > 0 && <RunTable list={runs.value.slice(0, 50)} />}
      </section>
    </>
  );
}

function isRunning(name: string): boolean {
  return (known.value?.under_way ?? []).some((one) => one.name === `workflow ${name}`);
}

function Failed(): JSX.Element {
  const why = problem.value;
  return (
    <p class="card is-bad" role="alert">
      {why instanceof Error ? why.message : String(why)}
    </p>
  );
}

function RunTable({ list }: { list: readonly WorkflowRun[] }): JSX.Element {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Runs as a table">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Outcome</th>
            <th scope="col">What</th>
            <th scope="col">Steps</th>
            <th scope="col">By</th>
            <th scope="col">Began</th>
            <th scope="col" class="num">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map((one) => (
            <tr key={one.id} data-run={one.id}>
              <td class="nowrap">
                <Outcome of={one.outcome} />
              </td>
              <td>
                <a href={address(["workflows", "runs", one.id])}>{one.name}</a>
                {one.reason && <div class="dim">{one.reason}</div>}
              </td>
              <td>{doneOf(one)}</td>
              <td class="dim">{one.by}</td>
              <td class="nowrap" title={ago(one.began)}>
                {stamp(one.began)}
              </td>
              <td class="num mono">{one.seconds === null ? "–" : duration(one.seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Outcome({ of }: { of: string }): JSX.Element {
  return <State state={LOOKS[of] ?? of} word={of === "begun" ? "running" : of} />;
}

function doneOf(one: WorkflowRun): string {
  return `${one.steps.filter((step) => step.outcome === "done").length} of ${one.steps.length}`;
}

function RunPage({ id, isLoaded }: { id: string; isLoaded: boolean }): JSX.Element {
  const one = runs.value.find((found) => found.id === id);
  const name = one?.name.startsWith("workflow ") ? one.name.slice(9) : null;
  const isOver = one !== undefined && one.outcome !== "running";
  const isKnown = one !== undefined;
  useEffect(() => (isKnown && may("operate") ? followRun(id) : undefined), [id, isKnown]);
  const again = name !== null && known.value?.workflows[name] ? name : null;
  useEffect(() => (again ? offer(copyActions(`Run workflow ${again}`, deedOf(again))) : undefined), [again]);
  if (!one)
    return (
      <div class="empty" data-state={isLoaded ? "missing" : "loading"}>
        {isLoaded && (
          <>
            <h1>This run is not known</h1>
            <p>The history is kept for a while only; this run may be older.</p>
          </>
        )}
        <a class="button" href="workflows">
          All workflows
        </a>
      </div>
    );
  return (
    <>
      <div class="page-head">
        <h1>{one.name}</h1>
        <span class="chip" data-role="outcome" role="status">
          <Outcome of={one.outcome} />
        </span>
        <span class="dim">
          {doneOf(one)} steps
          {one.by && ` · by ${one.by}`} · {stamp(one.began)}
          {one.seconds !== null && ` · ${duration(one.seconds)}`}
        </span>
        <span class="grow" />
        {!isOver && (
          <Button kind="danger" why={whyNot()} onClick={() => void cancel(one)}>
            Cancel…
          </Button>
        )}
        {isOver && again && (
          <Button icon="play" why={whyNot()} onClick={() => void run(again)}>
            Run again…
          </Button>
        )}
        {again && (
          <Button
            icon="copy"
            label="Copy as"
            hasMenu
            onClick={(event) =>
              openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(deedOf(again)).slice(1))
            }
          >
            Copy as
          </Button>
        )}
      </div>
      {one.reason && (
        <p class="card is-bad" role="alert">
          {one.reason}
        </p>
      )}
      {!may("operate") && <p class="dim">What the steps print is shown to operators.</p>}
      <ol class="steps" aria-label="Steps">
        {one.steps.map((step, place) => (
          <StepCard
            key={place}
            step={step}
            place={place + 1}
            printed={outputs.value.get(`${one.id} ${place + 1}`)}
          />
        ))}
      </ol>
      <p>
        <a href="workflows">All workflows</a>
      </p>
    </>
  );
}

function StepCard({ step, place, printed }: { step: Step; place: number; printed: string | undefined }) {
  return (
    <li class="card" data-step={place} data-outcome={step.outcome}>
      <div class="row">
        <span class="mono faint">{place}</span>
        <b class="grow">
          {step.what}
          {step.part && <span class="dim"> · {step.part}</span>}
        </b>
        {step.seconds !== null && <span class="mono dim">{duration(step.seconds)}</span>}
        <Outcome of={step.outcome} />
      </div>
      {step.reason && <p class="is-bad">{step.reason}</p>}
      {printed && (
        <pre class="printed" tabIndex={0} role="region" aria-label={`Output of step ${place}`}>
          {readable(printed)}
        </pre>
      )}
    </li>
  );
}

async function cancel(one: WorkflowRun): Promise<void> {
  const question = {
    title: `Cancel ${one.name}?`,
    detail: "The command that runs is killed, and no further step begins. A restart that has begun is finished.",
    verb: `Cancel ${one.name}`,
    danger: "some" as const,
  };
  if (await confirm(question)) await cancelRun(one.id);
}

interface Form {
  service: string;
  before: string;
  after: string;
  words: string;
  variables: string;
}

/** Each line of a field, without empty ones. */
function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

function fieldsOf(form: Form): RestartFields {
  const before = lines(form.before).map((command) => ({ command }));
  const after = lines(form.after).map((command) => ({ command }));
  const variables = lines(form.variables).map((line) => {
    const [name, ...value] = line.split("=");
    return [name!.trim(), value.join("=")] as const;
  });
  return {
    service: form.service,
    ...(before.length && { pre_commands: before }),
    ...(after.length && { post_commands: after }),
    ...(lines(form.words).length && { start_args: lines(form.words) }),
    ...(variables.length && { env_vars: Object.fromEntries(variables) }),
  };
}

function restartDeed(fields: RestartFields): Deed {
  const { service, pre_commands: before = [], post_commands: after = [], start_args: words } = fields;
  const cli = [
    ...["custom-restart", service],
    ...before.flatMap(({ command }) => ["--pre-command", command]),
    ...after.flatMap(({ command }) => ["--post-command", command]),
    ...(words ? ["--args", words.map(quoted).join(" ")] : []),
    ...Object.entries(fields.env_vars ?? {}).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
  ];
  return { cli, method: "POST", path: "api/services/custom-restart", fields: { ...fields } };
}

/** A restart with commands before and after it. */
function RestartForm({ service }: { service: string }): JSX.Element {
  const [form, setForm] = useState<Form>({ service, before: "", after: "", words: "", variables: "" });
  const [isBusy, setBusy] = useState(false);
  const names = [...services.value.keys()].sort();
  const named = Object.keys(known.value?.commands ?? {});
  const fields = fieldsOf(form);
  const isComplete = form.service !== "";
  const change = (key: keyof Form) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [key]: event.currentTarget.value });

  async function restart(): Promise<void> {
    const question = {
      title: `Restart ${form.service}?`,
      detail: (
        <ol>
          {[...lines(form.before), `restart ${form.service}`, ...lines(form.after)].map((one, place) => (
            <li key={place}>{one}</li>
          ))}
        </ol>
      ),
      verb: `Restart ${form.service}`,
      danger: "some" as const,
    };
    if (!(await confirm(question))) return;
    setBusy(true);
    const id = await customRestart(fields);
    setBusy(false);
    show(id);
  }

  return (
    <>
      <div class="page-head">
        <h1>Custom restart</h1>
      </div>
      <p class="dim">Commands, a restart, commands. If one of the first fails, the service is not touched.</p>
      <form
        class="card form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isComplete && !whyNot()) void restart();
        }}
      >
        <label>
          Service
          <select class="input" required value={form.service} onChange={change("service")}>
            <option value="">Choose…</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Before it, one command a line
          <textarea class="input mono" rows={3} value={form.before} onInput={change("before")} />
        </label>
        <label>
          After it, one command a line
          <textarea class="input mono" rows={3} value={form.after} onInput={change("after")} />
        </label>
        {named.length > 0 && <p class="dim">Commands of the configuration: {named.join(", ")}.</p>}
        {may("administer") && (
          <>
            <label>
              Arguments for the next run, one a line
              <textarea class="input mono" rows={2} value={form.words} onInput={change("words")} />
            </label>
            <label>
              Variables for the next run, NAME=value, one a line
              <textarea class="input mono" rows={2} value={form.variables} onInput={change("variables")} />
            </label>
          </>
        )}
        <div class="row">
          <Button
            kind="primary"
            type="submit"
            busy={isBusy}
            why={whyNot() ?? (isComplete ? undefined : "choose a service first")}
          >
            Restart…
          </Button>
          <Button
            icon="copy"
            hasMenu
            onClick={(event) =>
              openMenu(event.currentTarget as HTMLElement, "Copy as", copyItems(restartDeed(fields)).slice(1))
            }
          >
            Copy as
          </Button>
          <a href="workflows">All workflows</a>
        </div>
      </form>
    </>
  );
}
