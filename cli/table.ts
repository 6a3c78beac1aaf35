/** Rows as aligned columns with a head in capitals. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head.map((it) => it.toUpperCase()), ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all
    .map((row) =>
      row
        .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
        .join('   ')
        .trimEnd(),
    )
    .join('\n');
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
