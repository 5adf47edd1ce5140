// Durations, times and sizes as people read them.

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
  [1, "s"],
];

/** `2h 11m`, `8s`, `0.4s`: the two largest units. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 1) return seconds === 0 ? "0s" : `${Math.max(1, Math.round(seconds * 1000))}ms`;
  if (seconds < 10) return `${Math.floor(seconds * 10) / 10}s`;
  const first = UNITS.findIndex(([unit]) => seconds >= unit);
  const parts: string[] = [];
  let rest = Math.floor(seconds);
  for (const [unit, name] of UNITS.slice(first, first + 2)) {
    const count = Math.floor(rest / unit);
    rest -= count * unit;
    if (count > 0 || parts.length === 0) parts.push(`${count}${name}`);
  }
  return parts.join(" ");
}

/** `3m ago`, `in 8s`, `now`. */
export function ago(unixSeconds: number, nowMs = Date.now()): string {
  const seconds = nowMs / 1000 - unixSeconds;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(Math.floor(seconds))} ago` : `in ${duration(Math.ceil(-seconds))}`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** `10:42:07.112`, of local time. */
export function clock(unixMs: number, isUtc = false): string {
  const at = new Date(unixMs);
  const [h, m, s, ms] = isUtc
    ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds(), at.getUTCMilliseconds()]
    : [at.getHours(), at.getMinutes(), at.getSeconds(), at.getMilliseconds()];
  return `${two(h)}:${two(m)}:${two(s)}.${String(ms).padStart(3, "0")}`;
}

/** `2026-11-19 10:42:07`, of local time. */
export function stamp(unixSeconds: number): string {
  const at = new Date(unixSeconds * 1000);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** `312 MB`, `1.2 GB`; units of 1,000. */
export function size(bytes: number): string {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let value = bytes;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `1,204`. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}
