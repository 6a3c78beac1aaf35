/** A number of bytes in decimal units, such as `1.2MB`, as engines write it. */
export function byteSize(count: number): string {
  if (count < 1000) return `${Math.round(count)}B`;
  const step = Math.min(3, Math.floor(Math.log10(count) / 3));
  return `${(count / 1000 ** step).toFixed(1)}${['B', 'kB', 'MB', 'GB'][step] ?? 'B'}`;
}
