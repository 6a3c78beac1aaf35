/** Amount of work done: a comparison of two characters is one step. */
export interface Work {
  steps: number;
}

/** Tests if a name, given as text and as code points, matches. */
export type Segment = (name: string, points: readonly number[], work: Work) => boolean;

/** Tokens are negative, in contrast to code points. */
const one = -1;
const star = -2;
/** The class with index `firstClass - token`. */
const firstClass = -3;

interface Class {
  negated: boolean;
  ranges: readonly (readonly [from: number, to: number])[];
}

/**
 * Makes the matcher of one segment of a pattern: `*`, `?`, `[a-z]`, and `\` before a character that means itself.
 * @throws RangeError for a class that cannot be read
 */
export function segmentMatcher(glob: string): Segment {
  if (!/[*?[\\]/.test(glob)) {
    return (name, _points, work) => {
      work.steps += 1;
      return name === glob;
    };
  }
  const { tokens, classes } = compile(codePoints(glob));
  return (_name, points, work) => matches(tokens, classes, points, work);
}

export function codePoints(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0);
}

/**
 * Matches greedily and goes back only to the last `*`, which is enough as `*` is the only repetition. It takes at most
 * name length times pattern length steps.
 */
function matches(tokens: Int32Array, classes: readonly Class[], name: readonly number[], work: Work): boolean {
  let at = 0;
  let back = -1;
  let resume = 0;
  for (let index = 0; index < name.length;) {
    work.steps += 1;
    const token = tokens[at];
    if (token === star) {
      at += 1;
      back = at;
      resume = index;
      if (at === tokens.length) return true;
    } else if (token !== undefined && takes(token, classes, name[index] ?? 0)) {
      at += 1;
      index += 1;
    } else if (back !== -1) {
      at = back;
      resume += 1;
      index = resume;
    } else return false;
  }
  while (tokens[at] === star) at += 1;
  return at === tokens.length;
}

function takes(token: number, classes: readonly Class[], point: number): boolean {
  if (token >= 0) return token === point;
  if (token === one) return true;
  const found = classes[firstClass - token];
  return found !== undefined && found.negated !== found.ranges.some(([from, to]) => point >= from && point <= to);
}

function compile(points: readonly number[]): { tokens: Int32Array; classes: readonly Class[] } {
  const tokens: number[] = [];
  const classes: Class[] = [];
  for (let at = 0; at < points.length;) {
    const point = points[at] ?? 0;
    if (point === 0x5b) {
      const { end, ...found } = classAt(points, at);
      tokens.push(firstClass - classes.length);
      classes.push(found);
      at = end;
    } else if (point === 0x5c && at + 1 < points.length) {
      tokens.push(points[at + 1] ?? 0);
      at += 2;
    } else {
      tokens.push(point === 0x2a ? star : point === 0x3f ? one : point);
      at += 1;
    }
  }
  return { tokens: Int32Array.from(tokens), classes };
}

/** Parses a class: `[abc]`, `[a-z]` or `[^a-z]`. A character after `\` means itself. */
function classAt(points: readonly number[], start: number): Class & { end: number } {
  const ranges: [number, number][] = [];
  let at = start + 1;
  const negated = points[at] === 0x5e;
  if (negated) at += 1;
  const next = (): number => {
    if (points[at] === 0x5c) at += 1;
    const point = points[at];
    if (point === undefined || (point === 0x2d && points[at - 1] !== 0x5c))
      throw new RangeError('has a character class that cannot be read');
    at += 1;
    return point;
  };
  while (ranges.length === 0 || points[at] !== 0x5d) {
    const from = next();
    const isRange = points[at] === 0x2d;
    if (isRange) at += 1;
    ranges.push([from, isRange ? next() : from]);
  }
  return { negated, ranges, end: at + 1 };
}
