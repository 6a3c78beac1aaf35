import { parseCommand } from '../store/kinds/command.ts';
import type { Findings } from './findings.ts';
import type { MapNode, Node, ScalarNode } from './node.ts';
import { isBlank } from './node.ts';
import { parseBytes, parseSeconds } from './units.ts';

/** What reading a value needs: where to put what is wrong with it. */
export interface Found {
  findings: Findings;
}

const maxItems = 1000;
const maxTextChars = 64 * 1024;

/** Reads a text, and a number or a boolean as it is written. `undefined`: it is none, which was found. */
export function readText(node: Node, { findings }: Found, rule = 'must be text'): string | undefined {
  if (node.type !== 'scalar' || node.value === null) return findings.error(node, rule);
  if (node.text.length > maxTextChars) return findings.error(node, `must be at most ${maxTextChars / 1024} KiB`);
  return node.text;
}

/** Reads a text that a pattern describes; `rule` describes it in words. */
export function readMatching(node: Node, pattern: RegExp, rule: string, found: Found): string | undefined {
  const text = readText(node, found, rule);
  return text === undefined || pattern.test(text) ? text : found.findings.error(node, rule);
}

export function readFlag(node: Node, { findings }: Found): boolean | undefined {
  if (node.type === 'scalar' && (node.text === 'true' || node.text === 'false')) return node.text === 'true';
  return findings.error(node, 'must be true or false');
}

/** Reads a whole number from `least` to `most`, also one in quotes or from a variable. */
export function readWhole(node: Node, least: number, most: number, { findings }: Found): number | undefined {
  const text = node.type === 'scalar' ? node.text : '';
  const number = /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  if (number !== undefined && number >= least && number <= most) return number;
  return findings.error(node, `must be a whole number from ${least} to ${most}`);
}

/** Reads a size such as `512m`, `1.5gb` or a number of bytes. */
export function readBytes(node: Node, least: number, most: number, { findings }: Found): number | undefined {
  const bytes = parseBytes(node.type === 'scalar' ? node.text : '');
  if (bytes === undefined) return findings.error(node, 'must be a size such as 512m or 1.5gb');
  if (bytes >= least && bytes <= most) return bytes;
  return findings.error(node, `must be from ${least} to ${most} bytes`);
}

/** Reads a time such as `1m30s` in whole seconds: a part of a second counts as one, which is a warning. */
export function readSeconds(node: Node, least: number, most: number, { findings }: Found): number | undefined {
  const seconds = parseSeconds(node.type === 'scalar' ? node.text : '');
  if (seconds === undefined) return findings.error(node, 'must be a time such as 30s or 1m30s');
  const whole = Math.max(Math.ceil(seconds), least);
  if (whole > most) return findings.error(node, `must be at most ${most}s`);
  if (whole !== seconds) findings.warn(node, `counts in whole seconds: it is ${whole}s`);
  return whole;
}

/** The elements of a list. */
export function readList(node: Node, { findings }: Found): readonly Node[] {
  if (node.type !== 'list') findings.error(node, 'must be a list');
  else if (node.items.length > maxItems) findings.error(node, `must have at most ${maxItems} elements`);
  else return node.items;
  return [];
}

/** The elements of a list, or the only one where there is no list. */
export function readOneOrMore(node: Node, found: Found): readonly Node[] {
  return node.type === 'scalar' && !isBlank(node) ? [node] : readList(node, found);
}

export function readMap(node: Node, { findings }: Found): ReadonlyMap<string, Node> {
  if (node.type === 'map') return node.fields;
  findings.error(node, 'must be a map of names');
  return new Map();
}

/** Reads a map, and a list of `NAME=VALUE`. The value is `undefined` where there is only a name. */
export function readPairs(node: Node, found: Found): readonly { name: string; value: string | undefined; at: Node }[] {
  if (node.type === 'list')
    return readList(node, found).flatMap((at) => {
      const text = readText(at, found, 'must be text such as NAME=VALUE');
      if (text === undefined) return [];
      const [name = ''] = text.split('=', 1);
      return [{ name, value: name === text ? undefined : text.slice(name.length + 1), at }];
    });
  return [...readMap(node, found)].flatMap(([name, at]) => {
    const value = isBlank(at) ? undefined : readText(at, found);
    return value === undefined && !isBlank(at) ? [] : [{ name, value, at }];
  });
}

/** Reads a command: the words of a list as they are, and a text without a shell, as {@link parseCommand} does. */
export function readCommand(node: Node, found: Found): string[] | undefined {
  if (isBlank(node)) return undefined;
  const words =
    node.type === 'scalar' ? readWords(node, found) : readList(node, found).map((it) => readText(it, found));
  if (words === undefined || words.length === 0) return undefined;
  if (words.some((word) => word?.includes('\0') === true)) return found.findings.error(node, 'must not contain NUL');
  return words.every((word) => word !== undefined) ? words : undefined;
}

function readWords(node: ScalarNode, { findings }: Found): string[] | undefined {
  if (node.text.trim() === '') return undefined;
  const parsed = parseCommand(node.text);
  if ('words' in parsed) return parsed.words;
  return findings.error(node, `${parsed.fault.charAt(0).toLowerCase()}${parsed.fault.slice(1)}`);
}

/** What is done with a key of a map. */
export type Keys<Context> = Readonly<Record<string, (node: Node, context: Context) => void>>;

/**
 * Reads each field of a map by its key. A field whose name begins with `x-` has no effect, as compose has it. Every
 * other one that the table does not have is an error that names it.
 */
export function readKeys<Context extends Found>(
  node: Node,
  keys: Keys<Context>,
  context: Context,
  refusals: Readonly<Record<string, string>> = {},
): void {
  for (const [key, value] of readMap(node, context)) {
    if (key.startsWith('x-')) continue;
    const read = Object.hasOwn(keys, key) ? keys[key] : undefined;
    const why = Object.hasOwn(refusals, key) ? refusals[key] : undefined;
    if (read !== undefined) read(value, context);
    else if (why !== undefined) context.findings.error(value, `is refused: ${why}`);
    else context.findings.error(value, 'is refused: Setpoint does not know this key');
  }
}

/** A key that changes nothing here. `why` says what happens instead. */
export function withoutEffect(why: string): (node: Node, context: Found) => void {
  return (node, { findings }) => findings.warn(node, `has no effect: ${why}`);
}

/** Reads nothing: the key says what holds anyway. */
export function accepted(): void {}

export type { MapNode };
