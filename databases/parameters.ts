/**
 * A setting of an engine that users may give. Values are texts. Sizes have a unit, `k`, `m` or `g`, as the limits of a
 * container; times are milliseconds.
 */
export type Parameter =
  | { type: 'number'; least: number; most: number; digits?: number }
  /** `isReserved`: the engine may take all of it, so that it must fit into the memory of its container. */
  | { type: 'size'; least: number; most: number; isReserved?: true }
  /** `off`: -1 is no time at all. */
  | { type: 'milliseconds'; least: number; most: number; off?: true }
  | { type: 'choice'; values: readonly string[] }
  /** Any of them, with commas between them, or none. */
  | { type: 'list'; values: readonly string[] };

export type Parameters = Readonly<Record<string, Parameter | undefined>>;
export type Values = Readonly<Record<string, string>>;

export const kib = 1024;
export const mib = 1024 ** 2;
export const gib = 1024 ** 3;

const units: Readonly<Record<string, number | undefined>> = { k: kib, m: mib, g: gib };

/** Part of the memory of a container that parameters may reserve: the rest is for connections and the engine itself. */
const reservable = 0.75;

/** What is wrong with a value, as a sentence about it; `undefined`: nothing. */
export function faultOf(parameter: Parameter, value: string): string | undefined {
  switch (parameter.type) {
    case 'number':
      return numberFault(parameter, value);
    case 'milliseconds': {
      const { least, most, off } = parameter;
      if (off === true && value === '-1') return undefined;
      if (isWithin(/^\d{1,12}$/.test(value) ? Number(value) : undefined, parameter)) return undefined;
      return `Must be milliseconds, ${least} to ${most}${off === true ? ', or -1 for none' : ''}`;
    }
    case 'size': {
      const { least, most } = parameter;
      return isWithin(bytesOf(value), parameter)
        ? undefined
        : `Must be a whole size such as 64m, ${inWords(least)} to ${inWords(most)}`;
    }
    case 'choice':
      return parameter.values.includes(value) ? undefined : `Must be one of ${parameter.values.join(', ')}`;
    case 'list': {
      const parts = value === '' ? [] : value.split(',');
      return parts.every((part) => parameter.values.includes(part)) && new Set(parts).size === parts.length
        ? undefined
        : `Must have commas between some of ${parameter.values.join(', ')}, each once`;
    }
  }
}

/** A value as an engine takes it whose own units mean other things: sizes in bytes. */
export function plainValue(parameter: Parameter | undefined, value: string): string {
  return parameter?.type === 'size' ? String(bytesOf(value) ?? 0) : value;
}

/**
 * Why values do not fit into the memory of a container, naming one of them; `undefined`: they do. What an engine does at once
 * or only under load is the same here: it is killed where it takes more than it may.
 */
export function memoryFault(
  parameters: Parameters,
  values: Values,
  limitBytes: number,
): { name: string; fault: string } | undefined {
  const reserved = Object.entries(values).flatMap(([name, value]) => {
    const parameter = parameters[name];
    return parameter?.type === 'size' && parameter.isReserved === true ? [{ name, bytes: bytesOf(value) ?? 0 }] : [];
  });
  const most = Math.floor(limitBytes * reservable);
  const largest = reserved.toSorted((a, b) => b.bytes - a.bytes)[0];
  if (largest === undefined || reserved.reduce((sum, { bytes }) => sum + bytes, 0) <= most) return undefined;
  return { name: largest.name, fault: `Must leave a quarter of memory_limit free: at most ${inWords(most)}` };
}

function numberFault({ least, most, digits = 0 }: Extract<Parameter, { type: 'number' }>, value: string) {
  const pattern = digits === 0 ? /^\d{1,15}$/ : new RegExp(`^\\d{1,9}(\\.\\d{1,${digits}})?$`);
  if (isWithin(pattern.test(value) ? Number(value) : undefined, { least, most })) return undefined;
  const what = digits === 0 ? 'a whole number' : `a number with at most ${digits} digits after the point`;
  return `Must be ${what}, ${least} to ${most}`;
}

function isWithin(value: number | undefined, { least, most }: { least: number; most: number }): boolean {
  return value !== undefined && value >= least && value <= most;
}

/** Bytes of a size such as `64m`; without a unit, `0` alone is one. */
function bytesOf(text: string): number | undefined {
  if (text === '0') return 0;
  const unit = units[text.at(-1) ?? ''];
  return unit !== undefined && /^\d{1,9}[kmg]$/.test(text) ? Number(text.slice(0, -1)) * unit : undefined;
}

function inWords(bytes: number): string {
  for (const [unit, of] of [
    ['g', gib],
    ['m', mib],
  ] as const)
    if (bytes >= of && bytes % of === 0) return `${bytes / of}${unit}`;
  return bytes === 0 ? '0' : `${Math.floor(bytes / kib)}k`;
}
