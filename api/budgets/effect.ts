import { isUnfinishedClone } from '../../store/copying.ts';
import { parseKey } from '../../store/keys.ts';
import type { KeyMeaning } from '../../store/keys.ts';
import { isKindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ObjectEffect, UnitEffect } from '../../store/unit-of-work.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Write } from '../../store/store.ts';
import { bytesOf, holderOf, isCounted, objectBytes } from '../../store/usage.ts';
import type { Amount, Holder, Usage } from '../../store/usage.ts';
import { contentAmount } from './clones.ts';
import { scopeName } from './scope.ts';
import type { Scope } from './scope.ts';

/** What a transaction adds to one scope. */
export interface Share {
  scope: Scope;
  adds: Amount;
}

/** The cost of a transaction. */
export interface Cost {
  /** The shares from the narrowest scope up; tenant and installation are always included. */
  shares: Share[];
  /** Written bytes, whatever was stored before. */
  written: number;
}

/** Kinds that a login, an account or an operator writes; room is kept for them. */
const alwaysAllowed: ReadonlySet<string> = new Set(['session', 'login_code', 'user', 'settings']);

/** Whether a transaction may commit without room: it only deletes, or it writes kinds for which room is kept. */
export function isAlwaysAllowed({ objects, writes }: UnitEffect): boolean {
  // an answer that is recorded alone needs room, as any object that a user makes
  const isAnswer = objects.length === 0 && writes.some((it) => 'put' in it && keyOf(it)[1]?.area === 'idempotency');
  if (isAnswer) return false;
  return objects.every(({ it, action }) => action === 'delete' || alwaysAllowed.has(it.meta.kind));
}

/** The cost of a transaction, by scope. `caller` is the user whose recorded answers count in the user's own budget. */
export function costOf(
  view: TenantView,
  usage: Usage,
  { objects, writes }: UnitEffect,
  caller: string | undefined,
): Cost {
  const sums = new Sums(view, objects);
  let written = 0;
  for (const write of writes) {
    const [key, meaning] = keyOf(write);
    if (meaning === undefined) continue;
    const bytes = 'put' in write ? bytesOf(key, write.value, meaning.area) : 0;
    // the share of an object for its indexes in memory is not written
    written += meaning.area === 'desired' && bytes > 0 ? bytes - objectBytes : bytes;
    if (meaning.area === 'audit') continue;
    sums.add(sums.holderOf(meaning, caller), { bytes: bytes - usage.sizeOf(key), objects: 0 });
  }
  for (const { it, before, action } of objects) {
    if (action === 'create' && isCounted(it.meta.kind))
      sums.add(holderOf(it.meta.kind, it.meta.id, it.desired), { bytes: 0, objects: 1 });
    if (isEnvironment(it) && action === 'create' && isUnfinishedClone(it))
      sums.add({ project: it.desired.project_id }, contentAmount(view, usage, it));
    if (isKind(it, 'template_instance') && action === 'create')
      sums.add({ project: it.desired.project_id }, childrenAmount(it));
    if (isProject(it) && isProject(before) && before.desired.owner_id !== it.desired.owner_id)
      sums.addUser(it.desired.owner_id, usage.ofProject(view.tenant, it.meta.id));
  }
  return { shares: sums.shares(), written };
}

function keyOf(write: Write): [string, KeyMeaning | undefined] {
  const key = 'put' in write ? write.put : write.delete;
  return [key, parseKey(key)];
}

/** What a new instance is going to make: its children, the volumes of databases, and a deployment of each application. */
function childrenAmount({ desired: { children } }: ReadonlyResource<'template_instance'>): Amount {
  const objects = children.reduce((sum, { kind }) => sum + (kind === 'volume' ? 1 : 2), 0);
  return { objects, bytes: Buffer.byteLength(JSON.stringify(children)) + objects * objectBytes };
}

/** Sums what a transaction adds, by scope. */
class Sums {
  readonly #view: TenantView;
  readonly #objects: readonly ObjectEffect[];
  readonly #shares = new Map<string, Share>();
  readonly #whole: Amount = { bytes: 0, objects: 0 };

  constructor(view: TenantView, objects: readonly ObjectEffect[]) {
    this.#view = view;
    this.#objects = objects;
  }

  add({ project, user }: Holder, adds: Amount): void {
    this.#whole.bytes += adds.bytes;
    this.#whole.objects += adds.objects;
    if (project !== undefined) this.#addTo({ of: 'project', id: project }, adds);
    const owner = user ?? (project === undefined ? undefined : this.#ownerOf(project));
    if (owner !== undefined) this.addUser(owner, adds);
  }

  addUser(id: string, adds: Amount): void {
    this.#addTo({ of: 'user', id }, adds);
  }

  shares(): Share[] {
    const all = [...this.#shares.values()].toSorted((a, b) => a.scope.of.localeCompare(b.scope.of));
    return [
      ...all,
      { scope: { of: 'tenant' }, adds: this.#whole },
      { scope: { of: 'installation' }, adds: this.#whole },
    ];
  }

  /** The holder of a key: that of the object it belongs to, in the transaction or in the view. */
  holderOf(meaning: KeyMeaning, caller: string | undefined): Holder {
    if (meaning.area === 'idempotency') return caller === undefined ? {} : { user: caller };
    if (!('kind' in meaning && 'id' in meaning) || !isKindName(meaning.kind)) return {};
    const { kind, id } = meaning;
    const it = this.#objects.find((one) => one.it.meta.id === id)?.it ?? this.#view.get(kind, id);
    return it === undefined ? {} : holderOf(kind, id, it.desired);
  }

  #ownerOf(project: string): string | undefined {
    const changed = this.#objects.map(({ it }) => it).find((it) => it.meta.id === project);
    return isProject(changed) ? changed.desired.owner_id : this.#view.get('project', project)?.desired.owner_id;
  }

  #addTo(scope: Scope, { bytes, objects }: Amount): void {
    const name = scopeName(this.#view.tenant, scope);
    const share = this.#shares.get(name) ?? { scope, adds: { bytes: 0, objects: 0 } };
    share.adds.bytes += bytes;
    share.adds.objects += objects;
    this.#shares.set(name, share);
  }
}

function isProject(it: ReadonlyResource | undefined): it is ReadonlyResource<'project'> {
  return it?.meta.kind === 'project';
}

function isEnvironment(it: ReadonlyResource): it is ReadonlyResource<'environment'> {
  return it.meta.kind === 'environment';
}
