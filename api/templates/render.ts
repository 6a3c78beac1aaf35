import { escapeReferences, referenceText } from '../../store/references.ts';
import { badRequest } from '../ground/api-error.ts';
import type { Declared } from './declared.ts';
import { isMention, mentionText, parseExpression } from './expression.ts';
import type { Mention, Part } from './expression.ts';
import { valueOf } from './plain.ts';

/** What the texts of a declaration are rendered with. */
export interface Rendering {
  /** The value of a variable; `undefined`: it has none. */
  variable: (name: string) => string | undefined;
  /** What stands for a reference where it is not the value of a variable of an application. */
  plain: (mention: Mention) => string;
  /** The name of the object that is made of a declaration. */
  nameOf: (mention: Mention) => string;
  /** Counts characters that values of variables add. @throws ApiError if they are too many */
  count: (chars: number) => void;
}

/**
 * The fields of a declaration with all variables and references in place. In the variables of an application a reference
 * stays one, of the name that the object has in its environment: it follows a password that changes. @throws Error
 */
export function render({ node }: Declared, by: Rendering): unknown {
  return valueOf(node, (text, isInEnv) => {
    const parsed = parseExpression(text);
    if ('fault' in parsed) throw new Error(`A text of a template that was read cannot be read: ${parsed.fault}`);
    return isInEnv ? inEnv(parsed.parts, by) : parsed.parts.map((part) => textOf(part, by)).join('');
  });
}

function textOf(part: Part, { variable, plain, count }: Rendering): string {
  if (typeof part === 'string') return part;
  if (isMention(part)) return plain(part);
  const value = variable(part.variable);
  const text = value === undefined || value === '' ? (part.fallback ?? '') : value;
  count(text.length);
  return text;
}

/** Text that only looks like a reference is escaped: what a variable holds is not looked at again. */
function inEnv(parts: readonly Part[], by: Rendering): string {
  let result = '';
  let literal = '';
  for (const part of parts) {
    if (typeof part !== 'object' || !isMention(part) || part.of === 'volumes') {
      literal += textOf(part, by);
      continue;
    }
    // `$` and a reference would be read as the escape of one
    if (literal.endsWith('$'))
      throw badRequest(`A value before ${mentionText(part)} ends with $: with it the reference would be plain text`);
    result += escapeReferences(literal);
    result += referenceText({ kind: part.of, name: by.nameOf(part), attribute: part.attribute });
    literal = '';
  }
  return result + escapeReferences(literal);
}
