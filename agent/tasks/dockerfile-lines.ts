import { RuntimeFailure } from '../runtime/runtime.ts';

export type Escape = '\\' | '`';

/** An instruction of a Dockerfile as a builder executes it: continuations joined, comments left out. */
export interface Instruction {
  /** Name of the instruction in upper case. */
  name: string;
  /** Flags such as `--from=…`, as they are written. */
  flags: readonly string[];
  rest: string;
  /** Its here-documents with the lines that end them. */
  documents?: readonly string[];
  /** The line that it begins in; the first one is 1. Absent: it is of an image. */
  line?: number;
}

/** What a builder reads beside the classic form. */
export interface Syntax {
  /** Whether it reads here-documents, or else what would. */
  documents: true | { needs: string };
}

/** Longest line that builders before engine 23 read. */
const maxChars = 65_000;
const maxInstructions = 2_000;
/** A space or a tab, by its code: no other character is a space to all builders. */
const isBlank = (code: number): boolean => code === 0x20 || code === 0x09;
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
 * Returns the instructions of a Dockerfile, in a time that grows with its length alone. Each character of `text` stands
 * for a byte.
 * @throws RuntimeFailure `invalid_source` for a text that builders read differently, or not at all
 */
export function dockerfileLines(
  text: string,
  { documents: reads }: Syntax,
): { escape: Escape; instructions: Instruction[] } {
  const lines = text
    .replace(/^\u00EF\u00BB\u00BF/, '')
    .split('\n')
    .map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  const escape = escapeOf(lines);
  const instructions: Instruction[] = [];
  for (let at = 0; at < lines.length;) {
    const start = at;
    const joined = inLine(start + 1, () => joinedAt(lines, start, escape));
    at = joined.next;
    if (joined.text === '') continue;
    if (instructions.length === maxInstructions) throw unreadable(`more than ${maxInstructions} instructions`);
    const line = start + 1;
    const one = inLine(line, () => {
      const read = instruction(joined.text, escape);
      const names = documentNames(read);
      if (names.length > 0 && reads !== true)
        throw unreadable(`a here-document, which needs ${reads.needs}`, insteadOfDocuments);
      const documents: string[] = [];
      for (const name of names) {
        const end = endOfDocument(lines, at, name);
        documents.push(lines.slice(at, end + 1).join('\n'));
        at = end + 1;
      }
      return documents.length === 0 ? read : { ...read, documents };
    });
    instructions.push({ ...one, line });
  }
  return { escape, instructions };
}

/** Parses one instruction. @throws RuntimeFailure `invalid_source` */
export function instruction(text: string, escape: Escape): Instruction {
  if (text.length > maxChars) throw unreadable(`an instruction above ${maxChars} characters`);
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[\u0000\n\u000b\u000c\r]/.test(text)) throw unreadable('control characters in an instruction');
  const word = text.slice(0, wordEnd(text));
  const name = word.toUpperCase();
  if (!known.has(name)) throw unreadable(`an unknown instruction: ${JSON.stringify(word.slice(0, 50))}`);
  const flags: string[] = [];
  let rest = text.slice(blankEnd(text, word.length));
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

/** Writes an instruction as a line that every builder reads alike, with its here-documents. */
export function lineOf({ name, flags, rest, documents = [] }: Instruction): string {
  return [trimmed([name, ...flags, rest].join(' ')), ...documents].join('\n');
}

