import { changedFields } from './changed-fields.ts';
import { committed, holderOf } from './commit-failure.ts';
import { conflict } from './errors.ts';
import type { Clock } from '../time/clock.ts';
import { definitionOf } from './definition.ts';
import { jsonEqual } from './json-equal.ts';
import { keys, parseKey } from './keys.ts';
import type { DesiredOf, KindName } from './kinds/kinds.ts';
import { expectTenant, observation } from './observation.ts';
import type { Observation } from './observation.ts';
import { plainCopy } from './plain-copy.ts';
import { enteredBy, isPopulated } from './population.ts';
import { cloneResource, encodeDesired, succeed } from './record.ts';
import type { CommittableUnit, CreateOptions, ObjectEffect, UnitChange } from './unit-of-work.ts';
import type { OwnerRef, ReadonlyResource, Resource } from './resource.ts';
import { revision } from './revision.ts';
import type { Revision } from './revision.ts';
import type { Guard, Store, Txn, Write } from './store.ts';

/** What a unit does to one object: all calls on the object change its one plan. */
interface Plan {
  /** The object as it was read; absent if the unit creates it. */
  base?: ReadonlyResource;
  /** The object as it will be: all calls of the unit return this one. */
  next: Resource;
  /** Its records and names are deleted. */
  removed: boolean;
}

/** A unit of work on one tenant's objects; see `Unit` and `CommittableUnit` for what its calls mean. */
export function beginUnit(store: Store, tenant: string, clock: Clock): CommittableUnit {
  const plans = new Map<string, Plan>();
  const observations = new Map<string, Observation>();
  const guards: Guard[] = [];
  const writes: Write[] = [];
  let sent = false;

  function planOf<K extends KindName>(of: ReadonlyResource<K>): Plan {
    const it = of as ReadonlyResource; // a plan forgets K: its kind is in its meta
    expectTenant(it, tenant);
    const { kind, id, desiredRevision } = it.meta;
    const key = keys.desired(tenant, kind, id);
    const known = plans.get(key);
    if (!known) {
      const plan = { base: it, next: cloneResource(it), removed: false };
      plans.set(key, plan);
      return plan;
    }
    if (known.next.meta.desiredRevision !== desiredRevision)
      throw conflict(`Cannot write ${kind} as two states of it were read: ${id}`, {
        why: 'changed',
        ref: { kind, id },
      });
    return known;
  }

  /** The plan of an object that is to be changed. @throws Error if this unit deletes the object */
  function livePlanOf<K extends KindName>(it: ReadonlyResource<K>): Plan {
    const plan = planOf(it);
    if (plan.removed) throw new Error(`Cannot change ${it.meta.kind} as this unit deletes it: ${it.meta.id}`);
    return plan;
  }

  function create<K extends KindName>(
    kind: K,
    id: string,
    desired: DesiredOf<K>,
    options: CreateOptions = {},
  ): Resource<K> {
    const key = keys.desired(tenant, kind, id);
    if (plans.has(key)) throw new Error(`Cannot create ${kind} as this unit has it already: ${id}`);
    const definition = definitionOf(kind);
    const parsed = definition.desired.parse(desired);
    const at = clock.now().toISOString();
    const next: Resource<K> = {
      meta: {
        tenant,
        kind,
        id,
        generation: 1,
        desiredRevision: revision(0),
        createdAt: at,
        updatedAt: at,
        finalizers: [...(definition.finalizers ?? [])],
        owners: mergedOwners(derivedOwners(kind, parsed), options.owners ?? []),
        labels: { ...options.labels },
        ...(options.copyOf !== undefined && { copyOf: { ...options.copyOf } }),
      },
      desired: parsed,
    };
    plans.set(key, { next: next as Resource, removed: false }); // K is forgotten: a plan's kind is in its meta
    return next;
  }

  function change<K extends KindName>(it: ReadonlyResource<K>, edit: (draft: DesiredOf<K>) => void): Resource<K> {
    const plan = livePlanOf(it);
    const next = plan.next as Resource<K>; // the plan of an object of kind K
    const draft = plainCopy<DesiredOf<K>>(next.desired);
    edit(draft);
    const desired = definitionOf(it.meta.kind).desired.parse(draft);
    if (jsonEqual(desired, next.desired)) return next;
    const before = derivedOwners(it.meta.kind, next.desired);
    const given = next.meta.owners.filter((owner) => !before.some((derived) => isSame(derived, owner)));
    next.meta.owners = mergedOwners(derivedOwners(it.meta.kind, desired), given);
    succeed(next.desired as object, desired as object); // states are objects: their schemas are
    next.desired = desired;
    stamp(plan);
    return next;
  }

  /** Generation and time of change follow from what differs from the state that was read. */
  function stamp({ base, next }: Plan): void {
    if (!base) return;
    const changed =
      next.meta.deletionRequestedAt !== base.meta.deletionRequestedAt || !jsonEqual(next.desired, base.desired);
    const touched = changed || !jsonEqual(next.meta.labels, base.meta.labels);
    next.meta.generation = base.meta.generation + (changed ? 1 : 0);
    next.meta.updatedAt = touched ? clock.now().toISOString() : base.meta.updatedAt;
  }

  async function transaction(): Promise<Txn> {
    const all = [...guards];
    const changes = [...writes];
    const markers = new Map<string, string>();
    for (const [key, plan] of plans) {
      const { base, next } = plan;
      if (!base && plan.removed) continue;
      all.push(base ? { key, is: 'at', revision: base.meta.desiredRevision } : { key, is: 'absent' });
      if (plan.removed) changes.push(...removal(next));
      else if (isWritten(plan)) {
        changes.push({ put: key, value: encodeDesired(definitionOf(next.meta.kind), next) });
        for (const marker of enteredBy(base, next)) markers.set(marker, next.meta.id);
      }
    }
    for (const [key, change] of observations) {
      const plan = plans.get(key);
      if (plan?.removed) continue;
      if (!plan) all.push({ key, is: 'present' });
      all.push(change.guard);
      changes.push(change.write);
    }
    for (const [put, id] of markers) changes.push({ put, value: JSON.stringify({ id }) });
    const names = nameChanges(plans.values(), await foreignNames(store, plans.values()));
    return { if: distinct([...all, ...names.guards]), then: [...changes, ...names.writes] };
  }

  return {
    create,
    change,
    label(it, labels) {
      const plan = livePlanOf(it);
      plan.next.meta.labels = { ...labels };
      stamp(plan);
      return plan.next as Resource<typeof it.meta.kind>; // as in `change`
    },
    requestDelete(it) {
      const plan = planOf(it);
      const { meta } = plan.next;
      meta.deletionRequestedAt ??= clock.now().toISOString();
      plan.removed ||= meta.finalizers.length === 0;
      stamp(plan);
    },
    release(it, finalizer) {
      const plan = planOf(it);
      const { meta } = plan.next;
      meta.finalizers = meta.finalizers.filter((name) => name !== finalizer);
      plan.removed ||= meta.finalizers.length === 0 && meta.deletionRequestedAt !== undefined;
    },
    observe(it, observed) {
      expectTenant(it, tenant);
      const key = keys.desired(tenant, it.meta.kind, it.meta.id);
      const change = observation(it, observed);
      if (change) observations.set(key, change);
      else observations.delete(key);
    },
    require(it) {
      planOf(it);
    },
    async holdPopulation(it) {
      planOf(it);
      const key = keys.population(tenant, it.meta.kind, it.meta.id);
      const marker = await store.get(key);
      guards.push(marker ? { key, is: 'at', revision: marker.modRevision } : { key, is: 'absent' });
    },
    guard: (guard) => void guards.push(guard),
    write: (write) => void writes.push(write),
    changes() {
      const objects = [...plans.values()].flatMap((plan) => changeOf(plan) ?? []);
      const guarded = plans.size - objects.length;
      return { objects, guarded, isEmpty: objects.length + observations.size + writes.length === 0 };
    },
    async commit(judge) {
      if (sent) throw new Error('Cannot commit a unit twice');
      sent = true;
      const txn = await transaction();
      if (txn.then.length === 0) return { committed: true, revision: highestRead(plans.values()) };
      judge?.({ objects: [...plans.values()].flatMap((plan) => effectOf(plan) ?? []), writes: txn.then });
      const result = await store.txn(txn);
      if (result.committed) settle(plans.values(), result.revision);
      return result;
    },
  };
}

