// One chart over time: several services, a shared cursor, restarts as dashed lines. Framework-free.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  name: string;
  /** The name of a colour of the tokens: `--hue-0`. */
  colour: string;
  /** One value for each time; null: nothing is known. */
  values: (number | null)[];
}

export interface ChartData {
  times: number[];
  series: Series[];
  /** Unix seconds at which something was restarted. */
  marks: number[];
  from: number;
  to: number;
}

interface Measure {
  show: (value: number) => string;
  least: number;
}

const cursor = uPlot.sync("holdfast-metrics");

export class Chart {
  private plot: uPlot | null = null;
  private data: ChartData | null = null;
  private readonly box: HTMLElement;
  private readonly measure: Measure;
  private readonly onValues: ((values: (number | null)[] | null) => void) | undefined;
  private readonly observer: ResizeObserver;

  constructor(box: HTMLElement, measure: Measure, onValues?: (values: (number | null)[] | null) => void) {
    this.box = box;
    this.measure = measure;
    this.onValues = onValues;
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(box);
  }

  set(data: ChartData): void {
    const before = this.data;
    this.data = data;
    const isSame =
      before?.series.map((one) => one.name + one.colour).join() ===
        data.series.map((one) => one.name + one.colour).join() &&
      before.to - before.from === data.to - data.from;
    if (this.plot && isSame) {
      this.plot.setData([data.times, ...data.series.map((one) => one.values)] as uPlot.AlignedData, false);
      this.plot.setScale("x", { min: data.from, max: data.to });
    } else this.build();
  }

  /** Draw anew, with the colours of the theme. */
  build(): void {
    this.plot?.destroy();
    this.plot = null;
    const data = this.data;
    if (!data || this.box.clientWidth === 0) return;
    const style = getComputedStyle(this.box);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--faint"),
      font: `11px ${style.fontFamily}`,
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
    };
    const isFilled = data.series.length <= 2;
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [10, 8, 0, 0],
        cursor: {
          sync: { key: cursor.key, setSeries: false },
          points: { size: 6 },
          drag: { x: false, y: false },
          y: false,
        },
        legend: { show: false },
        scales: {
          x: { time: true, range: () => [this.data!.from, this.data!.to] },
          y: { range: (_, __, most) => [0, Math.max(most || 0, this.measure.least) * 1.12] },
        },
        axes: [
          { ...axis, size: 26, values: (_, times) => times.map(shortTime(data.to - data.from)) },
          { ...axis, size: 58, values: (_, values) => values.map((value) => this.measure.show(value)) },
        ],
        series: [
          {},
          ...data.series.map((one) => ({
            label: one.name,
            stroke: colour(one.colour),
            ...(isFilled && { fill: `${colour(one.colour)}22` }),
            width: 1.5,
            points: { show: false },
            spanGaps: false,
          })),
        ],
        hooks: {
          draw: [(plot) => this.drawMarks(plot, colour("--bad"))],
          setCursor: [(plot) => this.onValues?.(this.valuesAt(plot))],
        },
      },
      [data.times, ...data.series.map((one) => one.values)] as uPlot.AlignedData,
      this.box,
    );
  }

  dispose(): void {
    this.observer.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  private valuesAt(plot: uPlot): (number | null)[] | null {
    const place = plot.cursor.idx;
    if (place === null || place === undefined || (plot.cursor.left ?? -1) < 0) return null;
    return this.data?.series.map((one) => one.values[place] ?? null) ?? null;
  }

  private drawMarks(plot: uPlot, colour: string): void {
    const pen = plot.ctx;
    const { left, top, width, height } = plot.bbox;
    const scale = devicePixelRatio || 1;
    pen.save();
    pen.strokeStyle = colour;
    pen.lineWidth = scale;
    pen.setLineDash([3 * scale, 3 * scale]);
    for (const time of this.data?.marks ?? []) {
      const x = Math.round(plot.valToPos(time, "x", true));
      if (x < left || x > left + width) continue;
      pen.beginPath();
      pen.moveTo(x, top);
      pen.lineTo(x, top + height);
      pen.stroke();
    }
    pen.restore();
  }

  private size(): { width: number; height: number } {
    return { width: this.box.clientWidth, height: Math.max(120, this.box.clientHeight) };
  }

  private fit(): void {
    if (this.plot === null) this.build();
    else this.plot.setSize(this.size());
  }
}

function shortTime(range: number): (time: number) => string {
  return (time) => {
    const at = new Date(time * 1000);
    const two = (value: number) => String(value).padStart(2, "0");
    if (range > 2 * 86_400) return `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const clock = `${two(at.getHours())}:${two(at.getMinutes())}`;
    return range < 600 ? `${clock}:${two(at.getSeconds())}` : clock;
  };
}
