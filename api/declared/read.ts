import type { z } from 'zod';
import { Findings } from '../../compose/findings.ts';
import type { Finding } from '../../compose/findings.ts';
import type { MapNode, Node } from '../../compose/node.ts';
import { readYaml } from '../../compose/read-yaml.ts';
import type { Replace } from '../../compose/read-yaml.ts';
import type { DeclaringFile } from '../../store/declared/commit.ts';
import type { DeclaredKind } from '../../store/declared/leaves.ts';
import { parseWritten } from '../../store/faults.ts';
import { foldName } from '../../store/fold-name.ts';
import { badRequest } from '../ground/api-error.ts';
import { valueOf } from '../templates/plain.ts';
import { declaredSchemas, declaredWords, kindOfWord, maxObjects } from './objects.ts';
import type { DeclaredObject, DeclaredOf, DeclaredWord } from './objects.ts';

/**
 * The objects that a text declares, in the order in which they are made: YAML or JSON, documents with `---` between them, each of
 * one object or of a list. @throws ApiError BAD_REQUEST with path, line and column of each fault
 */
export function readDeclared(text: string): DeclaredObject[] {
  return readDocuments(documentsOf(text), { whole: 'The text', replace: (value) => ({ text: value, blank: [] }) });
}

/**
 * As `readDeclared`, of the files of a folder, with each value replaced by what `replace` makes of it: each fault has the path
 * of its file. @throws ApiError BAD_REQUEST
 */
export function readFiles(files: readonly DeclaringFile[], replace: Replace): DeclaredObject[] {
  const documents = files.flatMap(({ path, content }) => documentsOf(content).map((one) => ({ ...one, file: path })));
  if (documents.length > maxObjects) throw tooMany();
  return readDocuments(documents, { whole: 'The commit', replace });
}

/** Reads documents until their values are too long together. @throws ApiError BAD_REQUEST */
function readDocuments(
  documents: readonly TextPart[],
  { whole, replace }: { whole: string; replace: Replace },
): DeclaredObject[] {
  const errors: (Finding & { file?: string | undefined })[] = [];
  const objects: DeclaredObject[] = [];
  const names = new Set<string>();
  const moves: Move[] = [];
  let chars = 0;
  const counted: Replace = (text, at) => {
    // all of it is refused below
    if (chars > maxChars) return { text: '', blank: [] };
    const result = replace(text, at);
    if ('text' in result) chars += result.text.length;
    return result;
  };
  for (const document of documents) {
    const findings = new Findings('The text');
    const top = readYaml(document.text, counted, findings);
    for (const node of top === undefined ? [] : top.type === 'list' ? top.items : [top]) {
      const it = readObject(node, findings);
      if (it === undefined) continue;
      const name = keyOf(it);
      if (names.has(name)) findings.error(node, `declares ${name} twice`);
      names.add(name);
      objects.push(it);
      if (it.metadata.moved_from !== undefined)
        moves.push({ it, node: nodeAt(node, ['metadata', 'moved_from']), document });
      if (objects.length > maxObjects) throw tooMany();
    }
    if (chars <= maxChars) {
      for (const one of findings.errors) errors.push({ ...one, line: one.line + document.before, file: document.file });
      continue;
    }
    const message = `${whole} is too long here: its values have more than ${maxChars} characters, variables included`;
    errors.push({ path: '', key: '', line: document.before + 1, column: 1, message, file: document.file });
    break;
  }
  errors.push(...faultsOfMoves(moves, names));
  const [first] = errors;
  if (first !== undefined) throw badRequest(inWords(first), errors.slice(0, mostDetails).map(detailOf));
  if (objects.length === 0)
    throw badRequest(`${whole} declares nothing: it must have an object with kind and metadata`);
  return orderOf(objects);
}

/** An object that is renamed, and where its text says so. */
interface Move {
  it: DeclaredObject;
  node: Node;
  document: TextPart;
}

/** Names that objects cannot be moved from, as something else has them in the same text. */
function faultsOfMoves(
  moves: readonly Move[],
  names: ReadonlySet<string>,
): (Finding & { file?: string | undefined })[] {
  const declared = new Set([...names].map(foldName));
  const seen = new Set<string>();
  return moves.flatMap(({ it, node: { line, column }, document }) => {
    const from = keyOf({ ...it, metadata: { name: it.metadata.moved_from ?? '' } });
    const rule = declared.has(foldName(from))
      ? foldName(from) === foldName(keyOf(it))
        ? 'must be another name than metadata.name'
        : `is the name of ${from}, which the text declares as well: take moved_from away, or declare the other one later`
      : seen.has(foldName(from))
        ? `is the name of ${from}, which another object of the text is moved from`
        : undefined;
    seen.add(foldName(from));
    if (rule === undefined) return [];
    const path = 'metadata.moved_from';
    const message = `${path} ${rule}`;
    return [{ path, key: 'moved_from', line: line + document.before, column, message, file: document.file }];
  });
}

