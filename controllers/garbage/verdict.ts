import { definitionOf } from '../../store/definition.ts';
import { expiryOf } from '../../store/expiry.ts';
import type { Newest } from '../../store/kinds/define.ts';
import { isKindName } from '../../store/kinds/kinds.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { OwnerRef, ReadonlyResource, Ref } from '../../store/resource.ts';

/** Why an object should be deleted. */
export type Verdict =
  /** The blocking owner is gone or, where that suffices, being deleted. */
  | { cause: 'owner'; owner: OwnerRef }
  /** There are enough newer objects of its kind. `holder` must neither be deleted nor change meanwhile. */
  | { cause: 'surplus'; holder: Ref }
  /** It has expired. */
  | { cause: 'expired' };

/** Whether and why an object should be deleted, by the view. Pure; `now` is the time by which objects expire. */
export function judge(it: ReadonlyResource, view: TenantView, now: number): Verdict | undefined {
  if (isDeleting(it)) return undefined;
  const owner = it.meta.owners.find(
    (ref) => ref.blocks && isKindName(ref.kind) && !holds(it, view.get(ref.kind, ref.id)),
  );
  if (owner !== undefined) return { cause: 'owner', owner: { ...owner } };
  if (isExpired(it, view, now)) return { cause: 'expired' };
  const history = historyOf(it, view);
  if (history === undefined) return undefined;
  const { holder, all } = history;
  if (isAmongNewest(it, all)) return undefined;
  const isSurplus = surplus(it.meta.kind, view.get(holder.kind, holder.id), all).includes(it);
  return isSurplus ? { cause: 'surplus', holder } : undefined;
}

/** Whether the object has come to its end, and nothing uses it. */
export function isExpired(it: ReadonlyResource, view: TenantView, now: number): boolean {
  const end = expiryOf(it, view);
  return end !== undefined && end <= now;
}

/** Whether the owner keeps the object. */
function holds(it: ReadonlyResource, owner: ReadonlyResource | undefined): boolean {
  if (owner === undefined) return false;
  const outlived = definitionOf(it.meta.kind).keep.outlivesDeletionOf ?? [];
  return !isDeleting(owner) || outlived.includes(owner.meta.kind);
}

/** The rule of a kind of which the newest objects are kept; `undefined` for another kind. */
function newestOf(kind: KindName): Newest<DesiredOf<KindName>, ObservedOf<KindName>> | undefined {
  const { keep } = definitionOf(kind);
  return 'newest' in keep ? keep.newest : undefined;
}

/** The history that the object belongs to: its holder and all that the holder has. */
function historyOf(
  it: ReadonlyResource,
  view: TenantView,
): { holder: Ref; all: readonly ReadonlyResource[] } | undefined {
  const { kind } = it.meta;
  const under = newestOf(kind)?.under;
  if (under === undefined || !isKindName(under)) return undefined;
  const id = definitionOf(kind).indexes?.[under]?.(it.desired as DesiredOf<KindName>, undefined); // only read
  return typeof id === 'string' ? { holder: { kind: under, id }, all: view.by(kind, under, id) } : undefined;
}

/** Whether the rule of the kind also looks at what uses the object, so that a deletion has to be guarded by that. */
export function dependsOnUsers(kind: KindName): boolean {
  return definitionOf(kind).keep.usedBy !== undefined;
}

/** Whether the rule of the kind also looks at the holder, so that a deletion has to be guarded by it. */
export function dependsOnHolder(kind: KindName): boolean {
  return newestOf(kind)?.unless !== undefined;
}

/** The place of an object in its history, the newest highest: by the store, as the clocks of replicas go wrong. */
function placeIn(rule: Newest<DesiredOf<KindName>, ObservedOf<KindName>>, it: ReadonlyResource): number {
  return rule.number?.(it) ?? it.meta.createdRevision ?? it.meta.desiredRevision;
}

/**
 * The objects of a history that its kind does not keep. Pure.
 *
 * @param all what the holder has of the kind
 */
export function surplus<K extends KindName>(
  kind: K,
  holder: ReadonlyResource | undefined,
  all: readonly ReadonlyResource<K>[],
): ReadonlyResource<K>[] {
  const rule = newestOf(kind);
  if (rule === undefined) return [];
  if (all.length <= rule.count) return [];
  const ordered = all.toSorted((a, b) => placeIn(rule, a) - placeIn(rule, b));
  const old = beyond(ordered, rule.count).filter((it) => rule.hasEnded === undefined || rule.hasEnded(it));
  if (rule.unless === undefined || old.length === 0) return old;
  if (holder === undefined) return [];
  const stays = rule.unless(holder, ordered.toReversed());
  return old.filter((it) => !stays(it));
}

/** Whether the object is surely among those of a history that are kept for their age: most are, and need no look at the others. */
function isAmongNewest(it: ReadonlyResource, all: readonly ReadonlyResource[]): boolean {
  const rule = newestOf(it.meta.kind);
  if (rule === undefined || all.length <= rule.count) return true;
  const own = placeIn(rule, it);
  return all.filter((other) => placeIn(rule, other) >= own).length <= rule.count;
}

/** Objects whose verdict may differ after a change of `changed`: itself, what it owns, and the old ones of its history. */
export function suspects(
  changed: { before?: ReadonlyResource; after?: ReadonlyResource },
  view: TenantView,
  kinds: readonly KindName[],
): ReadonlyResource[] {
  const { before, after } = changed;
  const it = after ?? before;
  if (it === undefined) return [];
  const { id, kind } = it.meta;
  const found: ReadonlyResource[] = after === undefined ? [] : [after];
  if (!isStaying(after)) for (const child of kinds) found.push(...view.by(child, 'owner', id));
  // several new ones may come before the oldest is gone
  const history = historyOf(it, view);
  if (history !== undefined)
    found.push(...surplus(kind, view.get(history.holder.kind, history.holder.id), history.all));
  return found;
}

/** All but the newest `most`. */
function beyond<T>(all: readonly T[], most: number): T[] {
  return all.slice(0, Math.max(0, all.length - most));
}
