import { definitionOf } from './definition.ts';
import { kinds } from './kinds/kinds.ts';
import type { KindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';
import { fieldsOf, uses } from './schema-fields.ts';
import type { Field } from './schema-fields.ts';

/** What the programs of one release know of the objects in the store. */
export interface Release {
  /** Highest version of the records of each kind that they read; a kind that they do not know is absent. */
  readonly reads: Readonly<Record<string, number>>;
  /** What the desired state of each kind may have, as names of {@link Field}. Kinds that a leader may ignore are absent. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}

/** What this release knows of the objects in the store, and a leader of another release does not. */
export interface Gap {
  readonly kinds: ReadonlySet<KindName>;
  readonly fields: ReadonlyMap<KindName, readonly Field[]>;
}

/** Kinds that a leader must know, each with its fields. */
const needed = (Object.keys(kinds) as KindName[]) // the keys of `kinds` are the names
  .filter((kind) => definitionOf(kind).ignorable !== true)
  .map((kind) => ({ kind, fields: fieldsOf(kinds[kind].desired) }));

/** What this release knows. It follows from the declarations of the kinds. */
export const thisRelease: Release = {
  reads: Object.fromEntries(Object.values(kinds).map(({ kind, version }) => [kind, version])),
  fields: Object.fromEntries(needed.map(({ kind, fields }) => [kind, fields.map(({ name }) => name)])),
};

/** What a leader of that release does not know; `undefined`: it knows all that a leader must know. */
export function gapOf(release: Release): Gap | undefined {
  const unknown = needed.filter(({ kind }) => release.reads[kind] === undefined);
  const fields = needed
    .filter((it) => !unknown.includes(it))
    .map(({ kind, fields: own }) => [kind, own.filter(({ name }) => !isKnown(release, kind, name))] as const)
    .filter(([, missing]) => missing.length > 0);
  if (unknown.length + fields.length === 0) return undefined;
  return { kinds: new Set(unknown.map(({ kind }) => kind)), fields: new Map(fields) };
}

function isKnown({ fields }: Release, kind: KindName, name: string): boolean {
  const { ignorable = [] } = definitionOf(kind);
  if (fields[kind]?.includes(name) === true || ignorable === true) return true;
  return ignorable.some((path) => name === path || name.startsWith(`${path}.`) || name.startsWith(`${path}=`));
}

/** What of the gap an object has, in words: it is of an unknown kind, or has an unknown field. `undefined`: nothing. */
export function inGap(gap: Gap, { meta: { kind }, desired }: ReadonlyResource): string | undefined {
  const word = kind.replaceAll('_', ' ');
  if (gap.kinds.has(kind)) return `the kind ${word}`;
  const field = gap.fields.get(kind)?.find((one) => uses(desired, one));
  if (field === undefined) return undefined;
  const { path, value } = field;
  return `${path.join('.')}${value === undefined ? '' : ` ${value}`} of the kind ${word}`;
}

/** Objects of a tenant that have something of the gap. */
export function objectsInGap(gap: Gap, view: TenantView): ReadonlyResource[] {
  return [...gap.kinds, ...gap.fields.keys()]
    .flatMap((kind): readonly ReadonlyResource[] => view.list(kind))
    .filter((it) => inGap(gap, it) !== undefined);
}
