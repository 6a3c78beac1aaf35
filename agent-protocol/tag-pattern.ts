/** Longest pattern, and longest name of a tag that is looked at. */
export const tagLimits = { patternChars: 200, nameChars: 255 } as const;

/** A version as semver.org defines it, at the end of a name: `v1.2.3`, `web-1.2.3-rc.1+build`. */
const identifier = '(?:0|[1-9]\\d*|\\d*[A-Za-z-][0-9A-Za-z-]*)';
const numeric = '(0|[1-9]\\d*)';
const versionForm = new RegExp(
  `(?<![0-9.])${numeric}\\.${numeric}\\.${numeric}(?:-(?<pre>${identifier}(?:\\.${identifier})*))?(?:\\+[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?$`,
);

interface Version {
  numbers: readonly string[];
  /** Identifiers of a pre-release; none: it is a release. */
  pre: readonly string[];
  /** Where in the name the `-` of the pre-release is. */
  dashAt: number | undefined;
}

function versionOf(tag: string): Version | undefined {
  const match = tag.length <= tagLimits.nameChars ? versionForm.exec(tag) : null;
  if (match === null) return undefined;
  const numbers = match.slice(1, 4);
  const pre = match.groups?.['pre'];
  const dashAt = pre === undefined ? undefined : match.index + numbers.join('.').length;
  return { numbers, pre: pre?.split('.') ?? [], dashAt };
}

/** Whether the name of a tag is of the pattern: `*` stands for any characters and `?` for one, neither for a slash. */
export function matchesTag(pattern: string, tag: string): boolean {
  const [parts, names] = [pattern.split('/'), tag.split('/')];
  return parts.length === names.length && parts.every((part, at) => matchesPart(part, names[at] ?? ''));
}

/** Goes back to the last `*` alone, so that no pattern takes long. */
function matchesPart(pattern: string, name: string): boolean {
  let [at, from] = [0, 0];
  let star: { at: number; from: number } | undefined;
  while (from < name.length) {
    if (pattern[at] === '*') {
      star = { at, from };
      at += 1;
    } else if (at < pattern.length && (pattern[at] === '?' || pattern[at] === name[from])) {
      at += 1;
      from += 1;
    } else {
      if (star === undefined) return false;
      star.from += 1;
      [at, from] = [star.at + 1, star.from];
    }
  }
  return /^\**$/.test(pattern.slice(at));
}

/** Whether the pattern has the `-` before a pre-release itself: `v1.*-rc.*` has, `v1.*` has not. */
function namesPreRelease(pattern: string, tag: string, dashAt: number): boolean {
  for (let at = pattern.indexOf('-'); at !== -1; at = pattern.indexOf('-', at + 1))
    if (matchesTag(pattern.slice(0, at), tag.slice(0, dashAt)) && matchesTag(pattern.slice(at), tag.slice(dashAt)))
      return true;
  return false;
}

/** Numbers have no zero before them: the longer one is the greater. */
function compareNumbers(one: string, other: string): number {
  return one.length - other.length || compareTexts(one, other);
}

function compareTexts(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

function comparePreReleases(one: readonly string[], other: readonly string[]): number {
  if (one.length === 0 || other.length === 0) return other.length - one.length;
  for (const [at, a] of one.entries()) {
    const b = other[at];
    if (b === undefined) return 1;
    const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)];
    const order =
      isNumber && isOtherNumber ? compareNumbers(a, b) : isNumber ? -1 : isOtherNumber ? 1 : compareTexts(a, b);
    if (order !== 0) return order;
  }
  return one.length - other.length;
}

/** Less than 0: the version of the first tag comes before that of the second; of the same version, its name does. */
export function compareTags(one: string, other: string): number {
  const [a, b] = [versionOf(one), versionOf(other)];
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined);
  for (const [at, number] of a.numbers.entries()) {
    const order = compareNumbers(number, b.numbers[at] ?? '');
    if (order !== 0) return order;
  }
  return comparePreReleases(a.pre, b.pre) || compareTexts(one, other);
}

/**
 * The newest of the tags that are of the pattern, by its version; pre-releases only where the pattern names them. `matching`
 * counts those of the pattern, also without a version. Pure: the order of the tags is of no account.
 */
export function newestOf(pattern: string, tags: Iterable<string>): { tag: string | undefined; matching: number } {
  let tag: string | undefined;
  let matching = 0;
  for (const one of tags) {
    if (!matchesTag(pattern, one)) continue;
    matching += 1;
    const version = versionOf(one);
    if (version === undefined) continue;
    if (version.dashAt !== undefined && !namesPreRelease(pattern, one, version.dashAt)) continue;
    if (tag === undefined || compareTags(one, tag) > 0) tag = one;
  }
  return { tag, matching };
}
