import { posix } from 'node:path';
import { IgnorePattern, type Reached } from './ignore-pattern.ts';
import { codePoints } from './ignore-segment.ts';

/** More patterns than a file written by hand has. */
const maxPatterns = 1000;
const maxPatternChars = 256;
/** A few seconds of one CPU: many times what 200 000 files need with 50 patterns that begin with `**`. */
const maxIgnoreSteps = 1_000_000_000;
/** A few milliseconds, during which nothing else of the agent runs. */
const stepsPerTurn = 500_000;

/** Decides what a `.dockerignore` leaves out, folder by folder as the build context is walked. */
export interface IgnoreFile {
  /** The folder that the patterns start from. */
  readonly top: IgnoreFolder;
  /** Steps taken so far, see `Work`. */
  readonly steps: number;
}

/** State of the patterns within one folder. */
export interface IgnoreFolder {
  /**
   * Evaluates the entry of that name. Yields to the event loop every few milliseconds.
   * @throws RangeError if all entries together took too many steps
   */
  entry(name: string): Promise<IgnoreEntry>;
}

export interface IgnoreEntry {
  readonly ignored: boolean;
  /** True if it is ignored and no exception can apply below it. */
  readonly isClosed: boolean;
  /** State of the patterns within it, if it is a folder. */
  below(): IgnoreFolder;
}

interface Rule {
  keep: boolean;
  pattern: IgnorePattern;
}

/** Patterns that may still match something below a folder, last pattern first. */
type Live = readonly { index: number; rule: Rule; reached: Reached }[];

/**
 * Reads the `.dockerignore` language as Docker does: one pattern per line, `#` at the start of a line for comments, `!`
 * for exceptions, `*`, `?` and `[a-z]` within a segment, `**` for any number of folders. Slashes at both ends are
 * ignored. A pattern that matches a folder also matches everything in it. The last match decides. A pattern that leads
 * out of the folder matches nothing.
 * @throws RangeError if there are too many patterns, or one is too long or cannot be read
 */
export function ignoreFile(text: string, maxSteps = maxIgnoreSteps): IgnoreFile {
  const rules = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .flatMap(parse);
  if (rules.length > maxPatterns) throw new RangeError(`.dockerignore has more than ${maxPatterns} patterns`);
  const work = { steps: 0 };
  let pausedAt = 0;

  const breathe = async (): Promise<void> => {
    pausedAt = work.steps;
    if (work.steps > maxSteps)
      throw new RangeError(
        '.dockerignore takes too long for the files of this repository: use fewer patterns, or fewer * in them',
      );
    await new Promise((resolve) => setImmediate(resolve));
  };

  /** @param decided index of the last rule that matches the folder, and so everything in it; -1 if there is none */
  const folder = (live: Live, decided: number): IgnoreFolder => ({
    async entry(name) {
      const points = codePoints(name);
      const next: Live[number][] = [];
      let last = decided;
      for (const { index, rule, reached: before } of live) {
        const reached = rule.pattern.follow(before, name, points, work);
        if (work.steps - pausedAt > stepsPerTurn || work.steps > maxSteps) await breathe();
        if (reached.length === 0) continue;
        if (rule.pattern.matches(reached)) {
          // Earlier rules have no effect any more, neither here nor below.
          last = index;
          break;
        }
        next.push({ index, rule, reached });
      }
      const ignored = rules[last]?.keep === false;
      return {
        ignored,
        isClosed: ignored && !next.some(({ rule }) => rule.keep),
        below: () => folder(next, last),
      };
    },
  });
  const all = rules.map((rule, index) => ({ index, rule, reached: rule.pattern.start })).toReversed();
  return {
    top: folder(all, -1),
    get steps() {
      return work.steps;
    },
  };
}

function parse(line: string): Rule[] {
  if (line.startsWith('#')) return [];
  const text = line.trim();
  if (text === '') return [];
  if (text.length > maxPatternChars)
    throw new RangeError(`A pattern of .dockerignore is above ${maxPatternChars} characters`);
  const keep = text.startsWith('!');
  const given = keep ? text.slice(1).trim() : text;
  if (given === '') throw new RangeError('.dockerignore has a ! without a pattern');
  const glob = posix.normalize(given).replace(/^\/|\/$/g, '');
  if (glob === '' || glob === '.' || glob === '..' || glob.startsWith('../')) return [];
  try {
    return IgnorePattern.of(glob).map((pattern) => ({ keep, pattern }));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new RangeError(`The pattern ${JSON.stringify(text)} of .dockerignore ${error.message}`, { cause: error });
  }
}