/** Commits the unit. @throws conflict, which names the guard that failed */
export async function commit(unit: CommittableUnit): Promise<Revision> {
  return committed(await unit.commit());
}

function settle(plans: Iterable<Plan>, at: Revision): void {
  for (const plan of plans) {
    if (!isWritten(plan)) continue;
    plan.next.meta.desiredRevision = at;
    if (!plan.base) plan.next.meta.createdRevision = at;
  }
}

function isWritten({ base, next }: Plan): boolean {
  if (!base) return true;
  const { meta } = next;
  return (
    meta.generation !== base.meta.generation ||
    !jsonEqual(meta.labels, base.meta.labels) ||
    !jsonEqual(meta.finalizers, base.meta.finalizers)
  );
}

function changeOf(plan: Plan): UnitChange | undefined {
  const effect = effectOf(plan);
  if (effect === undefined) return undefined;
  const { it, before, action } = effect;
  if (action === 'delete') return { it, action, fields: [] };
  return { it, action, fields: changedFields(before && stateOf(before), stateOf(it)) };
}

function effectOf(plan: Plan): ObjectEffect | undefined {
  const { base: before, next: it, removed } = plan;
  if (!before) return removed ? undefined : { it, action: 'create' };
  const { deletionRequestedAt } = it.meta;
  if (removed || deletionRequestedAt !== before.meta.deletionRequestedAt) return { it, before, action: 'delete' };
  return isWritten(plan) ? { it, before, action: 'change' } : undefined;
}

