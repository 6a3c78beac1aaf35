/**
 * The language of `watch_paths`: patterns separated by newline or comma. Each matches the whole path of a file from the
 * repository's root, whether or not it begins with a slash. `*` stands for any characters within a segment, `**` for
 * any across segments (`**` and a slash at the start of a segment also for nothing), `?` for one character that is no
 * slash; `!` in front excludes. Every other character stands for itself.
 */
export interface WatchPattern {
  glob: string;
  excludes: boolean;
}

export const watchPathLimits = { patterns: 32, bytes: 256, doubleStars: 2 } as const;
/** Length of the longest text within the limits: a line break of two characters follows every pattern. */
export const maxWatchPathsChars = watchPathLimits.patterns * (watchPathLimits.bytes + 2);

const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/** Reads the patterns; `fault` describes the first wrong one. Space around a pattern does not count. */
export function parseWatchPaths(text: string): { patterns: WatchPattern[] } | { fault: string } {
  if (text.length > maxWatchPathsChars) return { fault: `Must have at most ${maxWatchPathsChars} characters` };
  const written = text
    .split(/[\n,]/)
    .map((one) => one.trim())
    .filter((one) => one !== '');
  if (written.length > watchPathLimits.patterns)
    return { fault: `Must have at most ${watchPathLimits.patterns} patterns, not ${written.length}` };
  const patterns: WatchPattern[] = [];
  for (const one of written) {
    const excludes = one.startsWith('!');
    const glob = one.slice(excludes ? 1 : 0).replace(/^\//, '');
    const rule = brokenRule(one, glob);
    if (rule !== undefined) return { fault: `${rule}: ${one.replaceAll(new RegExp(hidden, 'gu'), '\uFFFD')}` };
    patterns.push({ glob, excludes });
  }
  return { patterns };
}

function brokenRule(written: string, glob: string): string | undefined {
  const { bytes, doubleStars } = watchPathLimits;
  if (Buffer.byteLength(written) > bytes) return `A pattern must have at most ${bytes} bytes`;
  if (hidden.test(glob) || !glob.isWellFormed()) return 'A pattern must not contain control characters';
  if (glob.split('**').length - 1 > doubleStars) return `A pattern must have at most ${doubleStars} **`;
  if (glob.split('/').some((segment) => ['', '.', '..'].includes(segment)))
    return 'A pattern must be the path of files from the root of the repository, such as src/**';
  return undefined;
}
