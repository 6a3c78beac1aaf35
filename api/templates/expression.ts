/** Kinds of resources that a text of a template may refer to. */
const referableKinds = ['applications', 'databases', 'volumes'] as const;

/** What a text takes of another resource of its template, such as `${databases.db.host}`. */
export interface Mention {
  of: (typeof referableKinds)[number];
  name: string;
  attribute: string;
}
/** A variable; `fallback` is used where it has no value. */
export interface Use {
  variable: string;
  fallback: string | undefined;
}
export type Part = string | Use | Mention;

/** What may be taken of each kind. */
const attributesOf: Readonly<Record<Mention['of'], readonly string[]>> = {
  applications: ['host', 'port', 'url'],
  databases: ['host', 'port', 'user', 'password', 'name', 'url', 'ca', 'pooled_host', 'pooled_port', 'pooled_url'],
  volumes: ['id'],
};

const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
const opening = /\$?\$\{/g;
const form = 'write ${NAME}, ${NAME:-default} or a reference such as ${databases.db.host}; $${ is the text ${ itself';

export function isVariableName(text: string): boolean {
  return variableName.test(text);
}

/** Splits a text into what it is made of. It is read once: what takes the place of a variable is not looked at again. */
export function parseExpression(text: string): { parts: readonly Part[] } | { fault: string } {
  const parts: Part[] = [];
  let literal = '';
  let at = 0;
  const add = (part: Part): void => {
    if (literal !== '') parts.push(literal);
    literal = '';
    parts.push(part);
  };
  for (;;) {
    opening.lastIndex = at;
    const found = opening.exec(text);
    if (found === null) break;
    literal += text.slice(at, found.index);
    if (found[0] === '$${') {
      literal += '${';
      at = found.index + 3;
      continue;
    }
    const begin = found.index + 2;
    const end = text.indexOf('}', begin);
    if (end === -1) return { fault: `has a \${ without its }: ${form}` };
    const part = partOf(text.slice(begin, end));
    if ('fault' in part) return part;
    add(part);
    at = end + 1;
  }
  literal += text.slice(at);
  if (literal !== '') parts.push(literal);
  return { parts };
}

function partOf(inner: string): Use | Mention | { fault: string } {
  const split = inner.indexOf(':-');
  const name = split === -1 ? inner : inner.slice(0, split);
  if (variableName.test(name)) return { variable: name, fallback: split === -1 ? undefined : inner.slice(split + 2) };
  const [, kind, of = '', attribute = ''] = /^([a-z]+)\.([a-z0-9-]+)\.([a-z_]+)$/.exec(inner) ?? [];
  const known = referableKinds.find((one) => one === kind);
  if (known === undefined)
    return { fault: `has \${${inner.slice(0, 60)}}, which is no variable and no reference: ${form}` };
  if (!attributesOf[known].includes(attribute))
    return { fault: `has \${${inner}}: of ${known} one can refer to ${attributesOf[known].join(', ')}` };
  return { of: known, name: of, attribute };
}

export function isMention(part: Part): part is Mention {
  return typeof part === 'object' && 'of' in part;
}

/** The text that is read as exactly this text. */
export function escapeExpression(text: string): string {
  return text.replaceAll('${', () => '$${'); // in a text, `$$` would be a single one
}

/** The text of a reference. */
export function mentionText({ of, name, attribute }: Mention): string {
  return `\${${of}.${name}.${attribute}}`;
}
