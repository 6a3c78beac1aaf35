import { RuntimeFailure } from '../runtime/runtime.ts';

export type Escape = '\\' | '`';

/** An instruction of a Dockerfile as a builder executes it: continuations joined, comments left out. */
export interface Instruction {
  /** Name of the instruction in upper case. */
  name: string;
  /** Flags such as `--from=…`, as they are written. */
  flags: readonly string[];
  rest: string;
}

/** Longest line that builders before engine 23 read. */
const maxChars = 65_000;
const known = new Set([
  'ADD',
  'ARG',
  'CMD',
  'COPY',
  'ENTRYPOINT',
  'ENV',
  'EXPOSE',
  'FROM',
  'HEALTHCHECK',
  'LABEL',
  'MAINTAINER',
  'ONBUILD',
  'RUN',
  'SHELL',
  'STOPSIGNAL',
  'USER',
  'VOLUME',
  'WORKDIR',
]);

/**
 * Returns the instructions of a Dockerfile. Each character of `text` stands for a byte.
 * @throws RuntimeFailure `invalid_source` for a text that builders read differently, or not at all
 */
export function dockerfileLines(text: string): { escape: Escape; instructions: Instruction[] } {
  const lines = text
    .replace(/^\u00EF\u00BB\u00BF/, '')
    .split('\n')
    .map((line) => line.replace(/\r$/, ''));
  const escape = escapeOf(lines);
  const instructions: Instruction[] = [];
  for (let at = 0; at < lines.length;) {
    const joined = joinedAt(lines, at, escape);
    at = joined.next;
    if (joined.text !== '') instructions.push(instruction(joined.text, escape));
  }
  return { escape, instructions };
}

/** Parses one instruction. @throws RuntimeFailure `invalid_source` */
export function instruction(text: string, escape: Escape): Instruction {
  const [, word = '', after = ''] = /^([^ \t]*)[ \t]*(.*)$/.exec(text) ?? [];
  const name = word.toUpperCase();
  if (text.length > maxChars) throw unreadable(`an instruction above ${maxChars} characters`);
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\u0000\n\u000b\u000c\r]/.test(text)) throw unreadable('control characters in an instruction');
  if (!known.has(name)) throw unreadable(`an unknown instruction: ${JSON.stringify(word.slice(0, 50))}`);
  const flags: string[] = [];
  let rest = after;
  for (;;) {
    const flag = /^(--[^ \t]+)(?:[ \t]+|$)/.exec(rest);
    if (flag === null) break;
    const [whole, value = ''] = flag;
    if (/["']/.test(value) || value.includes(escape)) throw unreadable(`quotes in ${value.slice(0, 100)}`);
    flags.push(value);
    rest = rest.slice(whole.length);
  }
  return { name, flags, rest };
}

/** Writes an instruction as a line that every builder reads alike. */
export function lineOf({ name, flags, rest }: Instruction): string {
  return trimmed([name, ...flags, rest].join(' '));
}

export function unreadable(what: string): RuntimeFailure {
  const message = `The Dockerfile cannot be built here: it has ${what}`;
  return new RuntimeFailure('invalid_source', message, { retryable: false });
}

/** Returns the escape character that the directives in the first lines set. */
function escapeOf(lines: readonly string[]): Escape {
  for (const line of lines) {
    const directive = /^#[ \t]*([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*(.*?)[ \t]*$/.exec(line);
    if (directive === null) break;
    const [, name = '', value = ''] = directive;
    if (name.toLowerCase() !== 'escape') continue;
    if (value !== '\\' && value !== '`') throw unreadable('an escape directive that is neither \\ nor `');
    return value;
  }
  return '\\';
}

/** Returns the joined lines of the instruction that begins at `start`; an empty text if there is none. */
function joinedAt(lines: readonly string[], start: number, escape: Escape): { text: string; next: number } {
  let text = '';
  for (let at = start; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const isEmpty = /^[ \t]*(?:#.*)?$/.test(line);
    if (isEmpty && at === start) return { text: '', next: at + 1 };
    if (isEmpty) continue;
    const bare = line.replace(/[ \t]+$/, '');
    if (!bare.endsWith(escape)) return { text: trimmed(text + line), next: at + 1 };
    if (bare.endsWith(escape + escape)) throw unreadable(`a line that ends with ${escape}${escape}`);
    text += bare.slice(0, -1);
  }
  return { text: trimmed(text), next: lines.length };
}

function trimmed(text: string): string {
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}
