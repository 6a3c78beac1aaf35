import { definitionOf } from './definition.ts';
import { expiryOf } from './expiry.ts';
import type { CloneRule } from './kinds/define.ts';
import { kinds } from './kinds/kinds.ts';
import type { KindName } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import { plainCopy } from './plain-copy.ts';
import { hasRestoreEnded } from './kinds/restore.ts';
import { isKind } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';
import { isSealed } from './seal.ts';
import type { Transplanter } from './seal.ts';
import { uuidv5 } from './uuid.ts';

/** The rule of a kind that is copied. */
export type CopyRule<D> = Extract<CloneRule<D>, { references: readonly string[] }>;

/** The rule by which objects of a kind are copied with their environment; `undefined` for a kind that is not copied. */
export function copyRuleOf<K extends KindName>(kind: K): CopyRule<unknown> | undefined {
  const rule = definitionOf(kind).clone as CloneRule<unknown> | undefined; // it is applied to objects of this kind only
  return rule !== undefined && 'references' in rule ? rule : undefined;
}

/** Kinds whose objects are copied with their environment; each has an index `environment`. */
export const copiedKinds: readonly KindName[] = (Object.keys(kinds) as KindName[]) // the keys of `kinds` are the names
  .filter((kind) => copyRuleOf(kind) !== undefined);

/** What a clone of an environment copies, by kind and in the order of creation; not what goes by itself. */
export function copiedFrom(view: TenantView, environmentId: string): ReadonlyResource[] {
  return copiesIn(view, environmentId).filter((it) => expiryOf(it, view) === undefined && !isBeside(view, it));
}

/** The copies that a clone has so far, if it is an environment that is not complete yet. */
export function copiesIn(view: TenantView, environmentId: string): ReadonlyResource[] {
  return copiedKinds.flatMap((kind) => view.by(kind, 'environment', environmentId));
}

/** It is a volume beside the one in use: of a database that serves from another one, or of a restore that has not ended. */
function isBeside(view: TenantView, it: ReadonlyResource): boolean {
  if (!isKind(it, 'volume')) return false;
  const { database_id: of } = it.desired;
  if (of !== undefined) return view.get('database', of)?.desired.data_volume_id !== it.meta.id;
  return view
    .by('restore', 'volume', it.meta.id)
    .some(({ desired, observed }) => !desired.is_new && !hasRestoreEnded(observed?.phase));
}

/** Whether an environment is a clone that is not complete yet; until then its content belongs to its controller. */
export function isUnfinishedClone({ desired }: ReadonlyResource<'environment'>): boolean {
  return desired.clone_of !== undefined && !desired.clone_of.complete;
}

/** The id of the copy that a clone has of an object: always the same, so that copying again after a crash finds it. */
export function copyIdOf(environmentId: string, sourceId: string): string {
  return uuidv5(environmentId, `clone/${sourceId}`);
}

/** One object to copy. */
export interface Copying<D> {
  tenant: string;
  kind: string;
  id: string;
  desired: DeepReadonly<D>;
  /** Id of the copy. */
  copyId: string;
  /** The id that replaces an id of the source in the copy; `undefined`: the id stays. */
  idOf: (id: string) => string | undefined;
}

/** What an object has for itself alone is not copied with it, so that its copy would have that of the source. */
export class CopyLack extends Error {
  /** The field that leads to it. */
  readonly path: string;

  constructor(path: string) {
    super(`Cannot copy the object as nothing is copied that its ${path} could lead to`);
    this.name = 'CopyLack';
    this.path = path;
  }
}

/**
 * The desired state of a copy: its references lead to copies, its secrets are sealed for it, and what belongs to the
 * source alone is left out. @throws Error if a secret does not open; CopyLack.
 */
export function copyDesired<D>(rule: CopyRule<D>, source: Copying<D>, transplanter: Transplanter): D {
  const { idOf, copyId } = source;
  let state: unknown = plainCopy<D>(source.desired);
  for (const path of rule.own ?? [])
    replaceAt(state, path.split('.'), (id) => {
      if (idOf(id) === undefined) throw new CopyLack(path);
      return undefined;
    });
  for (const path of rule.references) state = replaceAt(state, path.split('.'), idOf);
  const draft = resealed(state, source, transplanter) as D; // ids were replaced by ids, and secrets by secrets
  rule.reset?.(draft, copyId);
  return draft;
}

function replaceAt(state: unknown, path: readonly string[], idOf: (id: string) => string | undefined): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return typeof state === 'string' ? (idOf(state) ?? state) : state;
  return mapped(state, (value, key) => (step === '*' || step === key ? replaceAt(value, rest, idOf) : value));
}

/** Seals secrets of the source, and of objects that are copied with it, for their copies; others stay as they are. */
function resealed<D>(state: unknown, source: Copying<D>, transplanter: Transplanter): unknown {
  if (!isSealed(state)) return mapped(state, (value) => resealed(value, source, transplanter));
  const [kind = '', from = ''] = state.for.split('/');
  const to = kind === source.kind && from === source.id ? source.copyId : source.idOf(from);
  return to === undefined ? state : transplanter.transplant(state, { tenant: source.tenant, kind, from, to });
}

function mapped(value: unknown, map: (value: unknown, key: string) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item, index) => map(item, String(index)));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, map(inner, key)]));
}
