const sizes: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['k', 1024],
  ['m', 1024 ** 2],
  ['g', 1024 ** 3],
  ['t', 1024 ** 4],
]);

/** Bytes of a size as compose writes it: `512m`, `1.5gb`, `64kib`, `1048576`; `undefined` for any other text. */
export function parseBytes(text: string): number | undefined {
  const [, number, unit = ''] = /^(\d{1,15}(?:\.\d{1,9})?)\s?([kmgt]?)(?:i?b)?$/i.exec(text) ?? [];
  const factor = sizes.get(unit.toLowerCase());
  if (number === undefined || factor === undefined) return undefined;
  const bytes = Math.round(Number(number) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

const seconds: ReadonlyMap<string, number> = new Map([
  ['ns', 1e-9],
  ['us', 1e-6],
  ['µs', 1e-6],
  ['ms', 1e-3],
  ['s', 1],
  ['m', 60],
  ['h', 3600],
]);

/** Seconds of a time as compose writes it: `1m30s`, `500ms`, `1.5h`; `undefined` for any other text. */
export function parseSeconds(text: string): number | undefined {
  if (text === '0') return 0;
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h)){1,7}$/.test(text)) return undefined;
  let sum = 0;
  for (const [, number = '', unit = ''] of text.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g))
    sum += Number(number) * (seconds.get(unit) ?? 0);
  // 0.1s + 0.2s is not to be more than 300ms
  return Math.round(sum * 1e6) / 1e6;
}
