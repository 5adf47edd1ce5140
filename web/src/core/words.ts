// Small helps with sentences. Touches no document.

/** «web failed: exit 1» is «failed: exit 1» where the name stands beside it. */
export function withoutName(summary: string, name: string): string {
  return summary.startsWith(`${name} `) ? summary.slice(name.length + 1) : summary;
}