/** What may be written in place of a here-document. */
const insteadOfDocuments = 'Write RUN a && b in its place, or COPY a file of the repository';
/** What may begin a here-document, by any builder: some take further characters of Unicode for spaces. */
const couldBeDocument = /(?:^|[ \t\u0080-\u00ff])\d*<<-?[^<\s]/;
const document = /^<<(-?)(["']?)([A-Za-z_][A-Za-z0-9_]*)\2$/;

/** Whether the instruction has a here-document, or what could be taken for one. */
export function hasDocument({ rest }: Instruction): boolean {
  return couldBeDocument.test(rest);
}

/**
 * Returns the names of the here-documents that begin in an instruction. Only plain words around them are read: in other
 * places builders differ in what begins one. @throws RuntimeFailure `invalid_source`
 */
function documentNames(one: Instruction): { word: string; isChomped: boolean }[] {
  if (!['RUN', 'COPY', 'ADD'].includes(one.name) || !hasDocument(one)) return [];
  return one.rest.split(/[ \t]+/).flatMap((word) => {
    const [, dash, , name] = document.exec(word) ?? [];
    if (name !== undefined) return [{ word: name, isChomped: dash === '-' }];
    if (/["'\\`$#<]/.test(word))
      throw unreadable(`a here-document beside ${word.slice(0, 100)}, which cannot be judged`);
    return [];
  });
}

/** The Dockerfile has what is not built here. */
class Unreadable extends RuntimeFailure {
  readonly what: string;
  readonly instead: string;

  constructor(what: string, instead: string, line?: number) {
    const place = line === undefined ? 'it' : `line ${line}`;
    const further = instead === '' ? '' : `. ${instead}`;
    super('invalid_source', `The Dockerfile cannot be built here: ${place} has ${what}${further}`, {
      retryable: false,
    });
    this.what = what;
    this.instead = instead;
  }
}

/** `what` it has that is not built here, and what to write instead, as a sentence. */
export function unreadable(what: string, instead = ''): RuntimeFailure {
  return new Unreadable(what, instead);
}

/** Does the work, and names the line where the Dockerfile has what is not built here. */
export function inLine<T>(line: number | undefined, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Unreadable) || line === undefined) throw error;
    throw new Unreadable(error.what, error.instead, line);
  }
}

/** The language that the engine's own builder reads. Its image is not asked for. */
const officialSyntax = /^(?:docker\.io\/)?docker\/dockerfile(?:-upstream)?(?:[:@]\S*)?$/;

/** Returns the escape character that the directives in the first lines set. */
function escapeOf(lines: readonly string[]): Escape {
  for (const line of lines) {
    const equals = line.indexOf('=');
    if (!line.startsWith('#') || equals === -1) break;
    const name = trimmed(line.slice(1, equals));
    const value = trimmed(line.slice(equals + 1));
    if (!/^[A-Za-z][A-Za-z0-9]*$/.test(name)) break;
    if (name.toLowerCase() === 'syntax' && !officialSyntax.test(value))
      throw unreadable(`the line ${line.slice(0, 200)}: only the syntax docker/dockerfile is built here`);
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
    const bare = line.slice(0, filledEnd(line));
    if (text.length + bare.length > maxChars) throw unreadable(`an instruction above ${maxChars} characters`);
    if (!bare.endsWith(escape)) return { text: trimmed(text + bare), next: at + 1 };
    if (bare.endsWith(escape + escape)) throw unreadable(`a line that ends with ${escape}${escape}`);
    text += bare.slice(0, -1);
  }
  return { text: trimmed(text), next: lines.length };
}

/** Returns the line that ends a here-document, of those from `from`. @throws RuntimeFailure `invalid_source` */
function endOfDocument(lines: readonly string[], from: number, name: { word: string; isChomped: boolean }): number {
  for (let at = from; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if ((name.isChomped ? line.replace(/^\t+/, '') : line) === name.word) return at;
  }
  throw unreadable(`a here-document without its end: ${name.word.slice(0, 100)}`);
}

// A pattern such as /[ \t]+$/ takes a time that grows with the square of the spaces within a text.

function trimmed(text: string): string {
  return text.slice(blankEnd(text, 0), Math.max(blankEnd(text, 0), filledEnd(text)));
}

/** Returns the index of the first character from `at` on that is not blank. */
function blankEnd(text: string, at: number): number {
  let end = at;
  while (end < text.length && isBlank(text.charCodeAt(end))) end += 1;
  return end;
}

/** Returns the length of the text without the blanks at its end. */
function filledEnd(text: string): number {
  let end = text.length;
  while (end > 0 && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return end;
}

/** Returns the length of the first word. */
function wordEnd(text: string): number {
  let end = 0;
  while (end < text.length && !isBlank(text.charCodeAt(end))) end += 1;
  return end;
}
