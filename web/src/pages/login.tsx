// Logging in by a link: its secret stands behind the `#`, and leaves the address at once.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { CommandError } from "../core/socket.ts";
import { BASE, type PageProps, navigate } from "../routes.ts";
import { logIn } from "../state/connection.ts";

const WANTED = "holdfast-wanted";

type Props = Partial<PageProps> & { onDone?: () => Promise<void> };

export default function Login({ onDone }: Props): JSX.Element {
  const [problem, setProblem] = useState<{ title: string; hint: string } | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    const code = location.hash.slice(1);
    history.replaceState(null, "", `${BASE}login`);
    if (code) void enter(code);
  }, []);

  async function enter(code: string): Promise<void> {
    setBusy(true);
    try {
      await logIn(code);
      const wanted = sessionStorage.getItem(WANTED) ?? "";
      sessionStorage.removeItem(WANTED);
      navigate(wanted, { replace: true });
      await onDone?.();
    } catch (error) {
      const told = error instanceof CommandError ? error.message : `no answer: ${String(error)}`;
      setProblem({ title: `This link does not work (any more): ${told}.`, hint: "Ask for a new one." });
      setBusy(false);
    }
  }

  return (
    <main class="login" data-state={problem ? "refused" : isBusy ? "busy" : "nobody"}>
      <img src="./favicon.svg" alt="" width="40" height="40" />
      <h1>Holdfast</h1>
      {problem && (
        <p role="alert" class="is-bad">
          {problem.title} {problem.hint}
        </p>
      )}
      {isBusy ? (
        <p>Logging in…</p>
      ) : (
        <>
          <p>You are not logged in. In a terminal, in the project's folder, run</p>
          <pre class="card">holdfast dashboard</pre>
          <p class="dim">It opens a link that works once and logs you in here.</p>
        </>
      )}
    </main>
  );
}
