/** A version with up to three numbers. */
const numbers = /(\d{1,4})(?:\.(\d{1,4}|x|\*))?(?:\.(\d{1,6}|x|\*))?/;

/** `MAJOR` or `MAJOR.MINOR` of the first version in a text, such as `v20.11.1`; `undefined` if it has none. */
export function pinned(text: string): string | undefined {
  const [, major, minor] = numbers.exec(text.trim()) ?? [];
  if (major === undefined) return undefined;
  return minor === undefined || !/^\d+$/.test(minor) ? major : `${major}.${minor}`;
}

/**
 * The version that a range asks for: `usual` if the range admits it, otherwise the newest that it names, as `MAJOR` or
 * `MAJOR.MINOR` like `usual`. What cannot be read counts as no range.
 */
export function within(range: string, usual: string): string {
  const parts = range.slice(0, 500).split(/\|\|?/);
  const each = parts.map((part) => newestOf(part, usual)).filter((it) => it !== undefined);
  if (each.length === 0 || each.includes(usual)) return usual;
  return each.toSorted((a, b) => compare(b, a))[0] ?? usual;
}

interface Bound {
  operator: string;
  version: string;
  /** How many numbers it was given with. */
  given: number;
}

/** `18 - 22`, with both. */
const hyphen = /^\s*v?(\d[\d.x*]*)\s+-\s+v?(\d[\d.x*]*)\s*$/;

function newestOf(part: string, usual: string): string | undefined {
  const bounds = [
    ...part.replace(hyphen, '>=$1 <=$2').matchAll(/(>=|<=|==|~=|~>|<|>|\^|~|=|!=)?\s*v?(\d[\d.x*]*)/g),
  ].map(([, operator = '', text = '']): Bound => {
    const words = text.split('.').filter((one) => /^\d{1,6}$/.test(one));
    return { operator, version: shaped(words, usual), given: words.length };
  });
  const needed = bounds.filter(({ operator, given }) => given > 0 && operator !== '!=');
  if (needed.length === 0) return undefined;
  if (needed.every((bound) => admits(bound, usual))) return usual;
  const upper = needed.find(({ operator }) => operator === '<' || operator === '<=');
  const lower = needed.find(({ operator }) => operator !== '<' && operator !== '<=');
  const last = upper?.operator === '<' ? before(upper.version) : upper?.version;
  if (last !== undefined) return lower === undefined || compare(last, lower.version) >= 0 ? last : lower.version;
  return (lower ?? needed[0])?.version;
}

function admits({ operator, version, given }: Bound, usual: string): boolean {
  const order = compare(usual, version);
  const sameMajor = usual.split('.')[0] === version.split('.')[0];
  switch (operator) {
    case '>=':
      return order >= 0;
    case '>':
      return order > 0;
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '^':
      return sameMajor && order >= 0;
    case '~=':
    case '~>':
      return given <= 2 ? sameMajor && order >= 0 : order === 0;
    default:
      return given === 1 ? sameMajor : order === 0;
  }
}

/** The version before one, in its last number; `undefined` if that is 0. */
function before(version: string): string | undefined {
  const [major = 0, minor] = version.split('.').map(Number);
  if (minor === undefined) return major > 0 ? String(major - 1) : undefined;
  return minor > 0 ? `${major}.${minor - 1}` : undefined;
}

/** The version with as many numbers as `usual`. */
function shaped(words: readonly string[], usual: string): string {
  return usual
    .split('.')
    .map((_, at) => String(Number(words[at] ?? '0')))
    .join('.');
}

function compare(a: string, b: string): number {
  const [left, right] = [a.split('.').map(Number), b.split('.').map(Number)];
  for (const [at, one] of left.entries()) {
    const difference = one - (right[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
