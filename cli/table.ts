import { displayable } from '../api/streams/log-frames.ts';

/** Lines of one table that come one after another: as wide as the rows that were known at first, or wider from then on. */
export class Columns {
  readonly #widths: number[];

  constructor(rows: readonly (readonly string[])[]) {
    const count = Math.max(0, ...rows.map((row) => row.length));
    this.#widths = Array.from({ length: count }, (_, at) => Math.max(...rows.map((row) => (row[at] ?? '').length)));
  }

  line(row: readonly string[]): string {
    return row
      .map((cell, at) => {
        const width = Math.max(this.#widths[at] ?? 0, cell.length);
        this.#widths[at] = width;
        return at === row.length - 1 ? cell : cell.padEnd(width);
      })
      .join('   ')
      .trimEnd();
  }
}

/** Rows as aligned columns with a head in capitals; a cell is one line that leaves the terminal alone. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map((cell) => displayable(cell).replaceAll(/\s+/g, ' ')));
  const all = [head.map((it) => it.toUpperCase()), ...cells];
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