/** The parts of an object that a unit can change. */
function stateOf({ meta: { labels, finalizers }, desired }: ReadonlyResource): object {
  return { ...desired, ...(Object.keys(labels).length > 0 && { labels }), finalizers };
}

function removal({ meta: { tenant, kind, id } }: Resource): Write[] {
  const { bytes, agentRecords } = definitionOf(kind);
  const areas = [
    keys.desired,
    keys.observed,
    keys.events,
    ...(isPopulated(kind) ? [keys.population] : []),
    ...(bytes === true ? [keys.bytes] : []),
  ];
  const all = areas.map((key) => ({ delete: key(tenant, kind, id) }));
  if (agentRecords !== true) return all;
  return [...all, { delete: keys.removals(tenant, id) }, { delete: keys.connections(tenant, id) }];
}

/**
 * Names follow their objects. A name that moves between two objects of the unit needs no guard: its old holder is
 * guarded itself. `foreign`: keys of names that other objects hold.
 */
function nameChanges(plans: Iterable<Plan>, foreign: ReadonlySet<string>): { guards: Guard[]; writes: Write[] } {
  const freed = new Set<string>();
  const claimed = new Map<string, Resource>();
  for (const { base, next, removed } of plans) {
    const before = base ? nameKeys(base) : [];
    const after = removed ? [] : nameKeys(next);
    for (const name of before) if (!after.includes(name) && !foreign.has(name)) freed.add(name);
    for (const name of after) {
      if (before.includes(name)) continue;
      const holder = claimed.get(name);
      if (holder) throw claimedTwice(name, next, holder);
      claimed.set(name, next);
    }
  }
  const guards: Guard[] = [];
  const writes: Write[] = [];
  for (const [key, holder] of claimed) {
    if (!freed.delete(key)) guards.push({ key, is: 'absent' });
    writes.push({ put: key, value: JSON.stringify({ id: holder.meta.id }) });
  }
  for (const key of freed) writes.push({ delete: key });
  return { guards, writes };
}

/**
 * Keys of names that an object has and another one holds: two names of an earlier release may be equal now. A name in
 * ASCII was always compared as it is today.
 */
async function foreignNames(store: Store, plans: Iterable<Plan>): Promise<ReadonlySet<string>> {
  const foreign = new Set<string>();
  for (const { base, next, removed } of plans) {
    const after = removed ? [] : nameKeys(next);
    for (const key of base ? nameKeys(base, isBeyondAscii) : []) {
      if (after.includes(key)) continue;
      const entry = await store.get(key);
      if (entry !== undefined && holderOf(entry.value) !== base?.meta.id) foreign.add(key);
    }
  }
  return foreign;
}

function isBeyondAscii(name: string): boolean {
  return Buffer.byteLength(name) > name.length;
}

function nameKeys({ meta, desired }: ReadonlyResource, which: (name: string) => boolean = () => true): string[] {
  const names = definitionOf(meta.kind).unique?.(desired as DesiredOf<KindName>) ?? []; // only read
  return names
    .filter(({ name }) => which(name))
    .map(({ scope, name }) => keys.unique(meta.tenant, meta.kind, scope, name));
}

function derivedOwners<K extends KindName>(kind: K, desired: DesiredOf<K>): OwnerRef[] {
  return (definitionOf(kind).owners?.(desired) ?? []) as OwnerRef[]; // declarations name kinds as plain text
}

function isSame(a: OwnerRef, b: OwnerRef): boolean {
  return a.kind === b.kind && a.id === b.id;
}

/** Each owner once; it blocks if any of its mentions does. */
function mergedOwners(derived: readonly OwnerRef[], given: readonly OwnerRef[]): OwnerRef[] {
  const merged: OwnerRef[] = [];
  for (const owner of [...derived, ...given]) {
    const known = merged.find((one) => isSame(one, owner));
    if (known) known.blocks ||= owner.blocks;
    else merged.push({ ...owner });
  }
  return merged;
}

function distinct(guards: readonly Guard[]): Guard[] {
  return [
    ...new Map(
      guards.map((guard) => [JSON.stringify([guard.key, guard.is, 'revision' in guard && guard.revision]), guard]),
    ).values(),
  ];
}

function highestRead(plans: Iterable<Plan>): Revision {
  let highest = revision(0);
  for (const { base } of plans) if (base && base.meta.desiredRevision > highest) highest = base.meta.desiredRevision;
  return highest;
}

function claimedTwice(key: string, by: Resource, holder: Resource): Error {
  const meaning = parseKey(key);
  const { kind } = by.meta;
  const what = `Cannot use one name for two objects of a transaction: ${kind} ${by.meta.id} and ${holder.meta.id}`;
  if (meaning?.area !== 'unique') return conflict(what);
  const { scope, name } = meaning;
  return conflict(what, { why: 'name-taken', kind, scope, name, holder: holder.meta.id });
}
