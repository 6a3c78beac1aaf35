import type { MapNode, Node, Place } from '../../compose/node.ts';
import type { Section } from './document.ts';
import { isMention, parseExpression } from './expression.ts';
import type { Mention } from './expression.ts';
import { literalKey } from './plain.ts';

/** A declaration of a template. */
export interface Declared {
  section: Section;
  name: string;
  node: MapNode;
  /** Which of its fellows it is made after; those of wave 0 are made first. */
  wave: number;
}

/** Only a variable of an application or a function is kept as a secret. */
const secretKeys = new Set(['env']);

/** Each scalar of a declaration that may have expressions, and whether it is the value of a variable. */
export function scalarsOf(node: Node): Scalars {
  return scalarsBelow(node, { isSecret: false, isWhole: true });
}

type Scalars = Generator<{ at: Place; text: string; isSecret: boolean }>;

function* scalarsBelow(node: Node, { isSecret, isWhole }: { isSecret: boolean; isWhole: boolean }): Scalars {
  if (node.type === 'scalar') {
    if (typeof node.value === 'string') yield { at: node, text: node.value, isSecret };
  } else if (node.type === 'list')
    for (const item of node.items) yield* scalarsBelow(item, { isSecret, isWhole: false });
  else
    for (const [key, value] of node.fields)
      if (!isWhole || key !== literalKey)
        yield* scalarsBelow(value, { isSecret: isSecret || secretKeys.has(key), isWhole: false });
}

/** What a declaration takes of others, each with its place. Texts that cannot be read are left out. */
export function mentionsOf({ node }: Pick<Declared, 'node'>): { at: Place; mention: Mention }[] {
  return [...scalarsOf(node)].flatMap(({ at, text }) => {
    const parsed = parseExpression(text);
    return 'fault' in parsed ? [] : parsed.parts.filter(isMention).map((mention) => ({ at, mention }));
  });
}
