import { parseWatchPaths } from '../../store/kinds/watch-paths.ts';

/** More than any real list needs, and done in a fraction of a second; only patterns made to be slow need more. */
const maxSteps = 20_000_000;

/** Special tokens of a compiled glob. They are negative, since the other tokens are code points. */
const one = -1;
const star = -2;
/** `**`: also across slashes. */
const deep = -3;
/** `**` and a slash at the start of a segment: {@link deep} and the slash follow, and may be skipped. */
const climb = -4;
const slash = 0x2f;

export interface Watched {
  watched: boolean;
  /** Work done: at most the characters of the names times those of the patterns, and at most `maxSteps`. */
  steps: number;
}

/**
 * Whether one of the files is watched: an including pattern matches it, or there is none, and no excluding pattern
 * matches it. Without patterns every file is watched. So are files that cannot be decided: if the text is malformed, or
 * the list would take too long.
 */
export function isWatched(watchPaths: string, files: readonly string[]): Watched {
  const parsed = parseWatchPaths(watchPaths);
  if ('fault' in parsed || parsed.patterns.length === 0) return { watched: true, steps: 0 };
  const compiled = parsed.patterns.map(({ glob, excludes }) => ({ tokens: compile(glob), excludes }));
  const excluding = compiled.filter(({ excludes }) => excludes);
  const including = compiled.filter(({ excludes }) => !excludes);
  const budget = { left: maxSteps };
  const watched = files.some((file) => {
    const name = codePoints(file);
    const isIncluded = including.length === 0 || including.some(({ tokens }) => matches(tokens, name, budget));
    return (isIncluded && !excluding.some(({ tokens }) => matches(tokens, name, budget))) || budget.left === 0;
  });
  return { watched, steps: maxSteps - budget.left };
}

function codePoints(text: string): Int32Array {
  return Int32Array.from(text, (character) => character.codePointAt(0) ?? 0);
}

function compile(glob: string): Int32Array {
  const tokens: number[] = [];
  for (let at = 0; at < glob.length;) {
    const starts = at === 0 || glob[at - 1] === '/';
    if (starts && glob.startsWith('**/', at)) {
      tokens.push(climb, deep, slash);
      at += 3;
    } else if (glob.startsWith('**', at)) {
      tokens.push(deep);
      at += 2;
    } else {
      const point = glob.codePointAt(at) ?? 0;
      tokens.push(point === 0x2a ? star : point === 0x3f ? one : point);
      at += point > 0xffff ? 2 : 1;
    }
  }
  return Int32Array.from(tokens);
}

/** Matches by the set of reached positions in the pattern, so that nothing is tried twice, whatever the pattern. */
function matches(tokens: Int32Array, name: Int32Array, budget: { left: number }): boolean {
  let reached = new Uint8Array(tokens.length + 1);
  let next = new Uint8Array(tokens.length + 1);
  reached[0] = 1;
  let first = 0;
  for (const point of name) {
    budget.left = Math.max(0, budget.left - (tokens.length - first));
    if (budget.left === 0) return false;
    let nextFirst = tokens.length + 1;
    for (let at = first; at < tokens.length; at += 1) {
      if (reached[at] === 0) continue;
      reached[at] = 0;
      const token = tokens[at];
      passOver(token, at, reached);
      if (token === deep || (token === star && point !== slash)) {
        next[at] = 1;
        nextFirst = Math.min(nextFirst, at);
      } else if (token === point || (token === one && point !== slash)) {
        next[at + 1] = 1;
        nextFirst = Math.min(nextFirst, at + 1);
      }
    }
    if (nextFirst > tokens.length) return false;
    first = nextFirst;
    reached[tokens.length] = 0;
    const spent = reached;
    reached = next;
    next = spent;
  }
  for (const [at, token] of tokens.entries()) if (reached[at] === 1) passOver(token, at, reached);
  return reached[tokens.length] === 1;
}

/** A token that may stand for nothing also reaches the next one. This only leads forward, so one pass suffices. */
function passOver(token: number | undefined, at: number, reached: Uint8Array): void {
  if (token === star || token === deep || token === climb) reached[at + 1] = 1;
  if (token === climb) reached[at + 3] = 1;
}
