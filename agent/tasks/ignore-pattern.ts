import { segmentMatcher, type Segment } from './ignore-segment.ts';

/** Positions in a pattern that are reached after some folders; empty: it matches nothing below them. */
export type Reached = readonly number[];

/** Work that was done: a comparison of two characters is 1. */
export interface Work {
  steps: number;
}

/** What one position costs beside the comparison of its segment. */
const positionSteps = 8;
const maxSpellings = 16;

/**
 * One pattern of the `.dockerignore` language, cleaned. It is followed folder by folder with the set of all positions
 * that are reached, so that nothing is tried twice.
 */
export class IgnorePattern {
  /** `undefined`: any number of folders. */
  readonly #segments: readonly (Segment | undefined)[];
  /** When each position was last reached: no set is ever cleared. */
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
   * The patterns that a glob stands for together: more than one where `**` is only a part of a segment.
   * @throws RangeError for a class that cannot be read, and for too many of such `**`.
   */
  static of(glob: string): IgnorePattern[] {
    const spelled = spellings(glob);
    if (spelled.length > maxSpellings) throw new RangeError('has too many ** within segments');
    return spelled.map((one) => {
      // `**` at the end stands for one segment at least: what is in a folder, and not the folder.
      const segments = one.replace(/(?:^|\/)\*\*$/, '$&/*').split('/');
      return new IgnorePattern(segments.map((it) => (it === '**' ? undefined : segmentMatcher(it))));
    });
  }

  /** Positions after one more segment. */
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

  /** Whether these positions hold the end: of {@link start}, never. */
  matches(reached: Reached): boolean {
    return reached.includes(this.#segments.length);
  }

  /** Any number of folders may be none. */
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
 * Docker takes `a**b` for `ab`, or an `a…` with a `b` anywhere below it; `**b` for a `b` below any folders; and `a**` for `a*`,
 * which matches all that is below it too.
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

/** Where a `**` begins that is not a segment by itself. */
function inner(glob: string): number {
  for (const { 0: found, index } of glob.matchAll(/\\.|\*\*/gu)) {
    if (found !== '**') continue;
    const startsSegment = index === 0 || glob[index - 1] === '/';
    const endsSegment = index + 2 === glob.length || glob[index + 2] === '/';
    if (!startsSegment || !endsSegment) return index;
  }
  return -1;
}
