import { fail } from "../state/toasts.ts";

/** Put a text on the clipboard. */
export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    fail(error);
  }
}
