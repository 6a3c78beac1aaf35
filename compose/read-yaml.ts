import { isAlias, isMap, isScalar, isSeq, Lexer, LineCounter, parseDocument } from 'yaml';
import type { Document, Pair, ParsedNode } from 'yaml';
import { maxComposeBytes } from '../store/kinds/composed-service.ts';
import type { Findings } from './findings.ts';
import type { MapNode, Node, Place } from './node.ts';
import { pathBelow } from '../store/faults.ts';

const maxDepth = 32;
/** Most nodes, each counted as often as aliases repeat it. */
const maxNodes = 10_000;
const maxAliases = 100;
/** More parts than a file of that many nodes has, with comments and blank lines: the parser's time grows with them. */
const maxParts = 80_000;
/** Most characters of all values together, with their variables. */
const maxChars = 2 * 1024 * 1024;

/** What stands for a text, such as the text with its variables; `blank`: variables without a value. */
export type Replace = (text: string, at: Place) => { text: string; blank: readonly string[] } | { fault: string };

const root: Place = { path: '', key: '', line: 1, column: 1 };
const coreTag = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/;

/**
 * Reads a text as YAML 1.2 with the core schema: no other tags, no duplicate keys, one document. Aliases and merge keys
 * are resolved, texts in values replaced by `replace`. Returns `undefined` if the text as a whole is refused; `findings` has the
 * reason then. Its time and memory are bounded for any text.
 */
export function readYaml(text: string, replace: Replace, findings: Findings): Node | undefined {
  if (Buffer.byteLength(text) > maxComposeBytes)
    return findings.refuse(root, `must be at most ${maxComposeBytes / 1024} KiB`);
  const hidden = /[^\P{Cc}\n\r\t]/u.exec(text);
  if (hidden !== null || !text.isWellFormed())
    return findings.refuse(
      root,
      `must not have control characters${hidden === null ? '' : placeIn(text, hidden.index)}`,
    );
  const tooMuch = shapeFault(text);
  if (tooMuch !== undefined) return findings.refuse(root, tooMuch);
  const lines = new LineCounter();
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    // the reader does both, within its bounds
    merge: false,
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'error',
    lineCounter: lines,
  });
  const [fault] = document.errors;
  if (fault !== undefined) {
    const { line, col } = lines.linePos(fault.pos[0]);
    if (/call stack/.test(fault.message)) return findings.refuse(root, `must not be nested deeper than ${maxDepth}`);
    const at = { ...root, line, column: col };
    if (fault.code === 'MULTIPLE_DOCS') return findings.refuse(at, 'must be one document');
    return findings.error(at, `is no YAML: ${fault.message}`);
  }
  if (document.contents === null) return findings.error(root, 'must not be empty');
  try {
    return new Reader(document, lines, replace, findings).read(document.contents, root, 0);
  } catch (error) {
    if (error instanceof TooMuch) return findings.refuse(error.place, error.message);
    throw error;
  }
}

