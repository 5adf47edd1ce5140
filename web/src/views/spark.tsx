// A line of the last ten minutes, on a canvas: a row of a table costs no elements.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { isDark } from "../state/prefs.ts";
import { SPARK_SECONDS, recent, wantRecent } from "../state/usage.ts";

const WIDTH = 84;
const HEIGHT = 20;

/** What a service used, as a line; `of` says which number. */
export function Spark(props: { name: string; of?: "cpu" | "memory"; tone?: string }): JSX.Element {
  useEffect(() => wantRecent(props.name), [props.name]);
  const points = recent.value.get(props.name) ?? [];
  const values = points.map((point) => ({
    time: point.time,
    value: props.of === "memory" ? point.memory_bytes : point.cpu_percent,
  }));
  return <Line values={values} seconds={SPARK_SECONDS} {...(props.tone && { tone: props.tone })} />;
}

export function Line(props: {
  values: readonly { time: number; value: number }[];
  seconds: number;
  tone?: string;
  width?: number;
  height?: number;
}): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  const { values, seconds, tone = "accent", width = WIDTH, height = HEIGHT } = props;
  useEffect(() => {
    const element = canvas.current;
    if (element) draw(element, values, seconds, tone, width, height);
  }, [values, dark, tone, width, height]);
  return (
    <canvas
      ref={canvas}
      class="spark"
      style={{ width: `${width}px`, height: `${height}px` }}
      aria-hidden="true"
    />
  );
}

function draw(
  canvas: HTMLCanvasElement,
  values: readonly { time: number; value: number }[],
  seconds: number,
  tone: string,
  width: number,
  height: number,
): void {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  if (!pen || values.length < 2) return;
  pen.scale(scale, scale);
  const end = Math.max(values.at(-1)!.time, Date.now() / 1000 - 20);
  const most = Math.max(...values.map((one) => one.value), 1e-9);
  pen.strokeStyle = getComputedStyle(canvas).getPropertyValue(`--${tone}`);
  pen.lineWidth = 1.3;
  pen.lineJoin = "round";
  pen.beginPath();
  for (const { time, value } of values) {
    const x = width - ((end - time) / seconds) * width;
    pen.lineTo(x, height - 2 - (value / most) * (height - 5));
  }
  pen.stroke();
}
