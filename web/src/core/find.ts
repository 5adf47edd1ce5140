// Finding a text in rows of cells, as a terminal has them: a wide letter takes two.

export interface Found {
  row: number;
  column: number;
  /** In cells. */
  length: number;
}

/** The letters of a row, and the cell in which each begins. */
export interface CellRow {
  text: string;
  columns: number[];
}

/** The next (or previous) place of a text from a place on, whatever its case; behind the last row
    comes the first. */
export function findInRows(
  wanted: string,
  rowCount: number,
  rowAt: (row: number) => CellRow,
  from: { row: number; column: number },
  isBack: boolean,
): Found | null {
  if (wanted === "") return null;
  const needle = wanted.toLowerCase();
  for (let turn = 0; turn <= rowCount; turn++) {
    const row = (((from.row + (isBack ? -turn : turn)) % rowCount) + rowCount) % rowCount;
    const { text, columns } = rowAt(row);
    const places: number[] = [];
    const hay = text.toLowerCase();
    for (let at = hay.indexOf(needle); at >= 0; at = hay.indexOf(needle, at + 1)) places.push(at);
    const fits = (at: number) => {
      const column = columns[at] ?? at;
      return turn > 0 || (isBack ? column < from.column : column > from.column);
    };
    const at = isBack ? places.findLast(fits) : places.find(fits);
    if (at === undefined) continue;
    const column = columns[at] ?? at;
    const end = columns[at + needle.length] ?? column + needle.length;
    return { row, column, length: end - column };
  }
  return null;
}
