import type { JSX } from "preact";
import { dismiss, toasts } from "../state/toasts.ts";
import { Button } from "./button.tsx";

/** Where notices appear; once in the page. Failures interrupt a screen reader, the rest waits. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts">
      {toasts.value.map((toast) => (
        <div key={toast.id} class="toast" data-kind={toast.kind} role={toast.kind === "bad" ? "alert" : "status"}>
          <div class="grow">
            <div>{toast.text}</div>
            {toast.hint && <div class="dim">{toast.hint}</div>}
          </div>
          {toast.action && (
            <Button
              onClick={() => {
                dismiss(toast.id);
                toast.action?.run();
              }}
            >
              {toast.action.title}
            </Button>
          )}
          <Button kind="plain" icon="close" label="Close" onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}
