const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** An amount of bytes in its largest unit, as `1.5 KiB`; a dash if it is not known. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return '-';
  const power = Math.min(units.length - 1, value < 1 ? 0 : Math.floor(Math.log2(value) / 10));
  const scaled = value / 1024 ** power;
  return `${power === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[power] ?? 'B'}`;
}
