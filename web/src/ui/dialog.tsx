// Dialogs and the graded confirmation of what is dangerous.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "./button.tsx";

/** A modal dialog: the rest of the page waits, Escape closes it, focus returns to the opener. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const opener = document.activeElement;
    box.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={props.class}
      aria-labelledby={heading}
      onClose={props.onClose}
      onClick={(event) => event.target === box.current && box.current?.close()}
    >
      <div class="dialog">
        <h2 id={heading}>{props.title}</h2>
        {props.children}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  /** What will happen, and what depends on it. */
  detail?: ComponentChildren;
  /** On the button: the verb itself. */
  verb: string;
  /** high: the name must be typed. */
  danger: "some" | "high";
  /** What must be typed. */
  name?: string;
}

const asked = signal<(Question & { answer: (is: boolean) => void }) | null>(null);

/** Ask before something dangerous is done; false: the person thought better of it. */
export function confirm(question: Question): Promise<boolean> {
  asked.peek()?.answer(false);
  return new Promise((resolve) => {
    asked.value = {
      ...question,
      answer: (is) => {
        asked.value = null;
        resolve(is);
      },
    };
  });
}

/** Where questions appear; once in the page. */
export function Questions(): JSX.Element | null {
  const question = asked.value;
  return question && <Confirmation key={question.title} {...question} />;
}

function Confirmation(props: Question & { answer: (is: boolean) => void }): JSX.Element {
  const [typed, setTyped] = useState("");
  const field = useId();
  const isReady = props.danger === "some" || typed.trim() === props.name;
  return (
    <Dialog title={props.title} onClose={() => props.answer(false)}>
      {props.detail}
      {props.danger === "high" && (
        <label for={field}>
          Type <b class="mono">{props.name}</b> to confirm:{" "}
          <input
            id={field}
            class="input"
            autocomplete="off"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && isReady && props.answer(true)}
          />
        </label>
      )}
      <div class="dialog-foot">
        <Button onClick={() => props.answer(false)} autoFocus={props.danger === "some"}>
          Cancel
        </Button>
        <Button
          kind="danger"
          why={isReady ? undefined : `type ${props.name} first`}
          onClick={() => props.answer(true)}
        >
          {props.verb}
        </Button>
      </div>
    </Dialog>
  );
}
