const byteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;
const kib = 1024;

/** A number of bytes in binary units, with at most one digit after the point. */
export function bytesText(bytes: number): string {
  const size = Math.abs(bytes);
  let unit = 0;
  let value = size;
  while (value >= kib && unit < byteUnits.length - 1) {
    value /= kib;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${bytes < 0 ? '−' : ''}${value.toFixed(digits)} ${byteUnits[unit] ?? ''}`;
}

const factors: Readonly<Record<string, number>> = { b: 1, k: kib, m: kib ** 2, g: kib ** 3, t: kib ** 4 };
const memory = /^(?<count>\d{1,12}(?:[.,]\d{1,6})?)\s*(?<unit>[bkmgt]?)(?:i?b)?$/i;

/** The bytes that a text such as `512m`, `1.5g` or `512 MB` means; `undefined` for another text. */
export function parseBytes(text: string): number | undefined {
  const groups = memory.exec(text.trim())?.groups;
  if (groups === undefined) return undefined;
  const factor = factors[(groups['unit'] ?? '').toLowerCase()] ?? 1;
  return Math.round(Number((groups['count'] ?? '').replace(',', '.')) * factor);
}

/** The least memory that the engine gives to a container. */
export const leastMemoryBytes = 6 * kib ** 2;

/** A text for memory as the API takes it, such as `512m`; `undefined` for a text that means no memory. */
export function memoryValue(text: string): string | undefined {
  const bytes = parseBytes(text);
  if (bytes === undefined) return undefined;
  for (const unit of ['g', 'm', 'k'] as const) {
    const factor = factors[unit] ?? 1;
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return `${bytes}b`;
}

export const cpuLimits = { least: 0.01, most: 256 } as const;

/** The cores that a text such as `0.5`, `2` or `500m` means; `undefined` outside of 0.01 to 256. */
export function parseCpu(text: string): number | undefined {
  const found = /^(?<count>\d{1,6}(?:[.,]\d{1,6})?)(?<milli>m?)$/.exec(text.trim())?.groups;
  if (found === undefined) return undefined;
  const cores = Number((found['count'] ?? '').replace(',', '.')) / (found['milli'] === 'm' ? 1000 : 1);
  return cores >= cpuLimits.least && cores <= cpuLimits.most ? cores : undefined;
}

const durationUnits: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** The seconds that a text such as `30s`, `15m`, `1h 30m` or `7d` means; `undefined` for another text. */
export function parseDuration(text: string): number | undefined {
  const parts = text.trim().toLowerCase();
  if (/^\d{1,9}$/.test(parts)) return Number(parts);
  if (!/^(?:\d{1,9}\s*(?:w|d|h|min|m|s)\s*)+$/.test(parts)) return undefined;
  let seconds = 0;
  for (const [, count = '', unit = ''] of parts.matchAll(/(\d+)\s*(w|d|h|min|m|s)/g))
    seconds += Number(count) * (durationUnits[unit === 'min' ? 'm' : unit] ?? 0);
  return seconds;
}

/** Seconds as a text that `parseDuration` reads, such as `1h 30m`. */
export function durationValue(seconds: number): string {
  if (seconds === 0) return '0s';
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, size] of [
    ['d', 86_400],
    ['h', 3600],
    ['m', 60],
    ['s', 1],
  ] as const) {
    const count = Math.floor(rest / size);
    if (count > 0) parts.push(`${count}${unit}`);
    rest -= count * size;
  }
  return parts.join(' ');
}

/** A share of one as a percentage without digits after the point. */
export function percentText(percent: number): string {
  return `${Math.round(percent)} %`;
}
