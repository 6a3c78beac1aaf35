import { visible } from '../store/visible.ts';

const gap = '   ';
/** Least width of a column that is cut: a narrower one would be useless. */
const leastWidth = 8;
/** Columns that are never cut: ids are copied, and messages and values must be complete. */
const whole: ReadonlySet<string> = new Set(['id', 'message', 'key', 'value']);

/**
 * Formats the rows of a table one after another. A column is as wide as in the first rows, and widens for a wider cell.
 * On a screen of `columns` characters, the widest columns are cut until a line fits.
 */
export class Columns {
  readonly #widths: number[];
  readonly #isCut: boolean[];

  constructor(rows: readonly (readonly string[])[], columns = process.stdout.columns as number | undefined) {
    const [head = []] = rows;
    const count = Math.max(0, ...rows.map((row) => row.length));
    this.#widths = Array.from({ length: count }, (_, at) => Math.max(...rows.map((row) => (row[at] ?? '').length)));
    this.#isCut = this.#widths.map(() => false);
    if (columns !== undefined) this.#shrink(columns, head);
  }

  #shrink(columns: number, head: readonly string[]): void {
    const mayShrink = this.#widths.map((_, at) => !whole.has((head[at] ?? '').toLowerCase()));
    const room = columns - gap.length * (this.#widths.length - 1);
    for (;;) {
      const used = this.#widths.reduce((sum, width) => sum + width, 0);
      const widest = Math.max(...this.#widths.filter((width, at) => mayShrink[at] === true && width > leastWidth), 0);
      if (used <= room || widest === 0) return;
      const at = this.#widths.findIndex((width, index) => width === widest && mayShrink[index] === true);
      this.#widths[at] = widest - 1;
      this.#isCut[at] = true;
    }
  }

  line(row: readonly string[]): string {
    return row
      .map((cell, at) => {
        const known = this.#widths[at] ?? 0;
        if (this.#isCut[at] === true) return cut(cell, known).padEnd(known);
        const width = Math.max(known, cell.length);
        this.#widths[at] = width;
        return at === row.length - 1 ? cell : cell.padEnd(width);
      })
      .join(gap)
      .trimEnd();
  }
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

/** Text of other users as one line, without control characters and without characters that reorder text. */
export function cell(text: string): string {
  return visible(text.replaceAll(/\s+/g, ' '));
}

/** Rows as aligned columns, with a head in capitals. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head.map((it) => it.toUpperCase()), ...rows.map((row) => row.map(cell))];
  const columns = new Columns(all);
  return all.map((row) => columns.line(row)).join('\n');
}

/** Time since an instant, in its largest unit: `42s`, `7m`, `3h`, `12d`. */
export function age(from: string | undefined, now: Date): string {
  if (from === undefined) return '';
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(from)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
