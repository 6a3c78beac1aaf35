/** More patterns than anybody writes by hand. */
const maxPatterns = 1000;
const maxPatternChars = 256;

interface Pattern {
  keep: boolean;
  segments: readonly string[];
}

/** What a `.dockerignore` leaves out. */
export interface IgnoreFile {
  /** Whether the entry itself is left out. */
  ignores(path: string): boolean;
  /** Whether something below an ignored folder may be kept after all. */
  readonly hasExceptions: boolean;
}

/**
 * Reads the common part of the `.dockerignore` language: one pattern per line, `#` comments, `!` exceptions, `*` and
 * `?` within a segment, `**` for any number of segments; the last match decides. Character classes are not read: such
 * a pattern leaves nothing out. Matching takes time proportional to pattern times path.
 * @throws RangeError when there are too many patterns or one is too long.
 */
export function ignoreFile(text: string): IgnoreFile {
  const patterns = text.split(/\r?\n/).flatMap(parse);
  if (patterns.length > maxPatterns) throw new RangeError(`.dockerignore has more than ${maxPatterns} patterns`);
  return {
    hasExceptions: patterns.some(({ keep }) => keep),
    ignores(path) {
      const parts = path.split('/');
      let ignored = false;
      for (const { keep, segments } of patterns) {
        if (keep === !ignored) continue;
        // A pattern that matches a folder matches all that is in it.
        if (parts.some((_, index) => matchesPath(segments, parts.slice(0, index + 1)))) ignored = !keep;
      }
      return ignored;
    },
  };
}

function parse(line: string): Pattern[] {
  const text = line.trim();
  if (text === '' || text.startsWith('#')) return [];
  if (text.length > maxPatternChars)
    throw new RangeError(`A pattern of .dockerignore is above ${maxPatternChars} characters`);
  const keep = text.startsWith('!');
  const segments = (keep ? text.slice(1).trim() : text).split('/').filter((part) => part !== '' && part !== '.');
  return segments.length === 0 || segments.some((part) => part === '..' || part.includes('['))
    ? []
    : [{ keep, segments }];
}

/** By the set of positions in the pattern that are reached: nothing is tried twice. */
function matchesPath(pattern: readonly string[], path: readonly string[]): boolean {
  let reached = closed(new Set([0]), pattern);
  for (const part of path) {
    const next = new Set<number>();
    for (const at of reached) {
      const segment = pattern[at];
      if (segment === undefined) continue;
      if (segment === '**') next.add(at);
      else if (matchesSegment(segment, part)) next.add(at + 1);
    }
    reached = closed(next, pattern);
  }
  return reached.has(pattern.length);
}

/** `**` also stands for no segment at all. */
function closed(reached: Set<number>, pattern: readonly string[]): Set<number> {
  for (const at of reached) if (pattern[at] === '**') reached.add(at + 1);
  return reached;
}

/** Greedy with one way back, which suffices where `*` is the only repetition. */
function matchesSegment(pattern: string, text: string): boolean {
  let at = 0;
  let star = -1;
  let resume = 0;
  for (let index = 0; index < text.length;) {
    if (at < pattern.length && (pattern[at] === '?' || pattern[at] === text[index]) && pattern[at] !== '*') {
      at += 1;
      index += 1;
    } else if (pattern[at] === '*') {
      star = at;
      resume = index;
      at += 1;
    } else if (star !== -1) {
      at = star + 1;
      resume += 1;
      index = resume;
    } else return false;
  }
  while (pattern[at] === '*') at += 1;
  return at === pattern.length;
}
