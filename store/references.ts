/** Kinds of objects that a value may refer to, in the word of a reference. */
const referableKinds = ['applications', 'databases'] as const;
export type ReferableKind = (typeof referableKinds)[number];

/** What a value takes of another object of its environment, such as `${applications.web.url}`. */
export interface Reference {
  kind: ReferableKind;
  name: string;
  attribute: string;
}

type Parts = { parts: (string | Reference)[] } | { fault: string };

/** Where a reference begins, or the escape of one. All other text of a value is kept as it is, also `${HOME}`. */
const begin = new RegExp(String.raw`(\$?)\$\{(${referableKinds.join('|')})\.`, 'g');

/** Name and attribute. A name with other characters is in double quotes, with `\"` and `\\` for those two. */
const rest = /(?:"((?:[^"\\]|\\["\\])+)"|([^\s."\\{}$]+))\.([a-z_]+)\}/y;

const form =
  'a reference is written ${KIND.NAME.ATTRIBUTE}, with a name of several words or with dots in double quotes as in ' +
  '${applications."My shop".url}; $${ begins text that is kept as it is';

/**
 * Splits a value into text and references. It is read once: what takes the place of a reference is not looked at again.
 * `$${applications.` stands for the text `${applications.`.
 */
export function parseReferences(value: string): Parts {
  const parts: (string | Reference)[] = [];
  let at = 0;
  const takeText = (end: number): void => void (end > at && parts.push(value.slice(at, end)));
  for (const found of value.matchAll(begin)) {
    const [opening, escape, kind] = found;
    if (escape === '$') {
      takeText(found.index);
      at = found.index + 1;
      continue;
    }
    rest.lastIndex = found.index + opening.length;
    const matched = rest.exec(value);
    const isKnown = referableKinds.find((one) => one === kind);
    if (matched === null || isKnown === undefined) return { fault: `what follows ${opening} is no reference: ${form}` };
    takeText(found.index);
    const [, quoted, bare, attribute = ''] = matched;
    parts.push({ kind: isKnown, name: quoted?.replaceAll(/\\(.)/g, '$1') ?? bare ?? '', attribute });
    at = rest.lastIndex;
  }
  takeText(value.length);
  return { parts };
}

/** Whether text of the value is read as a reference, or as the escape of one. */
export function hasReferences(value: string): boolean {
  return value.search(begin) !== -1;
}

/** The one way to write a reference, by which its value is found. */
export function referenceText({ kind, name, attribute }: Reference): string {
  const written = /^[^\s."\\{}$]+$/.test(name) ? name : `"${name.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
  return `\${${kind}.${written}.${attribute}}`;
}

/** The value that stands for exactly this text. */
export function escapeReferences(text: string): string {
  return text.replaceAll(begin, (opening) => `$${opening}`);
}
