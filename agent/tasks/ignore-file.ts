import { posix } from 'node:path';
import { IgnorePattern, type Reached } from './ignore-pattern.ts';
import { codePoints } from './ignore-segment.ts';

/** More patterns than anybody writes by hand. */
const maxPatterns = 1000;
const maxPatternChars = 256;
/** A few seconds of one CPU: many times what 200,000 files need with 50 patterns that begin with `**`. */
const maxIgnoreSteps = 1_000_000_000;
/** A few milliseconds: so long nothing else of the agent runs. */
const stepsPerTurn = 500_000;

/** What a `.dockerignore` leaves out, asked folder by folder as the build context is walked. */
export interface IgnoreFile {
  /** Of the folder whose entries the patterns are about. */
  readonly top: IgnoreFolder;
  /** Work that was done so far. */
  readonly steps: number;
}

/** What is known of the patterns within one folder. */
export interface IgnoreFolder {
  /**
   * The entry of that name. Gives the event loop a turn every few milliseconds.
   * @throws RangeError when all entries together took too many steps.
   */
  entry(name: string): Promise<IgnoreEntry>;
}

export interface IgnoreEntry {
  readonly ignored: boolean;
  /** Nothing below it can be kept after all. */
  readonly isClosed: boolean;
  /** What is known within it, should it be a folder. */
  below(): IgnoreFolder;
}

interface Rule {
  keep: boolean;
  pattern: IgnorePattern;
}

/** Patterns that may still match something below a folder, the later ones first. */
type Live = readonly { index: number; rule: Rule; reached: Reached }[];

/**
 * Reads the `.dockerignore` language as Docker does: one pattern per line, `#` at the start of a line for comments, `!`
 * for exceptions, `*`, `?` and `[a-z]` within a segment, `**` for any number of folders; slashes at both ends mean
 * nothing, a pattern that matches a folder matches all that is in it, and the last match decides. A pattern that leads
 * out of the folder matches nothing.
 * @throws RangeError when there are too many patterns, or one is too long or cannot be read.
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

  /** @param decided the last rule that matches the folder, and so all that is in it. */
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
          // Earlier rules decide nothing any more, neither here nor below.
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