function placeIn(text: string, index: number): string {
  const before = text.slice(0, index).split('\n');
  return `: one is in line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
}

/** What the parser should not even begin with. */
function shapeFault(text: string): string | undefined {
  let parts = 0;
  let depth = 0;
  for (const part of new Lexer().lex(text)) {
    if (++parts > maxParts) return `must have at most ${maxNodes} values`;
    if (part === '[' || part === '{') depth++;
    if (part === ']' || part === '}') depth--;
    if (depth > maxDepth) return `must not be nested deeper than ${maxDepth}`;
  }
  return undefined;
}

class TooMuch extends Error {
  readonly place: Place;
  constructor(place: Place, message: string) {
    super(message);
    this.place = place;
  }
}

type Entry = readonly [key: string, at: Place, value: unknown];

class Reader {
  readonly #document: Document.Parsed;
  readonly #lines: LineCounter;
  readonly #replace: Replace;
  readonly #findings: Findings;
  #nodes = 0;
  #aliases = 0;
  #chars = 0;

  constructor(document: Document.Parsed, lines: LineCounter, replace: Replace, findings: Findings) {
    this.#document = document;
    this.#lines = lines;
    this.#replace = replace;
    this.#findings = findings;
  }

  /** @throws TooMuch */
  read(written: unknown, around: Place, depth: number): Node {
    // a map begins at its key, not at the first key in it
    const place = isScalar(written) && written.value !== null ? this.#placeOf(written, around) : around;
    if (++this.#nodes > maxNodes) throw new TooMuch(root, `must have at most ${maxNodes} values, aliases included`);
    if (depth > maxDepth) throw new TooMuch(place, `must not be nested deeper than ${maxDepth}`);
    if (isAlias(written)) return this.read(this.#resolved(written, place), place, depth + 1);
    if (isMap(written) || isSeq(written) || isScalar(written)) this.#checkTag(written.tag, place);
    if (isMap(written)) return this.#map(written.items, place, depth);
    if (isSeq(written))
      return {
        ...place,
        type: 'list',
        items: written.items.map((item, index) =>
          this.read(item, below(this.#placeOf(item, place), String(index), place), depth + 1),
        ),
      };
    if (!isScalar(written)) return { ...place, type: 'scalar', value: null, text: '' };
    const { value, source = '' } = written;
    if (typeof value === 'string') return this.#text(value, place);
    if (typeof value === 'number' || typeof value === 'boolean')
      return { ...place, type: 'scalar', value, text: source };
    return { ...place, type: 'scalar', value: null, text: '' };
  }

  #text(value: string, place: Place): Node {
    const result = this.#replace(value, place);
    if ('fault' in result) this.#findings.error(place, result.fault);
    const { text, blank } = 'fault' in result ? { text: '', blank: [] } : result;
    this.#chars += text.length;
    if (this.#chars > maxChars) throw new TooMuch(place, 'makes the file too long with its variables');
    for (const name of new Set(blank))
      this.#findings.warn(place, `uses ${name}, which the application has no variable for: it is empty`);
    return { ...place, type: 'scalar', value: text, text };
  }

  #map(pairs: readonly Pair[], place: Place, depth: number): MapNode {
    const fields = new Map<string, Node>();
    for (const [key, at, value] of this.#entries(pairs, place, depth)) {
      const child = below(at, key, place);
      if (key === '__proto__') this.#findings.refuse(child, 'is no name of anything');
      else fields.set(key, this.read(value, child, depth + 1));
    }
    return { ...place, type: 'map', fields };
  }

  /** The entries of a map with those that it merges: its own precede them, and earlier ones later ones. */
  #entries(pairs: readonly Pair[], place: Place, depth: number): Entry[] {
    const own = new Map<string, Entry>();
    const merged: Entry[] = [];
    for (const { key: written, value } of pairs) {
      if (++this.#nodes > 2 * maxNodes) throw new TooMuch(root, `must have at most ${maxNodes} values`);
      const key = isScalar(written) ? (typeof written.value === 'string' ? written.value : written.source) : undefined;
      const at = this.#placeOf(written, place);
      if (key === undefined) {
        this.#findings.error(at, 'must have plain texts as keys');
        continue;
      }
      if (isScalar(written)) this.#checkTag(written.tag, below(at, key, place));
      if (key === '<<') merged.push(...this.#merged(value, place, depth));
      else if (own.has(key)) this.#findings.refuse(below(at, key, place), 'is there twice');
      else own.set(key, [key, at, value]);
    }
    for (const entry of merged) if (!own.has(entry[0])) own.set(entry[0], entry);
    return [...own.values()];
  }

  #merged(value: unknown, place: Place, depth: number): Entry[] {
    if (depth > maxDepth) throw new TooMuch(place, `must not be nested deeper than ${maxDepth}`);
    const from = isAlias(value) ? this.#resolved(value, place) : value;
    if (isMap(from)) return this.#entries(from.items, place, depth + 1);
    if (isSeq(from)) return from.items.flatMap((item) => this.#merged(item, place, depth + 1));
    this.#findings.error(below(this.#placeOf(value, place), '<<', place), 'must be a map, or a list of maps');
    return [];
  }

  #resolved(alias: { source: string; resolve: (document: Document.Parsed) => unknown }, place: Place): unknown {
    if (++this.#aliases > maxAliases) throw new TooMuch(place, `must not be the alias number ${maxAliases + 1}`);
    const found = alias.resolve(this.#document);
    if (found === undefined) this.#findings.error(place, `refers to an anchor that is not there: *${alias.source}`);
    return found;
  }

  #checkTag(tag: string | undefined, place: Place): void {
    if (tag === undefined || coreTag.test(tag)) return;
    this.#findings.refuse(place, `has the tag ${tag.slice(0, 60)}, which is refused: write the value itself`);
  }

  #placeOf(written: unknown, around: Place): Place {
    const range = hasRange(written) ? written.range : undefined;
    if (range === undefined) return around;
    const { line, col } = this.#lines.linePos(range[0]);
    return { ...around, line, column: col };
  }
}

function hasRange(value: unknown): value is Pick<ParsedNode, 'range'> {
  return typeof value === 'object' && value !== null && 'range' in value;
}

/** The place of a key, within the path of what is around it. */
function below(at: Place, key: string, around = at): Place {
  const name = key.length > 80 ? `${key.slice(0, 80)}…` : key;
  return { path: pathBelow(around.path, name), key: name, line: at.line, column: at.column };
}