/** Most characters of the values of all documents, with what stands for their variables. */
const maxChars = 2 * 1024 * 1024;

/** Most faults that are told at once. */
const mostDetails = 100;

function tooMany() {
  return badRequest(`The text declares more than ${maxObjects} objects: split it`);
}

/**
 * What an object is called, such as `applications.web`; those of another environment than the `usual` one, by which those
 * without any are, have its name as well.
 */
export function keyOf(
  { kind, metadata, spec }: Pick<DeclaredObject, 'kind' | 'spec'> & { readonly metadata: { readonly name: string } },
  usual?: string,
): string {
  const environment = 'environment' in spec ? spec.environment : undefined;
  return keyFor(kindOfWord[kind], { environment, name: metadata.name }, usual);
}

/** As `keyOf`, of an object by its kind, its environment and its name. */
export function keyFor(
  kind: DeclaredKind,
  { environment, name }: { environment: string | undefined; name: string },
  usual?: string,
): string {
  const isUsual = environment === undefined || (usual !== undefined && foldName(environment) === foldName(usual));
  return `${kind}s.${isUsual ? '' : `${environment}/`}${name}`;
}

interface TextPart {
  text: string;
  /** How many lines are before it. */
  before: number;
  /** The path of its file, if it is one of several. */
  file?: string;
}

/** The documents of a text that have something in them. @throws ApiError BAD_REQUEST for more than there may be objects */
function documentsOf(text: string): TextPart[] {
  const documents: TextPart[] = [];
  let part: { lines: string[]; before: number } = { lines: [], before: 0 };
  const end = (): void => {
    if (part.lines.every((line) => /^\s*(#.*)?$/.test(line))) return;
    if (documents.length === maxObjects) throw tooMany();
    documents.push({ text: part.lines.join('\n'), before: part.before });
  };
  for (const [at, line] of text.split('\n').entries())
    if (/^---(\s|$)/.test(line)) {
      end();
      part = { lines: [line.slice(3)], before: at };
    } else part.lines.push(line);
  end();
  return documents;
}

function readObject(node: Node, findings: Findings): DeclaredObject | undefined {
  if (node.type !== 'map') return findings.error(node, 'must be a map with apiVersion, kind, metadata and spec');
  const kind = node.fields.get('kind');
  const word = kind?.type === 'scalar' ? declaredWords.find((one) => one === kind.text) : undefined;
  if (word === undefined)
    return findings.error(kind ?? node, `must have a kind that can be declared: ${declaredWords.join(', ')}`);
  return parsed(word, node, findings);
}

function parsed(word: DeclaredWord, node: MapNode, findings: Findings): DeclaredObject | undefined {
  const value = valueOf(node);
  const whole = typeof value === 'object' && value !== null && !('spec' in value) ? { ...value, spec: {} } : value;
  const schema: z.ZodType<DeclaredObject> = declaredSchemas[word];
  const result = parseWritten(schema, whole, 'The object');
  if ('data' in result) return result.data;
  for (const { path, rule } of result.faults)
    findings.error({ ...nodeAt(node, path), path: [node.path, ...path.map(String)].filter(Boolean).join('.') }, rule);
  return undefined;
}

/** The node at a path, or the nearest one around it. */
function nodeAt(node: Node, [first, ...rest]: readonly (string | number)[]): Node {
  if (first === undefined) return node;
  const next =
    node.type === 'map' ? node.fields.get(String(first)) : node.type === 'list' ? node.items[Number(first)] : undefined;
  return next === undefined ? node : nodeAt(next, rest);
}

function detailOf(it: Finding & { file?: string | undefined }) {
  return { field: it.path === '' ? 'content' : it.path, reason: 'invalid', message: inWords(it) };
}

function inWords({ line, column, message, file }: Finding & { file?: string | undefined }): string {
  return file === undefined
    ? `Line ${line}, column ${column}: ${message}`
    : `${file}, line ${line}, column ${column}: ${message}`;
}

/** By kind, and applications after those that their variables refer to. A circle keeps the order of the text. */
function orderOf(objects: readonly DeclaredObject[]): DeclaredObject[] {
  const ordered: DeclaredObject[] = [];
  const open = new Set<DeclaredObject>();
  const add = (it: DeclaredObject): void => {
    if (ordered.includes(it) || open.has(it)) return;
    open.add(it);
    if (it.kind === 'Application') for (const other of objects) if (isReferredTo(other, it)) add(other);
    ordered.push(it);
  };
  for (const word of declaredWords) for (const it of objects) if (it.kind === word) add(it);
  return ordered;
}

/** Whether it is an application, and variables of the other one refer to it. */
export function isReferredTo(
  { kind, metadata: { name } }: DeclaredObject,
  { spec }: DeclaredOf<'Application'>,
): boolean {
  return (
    kind === 'Application' && Object.values(spec.env ?? {}).some((value) => value.includes(`\${applications.${name}.`))
  );
}
