import { segmentMatcher, type Segment, type Work } from './ignore-segment.ts';

/** Positions in a pattern that are reached after some folders; if empty, the pattern matches nothing below them. */
export type Reached = readonly number[];

/** Steps that one position costs in addition to the comparison of its segment. */
const positionSteps = 8;
const maxSpellings = 16;

/**
 * One normalised pattern of the `.dockerignore` language. It is followed folder by folder with the set of all reached
 * positions, so that nothing is tried twice.
 */
export class IgnorePattern {
  /** `undefined`: any number of folders. */
  readonly #segments: readonly (Segment | undefined)[];
  /** Turn in which each position was last reached, so that no set needs to be cleared. */
  readonly #seen: Uint32Array;
  #turn = 0;
  readonly start: Reached;

  private constructor(segments: readonly (Segment | undefined)[]) {
    this.#segments = segments;
    this.#seen = new Uint32Array(segments.length + 1);
    this.#turn = 1;
    this.start = this.#reach(0, []);
  }

  /**
   * Returns the patterns that together mean the same as a glob: more than one if `**` is only a part of a segment.
   * @throws RangeError for a class that cannot be read, and for too many such `**`
   */
  static of(glob: string): IgnorePattern[] {
    const spelled = spellings(glob);
    if (spelled.length > maxSpellings) throw new RangeError('has too many ** within segments');
    return spelled.map((one) => {
      // `**` at the end stands for at least one segment: the content of a folder, not the folder.
      const segments = one.replace(/(?:^|\/)\*\*$/, '$&/*').split('/');
      return new IgnorePattern(segments.map((it) => (it === '**' ? undefined : segmentMatcher(it))));
    });
  }

  /** Returns the positions after one more segment. */
  follow(from: Reached, name: string, points: readonly number[], work: Work): Reached {
    this.#turn += 1;
    const reached: number[] = [];
    work.steps += from.length * positionSteps;
    for (const at of from) {
      if (at === this.#segments.length) continue;
      const segment = this.#segments[at];
      if (segment === undefined) this.#reach(at, reached);
      else if (segment(name, points, work)) this.#reach(at + 1, reached);
    }
    return reached;
  }

  /** True if these positions include the end of the pattern; never true for {@link start}. */
  matches(reached: Reached): boolean {
    return reached.includes(this.#segments.length);
  }

  /** Adds a position, and the next one after `**`, which may also stand for no folder. */
  #reach(at: number, reached: number[]): number[] {
    for (let next = at; this.#seen[next] !== this.#turn; next += 1) {
      this.#seen[next] = this.#turn;
      reached.push(next);
      if (next === this.#segments.length || this.#segments[next] !== undefined) break;
    }
    return reached;
  }
}

/**
 * Rewrites a `**` within a segment as Docker reads it. `a**b` means `ab`, or an `a…` with a `b` anywhere below it.
 * `**b` means a `b` below any folders. `a**` means `a*`, which also matches everything below it.
 */
function spellings(glob: string): string[] {
  const at = inner(glob);
  if (at === -1) return [glob];
  const before = glob.slice(0, at);
  const after = glob.slice(at).replace(/^\*\*\/?/, '');
  if (after === '') return spellings(`${before}*`);
  if (before === '' || before.endsWith('/')) return spellings(`${before}**/${after}`);
  return [...spellings(`${before}${after}`), ...spellings(`${before}*/**/${after}`)].slice(0, maxSpellings + 1);
}

/** Returns the index of the first `**` that is not a whole segment; -1 if there is none. */
function inner(glob: string): number {
  for (const { 0: found, index } of glob.matchAll(/\\.|\*\*/gu)) {
    if (found !== '**') continue;
    const startsSegment = index === 0 || glob[index - 1] === '/';
    const endsSegment = index + 2 === glob.length || glob[index + 2] === '/';
    if (!startsSegment || !endsSegment) return index;
  }
  return -1;
}
