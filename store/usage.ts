import type { KeyMeaning } from './keys.ts';
import type { KindName } from './kinds/kinds.ts';

/** What a scope uses: bytes in the store, also in the memory of every replica, and objects that requests created. */
export interface Amount {
  bytes: number;
  objects: number;
}

/** The project or user whose budget an object counts in, beside the tenant's. */
export interface Holder {
  project?: string;
  user?: string;
}

/** Bytes counted for each object beside its records: for indexes, names and the parsed form of a small record. */
export const objectBytes = 1024;

/** Kinds that follow from other objects or from logins: other bounds limit their number. */
const uncounted: ReadonlySet<KindName> = new Set([
  'session',
  'login_code',
  'notification',
  'operation',
  'deployment',
  'assignment',
  'settings',
]);

/** Kinds that belong to an account, also where they name a project. */
const ofAccounts: ReadonlySet<KindName> = new Set(['session', 'service_key', 'notification']);

const nothing: Readonly<Amount> = { bytes: 0, objects: 0 };

/** Whether objects of the kind count in the number of objects. */
export function isCounted(kind: KindName): boolean {
  return !uncounted.has(kind);
}

/** The project or user that an object belongs to; it never changes. */
export function holderOf(kind: KindName, id: string, desired: object): Holder {
  if (kind === 'project') return { project: id };
  if (kind === 'user') return { user: id };
  if (ofAccounts.has(kind)) return 'user_id' in desired ? { user: String(desired.user_id) } : {};
  return 'project_id' in desired && typeof desired.project_id === 'string' ? { project: desired.project_id } : {};
}

/** Bytes that a key with its value counts as. */
export function bytesOf(key: string, value: string, area: KeyMeaning['area']): number {
  return Buffer.byteLength(key) + Buffer.byteLength(value) + (area === 'desired' ? objectBytes : 0);
}

interface Place extends Amount {
  tenant: string;
  holder: Holder;
}

/**
 * The use of the store by tenant, project and user. The mirror updates it record by record, so that a query costs
 * nothing. Records of the audit log are not in it, since the mirror does not list them.
 */
export class Usage {
  readonly #sizes = new Map<string, number>();
  /** All records of one object, by `<tenant>/<kind>/<id>`. */
  readonly #places = new Map<string, Place>();
  readonly #sums = new Map<string, Amount>();

  /** The use by the whole installation. */
  get total(): Readonly<Amount> {
    return this.#sums.get('') ?? nothing;
  }

  ofTenant(tenant: string): Readonly<Amount> {
    return this.#sums.get(tenant) ?? nothing;
  }

  ofProject(tenant: string, id: string): Readonly<Amount> {
    return this.#sums.get(`${tenant}/project/${id}`) ?? nothing;
  }

  /** The use by the account alone, without its projects. */
  ofAccount(tenant: string, id: string): Readonly<Amount> {
    return this.#sums.get(`${tenant}/user/${id}`) ?? nothing;
  }

  ofObject(tenant: string, kind: KindName, id: string): Readonly<Amount> {
    return this.#places.get(`${tenant}/${kind}/${id}`) ?? nothing;
  }

  /** Keys of all records that are counted. */
  keys(): Iterable<string> {
    return this.#sizes.keys();
  }

  sizeOf(key: string): number {
    return this.#sizes.get(key) ?? 0;
  }

  /** Takes over a record; without a value the record was deleted. */
  set(key: string, value: string | undefined, meaning: KeyMeaning): void {
    if (meaning.area === 'audit') return;
    const after = value === undefined ? 0 : bytesOf(key, value, meaning.area);
    const before = this.sizeOf(key);
    if (value === undefined) this.#sizes.delete(key);
    else this.#sizes.set(key, after);
    const tenant = 'tenant' in meaning ? meaning.tenant : '';
    const name = placeName(meaning);
    if (name === undefined) this.#add({ tenant, holder: {}, bytes: after - before, objects: 0 });
    else {
      const place = this.#places.get(name) ?? { tenant, holder: holderOfKey(meaning, value), bytes: 0, objects: 0 };
      const moved = { bytes: after - before, objects: 0 };
      if (meaning.area === 'desired' && value === undefined) moved.objects = -place.objects;
      this.#change(name, place, moved);
    }
  }

  /** Sets the holder of an object once its desired record was read. */
  place(tenant: string, kind: KindName, id: string, desired: object): void {
    const name = `${tenant}/${kind}/${id}`;
    const place = this.#places.get(name);
    if (place === undefined) return;
    const { bytes, objects } = place;
    this.#add({ ...place, bytes: -bytes, objects: -objects });
    place.holder = holderOf(kind, id, desired);
    place.objects = isCounted(kind) ? 1 : 0;
    this.#add(place);
  }

  /** Forgets every record whose key is not in a full list. */
  retain(listed: ReadonlySet<string>, meaningOf: (key: string) => KeyMeaning | undefined): void {
    for (const key of this.#sizes.keys()) {
      const meaning = listed.has(key) ? undefined : meaningOf(key);
      if (meaning !== undefined) this.set(key, undefined, meaning);
    }
  }

  #change(name: string, place: Place, by: Amount): void {
    place.bytes += by.bytes;
    place.objects += by.objects;
    if (place.bytes === 0) this.#places.delete(name);
    else this.#places.set(name, place);
    this.#add({ ...place, ...by });
  }

  #add({ tenant, holder: { project, user }, bytes, objects }: Place): void {
    this.#addTo('', bytes, objects);
    if (tenant === '') return;
    this.#addTo(tenant, bytes, objects);
    if (project !== undefined) this.#addTo(`${tenant}/project/${project}`, bytes, objects);
    if (user !== undefined) this.#addTo(`${tenant}/user/${user}`, bytes, objects);
  }

  #addTo(name: string, bytes: number, objects: number): void {
    const sum = this.#sums.get(name) ?? { bytes: 0, objects: 0 };
    sum.bytes += bytes;
    sum.objects += objects;
    if (sum.bytes === 0 && sum.objects === 0) this.#sums.delete(name);
    else this.#sums.set(name, sum);
  }
}

/** Records of one object share a place; a stored answer of an idempotent request has a place of its own. */
function placeName(meaning: KeyMeaning): string | undefined {
  if ('kind' in meaning && 'id' in meaning) return `${meaning.tenant}/${meaning.kind}/${meaning.id}`;
  return meaning.area === 'idempotency' ? `${meaning.tenant}/answer/${meaning.hash}` : undefined;
}

/** The holder as far as the key shows it; the desired record gives the rest. */
function holderOfKey(meaning: KeyMeaning, value: string | undefined): Holder {
  if ('kind' in meaning && 'id' in meaning && meaning.kind === 'project') return { project: meaning.id };
  if (meaning.area !== 'idempotency' || value === undefined) return {};
  const user = answeredUser(value);
  return user === undefined ? {} : { user };
}

/** The user that a stored answer is for; answers of earlier releases do not name one. */
function answeredUser(value: string): string | undefined {
  try {
    const record: unknown = JSON.parse(value);
    if (typeof record !== 'object' || record === null || !('user' in record)) return undefined;
    return typeof record.user === 'string' ? record.user : undefined;
  } catch {
    return undefined;
  }
}
