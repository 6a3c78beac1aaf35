/** Addresses from which an engine gives each network a range of `size` bits. */
export interface Pool {
  base: string;
  size: number;
}

interface Range {
  first: number;
  last: number;
}

/** Most networks of a pool that are counted: more need no judgement. */
const mostCounted = 4096;

/** How many networks the pools have room for, and how many of these ranges overlap none of those taken. IPv4 only. */
export function usableSubnets(pools: readonly Pool[], taken: readonly string[]): { total: number; free: number } {
  const ranges = taken.flatMap((subnet) => rangeOf(subnet) ?? []);
  const all = pools.flatMap(subnetsOf);
  const free = all.filter((one) => !ranges.some((it) => it.first <= one.last && one.first <= it.last));
  return { total: all.length, free: free.length };
}

function subnetsOf({ base, size }: Pool): Range[] {
  const whole = rangeOf(base);
  if (whole === undefined || size < 1 || size > 32) return [];
  const step = 2 ** (32 - size);
  const count = Math.min(mostCounted, Math.floor((whole.last - whole.first + 1) / step));
  return Array.from({ length: count }, (_, n) => {
    const first = whole.first + n * step;
    return { first, last: first + step - 1 };
  });
}

/** The addresses of `10.0.0.0/8` as numbers; `undefined` for a text that is not a range of IPv4. */
function rangeOf(subnet: string): Range | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(subnet);
  if (match === null) return undefined;
  const [a = 0, b = 0, c = 0, d = 0, bits = 0] = match.slice(1).map(Number);
  const length = 2 ** (32 - bits);
  const address = ((a * 256 + b) * 256 + c) * 256 + d;
  const first = address - (address % length);
  return { first, last: first + length - 1 };
}
