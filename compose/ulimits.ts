import { mostUlimit, noUlimit, Ulimits } from '../store/kinds/ulimits.ts';
import type { Node } from './node.ts';
import { readKeys, readMap } from './read-value.ts';
import type { Found, Keys } from './read-value.ts';

type Name = keyof Ulimits;

const names = Ulimits.keyof();

/** Reads `ulimits`: a number for both limits, or `soft` and `hard`. Those that take something from others are refused. */
export function readUlimits(node: Node, found: Found): Ulimits {
  const limits: Ulimits = {};
  for (const [name, at] of readMap(node, found)) {
    const known = names.safeParse(name);
    if (known.success) readLimit(known.data, at, limits, found);
    else found.findings.error(at, `is refused: it must be a limit of ${names.options.join(', ')}`);
  }
  return limits;
}

function readLimit(name: Name, node: Node, limits: Ulimits, found: Found): void {
  if (node.type !== 'map') {
    const both = readNumber(node, found);
    if (both !== undefined) limits[name] = { soft: both, hard: both };
    return;
  }
  const read: { soft?: number | undefined; hard?: number | undefined } = {};
  const keys: Keys<Found> = {
    soft: (it) => (read.soft = readNumber(it, found)),
    hard: (it) => (read.hard = readNumber(it, found)),
  };
  readKeys(node, keys, found);
  for (const key of ['soft', 'hard'])
    if (!node.fields.has(key)) found.findings.error(node, `must have both soft and hard, and has no ${key}`);
  const { soft, hard } = read;
  if (soft === undefined || hard === undefined) return;
  if (isAbove(soft, hard)) found.findings.error(node, 'must have a soft limit that is at most the hard one');
  else limits[name] = { soft, hard };
}

function readNumber(node: Node, { findings }: Found): number | undefined {
  const text = node.type === 'scalar' ? node.text : '';
  const number = /^(?:-1|\d{1,13})$/.test(text) ? Number(text) : undefined;
  if (number !== undefined && number <= mostUlimit) return number;
  return findings.error(node, `must be a whole number from 0 to ${mostUlimit}, or -1 for none`);
}

function isAbove(soft: number, hard: number): boolean {
  return hard !== noUlimit && (soft === noUlimit || soft > hard);
}
