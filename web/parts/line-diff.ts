/** One row of the difference of two texts. The numbers are those of the lines before and after. */
export interface DiffLine {
  readonly kind: 'same' | 'added' | 'removed';
  readonly text: string;
  readonly before?: number;
  readonly after?: number;
}

/** Lines that did not change, of which only a count is shown. */
export interface DiffFold {
  readonly kind: 'fold';
  readonly lines: readonly DiffLine[];
}

/** A difference of larger parts is shown as all of one and then all of the other: the table would take seconds. */
const mostCells = 4_000_000;

/** The difference of two texts by line. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const rows: DiffLine[] = [];
  const same = (at: number, to: number): void => {
    rows.push({ kind: 'same', text: old[at] ?? '', before: at + 1, after: to + 1 });
  };
  for (let at = 0; at < start; at += 1) same(at, at);
  rows.push(...middle(old.slice(start, old.length - end), now.slice(start, now.length - end), start));
  for (let at = end; at > 0; at -= 1) same(old.length - at, now.length - at);
  return rows;
}

function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The part between what both texts begin and end with, by the longest common subsequence. */
function middle(old: readonly string[], now: readonly string[], offset: number): DiffLine[] {
  const rows: DiffLine[] = [];
  const removed = (at: number): void => {
    rows.push({ kind: 'removed', text: old[at] ?? '', before: offset + at + 1 });
  };
  const added = (to: number): void => {
    rows.push({ kind: 'added', text: now[to] ?? '', after: offset + to + 1 });
  };
  const width = now.length + 1;
  const isSmall = (old.length + 1) * width <= mostCells;
  const table = isSmall ? lengths(old, now) : new Uint32Array(0);
  const lengthAt = (at: number, to: number): number => table[at * width + to] ?? 0;
  let [at, to] = [0, 0];
  while (at < old.length || to < now.length) {
    if (isSmall && at < old.length && to < now.length && old[at] === now[to]) {
      rows.push({ kind: 'same', text: old[at] ?? '', before: offset + at + 1, after: offset + to + 1 });
      at += 1;
      to += 1;
    } else if (at < old.length && (to >= now.length || lengthAt(at + 1, to) >= lengthAt(at, to + 1))) {
      removed(at);
      at += 1;
    } else {
      added(to);
      to += 1;
    }
  }
  return rows;
}

/** At `at * width + to`: how long the longest common subsequence of the rests from `at` and `to` is. */
function lengths(old: readonly string[], now: readonly string[]): Uint32Array {
  const width = now.length + 1;
  const table = new Uint32Array((old.length + 1) * width);
  for (let at = old.length - 1; at >= 0; at -= 1)
    for (let to = now.length - 1; to >= 0; to -= 1)
      table[at * width + to] =
        old[at] === now[to]
          ? (table[(at + 1) * width + to + 1] ?? 0) + 1
          : Math.max(table[(at + 1) * width + to] ?? 0, table[at * width + to + 1] ?? 0);
  return table;
}

/** Folds long runs of equal lines, so that `context` of them stay beside each change. */
export function folded(rows: readonly DiffLine[], context = 3): (DiffLine | DiffFold)[] {
  const near = new Set<number>();
  for (const [at, row] of rows.entries())
    if (row.kind !== 'same') for (let by = -context; by <= context; by += 1) near.add(at + by);
  const shown: (DiffLine | DiffFold)[] = [];
  let run: DiffLine[] = [];
  const endRun = (): void => {
    if (run.length > 1) shown.push({ kind: 'fold', lines: run });
    else shown.push(...run);
    run = [];
  };
  for (const [at, row] of rows.entries())
    if (near.has(at)) {
      endRun();
      shown.push(row);
    } else run.push(row);
  endRun();
  return shown;
}
