// A table of any length: a real table for screen readers, of which only the visible rows exist.
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  key: string;
  title: ComponentChildren;
  /** A track of CSS grid: `minmax(120px, 2fr)`. */
  width: string;
  isNumber?: boolean;
  cell: (row: Row) => ComponentChildren;
  /** What a click on the title sorts by. */
  onSort?: () => void;
  sorted?: "ascending" | "descending";
  /** Left out where there is little room. */
  isOptional?: boolean;
}

export interface TableProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  keyOf: (row: Row) => string;
  rowHeight?: number;
  isSelected?: (row: Row) => boolean;
  /** A row that is a heading: its content over all columns. */
  groupOf?: (row: Row) => ComponentChildren | null;
  onOpen?: (row: Row) => void;
  onMenu?: (row: Row, at: HTMLElement | MouseEvent) => void;
  /** A key on a focused row; true: it was for us. */
  onKey?: (row: Row, event: KeyboardEvent) => boolean;
  empty?: ComponentChildren;
}

const SPARE = 6;

export function VirtualTable<Row>(props: TableProps<Row>): JSX.Element {
  const { rows, keyOf } = props;
  const height = props.rowHeight ?? 36;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, width: 1200 });
  const [focused, setFocused] = useState<string | null>(null);
  const wantsFocus = useRef(false);
  const columns =
    view.width < 700 ? props.columns.filter((column) => !column.isOptional) : props.columns;

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () =>
      setView((before) => {
        const now = { top: element.scrollTop, height: element.clientHeight, width: element.clientWidth };
        // Only what moves the first visible row is worth drawing.
        const isSame =
          Math.floor(before.top / height) === Math.floor(now.top / height) &&
          before.height === now.height &&
          before.width === now.width;
        return isSame ? before : now;
      });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [height]);

  const first = Math.max(0, Math.floor(view.top / height) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + SPARE);
  const focusable = focused !== null && rows.some((row) => keyOf(row) === focused) ? focused : null;

  // At once: the next key is for the row that this one moved to.
  useLayoutEffect(() => {
    if (!wantsFocus.current || focused === null) return;
    const row = box.current?.querySelector<HTMLElement>(`tr[data-key="${CSS.escape(focused)}"]`);
    if (row) {
      wantsFocus.current = false;
      row.focus({ preventScroll: true });
    }
  });

  function move(to: number): void {
    const element = box.current;
    let place = Math.max(0, Math.min(rows.length - 1, to));
    const step = to < rows.findIndex((row) => keyOf(row) === focused) ? -1 : 1;
    while (props.groupOf?.(rows[place] as Row) && rows[place + step]) place += step;
    const row = rows[place];
    if (!element || row === undefined) return;
    const head = element.querySelector("thead")?.clientHeight ?? 0;
    const top = place * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight - head)
      element.scrollTop = top + height - element.clientHeight + head;
    wantsFocus.current = true;
    setFocused(keyOf(row));
  }

  function onKey(event: KeyboardEvent, row: Row, place: number): void {
    if (event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor(view.height / height) - 2);
    const moves: Record<string, number> = {
      ArrowDown: place + 1, j: place + 1, ArrowUp: place - 1, k: place - 1,
      PageDown: place + page, PageUp: place - page, Home: 0, End: rows.length - 1,
    };
    const to = event.ctrlKey || event.metaKey || event.altKey ? undefined : moves[event.key];
    if (to !== undefined) move(to);
    else if (event.key === "Enter") props.onOpen?.(row);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
      props.onMenu?.(row, event.currentTarget as HTMLElement);
    else if (!props.onKey?.(row, event)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  const tracks = columns.map((column) => column.width).join(" ");
  return (
    <div class="grid fill" ref={box} style={{ "--columns": tracks, "--row": `${height}px` }}>
      <table aria-label={props.label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                class={column.isNumber ? "num" : undefined}
                aria-sort={column.sorted}
              >
                {column.onSort ? (
                  <button class="button" data-kind="plain" type="button" onClick={column.onSort}>
                    {column.title}
                    {column.sorted && (column.sorted === "ascending" ? " ↑" : " ↓")}
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody style={{ height: `${rows.length * height}px` }}>
          {rows.slice(first, last).map((row, offset) => {
            const place = first + offset;
            const key = keyOf(row);
            const group = props.groupOf?.(row) ?? null;
            const style = { transform: `translateY(${place * height}px)` };
            if (group !== null)
              return (
                <tr key={key} class="group" aria-rowindex={place + 2} style={style}>
                  <th scope="rowgroup" colSpan={columns.length} style={{ gridColumn: "1 / -1" }}>
                    {group}
                  </th>
                </tr>
              );
            return (
              <tr
                key={key}
                data-key={key}
                aria-rowindex={place + 2}
                aria-selected={props.isSelected?.(row)}
                tabIndex={key === focusable || (focusable === null && offset === 0) ? 0 : -1}
                style={style}
                onFocus={() => setFocused(key)}
                onKeyDown={(event) => onKey(event, row, place)}
                onClick={(event) => {
                  if (!(event.target as Element).closest("button, a, input, label")) props.onOpen?.(row);
                }}
                onContextMenu={(event) => props.onMenu?.(row, event)}
              >
                {columns.map((column) => (
                  <td key={column.key} class={column.isNumber ? "num" : undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length === 0 && props.empty}
    </div>
  );
}
