// What a page asks for and keeps current, and how it shows that it waits, failed, or may not.
import "./asking.css";
import { effect, untracked } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { CommandError } from "../core/socket.ts";
import { isLive } from "../state/connection.ts";
import { onEvent } from "../state/services.ts";
import { Button } from "./button.tsx";

const GATHER_MS = 120;

export interface Asked<T> {
  value: T | null;
  error: unknown;
  again: () => void;
}

/** Ask now, when `key` changes, when such an event comes, and when the connection is back. */
export function useAsked<T>(ask: () => Promise<T>, kinds: RegExp, key = ""): Asked<T> {
  const [state, setState] = useState<{ key: string; value: T | null; error: unknown }>({
    key,
    value: null,
    error: null,
  });
  const latest = useRef(ask);
  latest.current = ask;
  const turn = useRef(0);
  const again = useCallback(() => {
    const mine = ++turn.current;
    latest.current().then(
      (value) => mine === turn.current && setState({ key, value, error: null }),
      (error) =>
        mine === turn.current &&
        setState((before) => ({ key, value: before.key === key ? before.value : null, error })),
    );
  }, [key]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onEvent((event) => {
      if (kinds.test(event.kind))
        timer ??= setTimeout(() => {
          timer = undefined;
          again();
        }, GATHER_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
      turn.current += 1;
    };
  }, [again]);
  useEffect(
    () =>
      effect(() => {
        if (isLive.value) untracked(again);
      }),
    [again],
  );
  return { value: state.key === key ? state.value : null, error: state.error, again };
}

/** The time of day, renewed so often; for what runs out. */
export function useNow(milliseconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return now;
}

/** Why nothing can be shown, in the server's words; the rest of the page stays alive. */
export function Problem({ error, again }: { error: unknown; again: () => void }): JSX.Element {
  const isMissingRight = error instanceof CommandError && /refused|forbidden/.test(error.code);
  return (
    <div class="empty" role="alert" data-state="failed">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {error instanceof CommandError && error.hint && <p>{error.hint}</p>}
      {isMissingRight ? (
        <p>An admin can give another role: holdfast dashboard --role admin</p>
      ) : (
        <Button onClick={again}>Try again</Button>
      )}
    </div>
  );
}

/** What was asked for: nothing for a moment, then it, or why not. */
export function Show<T>(props: { asked: Asked<T>; children: (value: T) => ComponentChildren }): JSX.Element {
  const { value, error, again } = props.asked;
  if (value !== null) return <>{props.children(value)}</>;
  if (error) return <Problem error={error} again={again} />;
  return <div class="card skeleton late" style={{ height: "96px" }} aria-busy="true" />;
}
