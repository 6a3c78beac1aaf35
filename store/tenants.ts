import { z } from 'zod';
import type { Clock } from '../time/clock.ts';
import { keys } from './keys.ts';
import type { Mirror } from './mirror.ts';
import type { Guard, Store, Write } from './store.ts';

/** A name that can be the first segment of an address. */
export const TenantName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,38}$/, 'Must be 2 to 39 characters: a-z, 0-9 and -, beginning with a letter');

const Stored = z.object({
  created_at: z.string(),
  /** Set once, never unset: from then on requests of the tenant are refused, and the leader deletes all of it. */
  deletion_requested_at: z.string().exactOptional(),
});

export interface Tenant {
  name: string;
  created_at: string;
  state: 'active' | 'deleting';
}

/**
 * Creates the tenant, with `also` in the same transaction; `false` if it exists, also while it is being deleted.
 *
 * @throws ZodError if the name is not valid
 */
export async function createTenant(
  store: Store,
  name: string,
  clock: Clock,
  also: readonly Write[] = [],
): Promise<boolean> {
  const key = keys.tenant(TenantName.parse(name));
  const value = JSON.stringify({ created_at: clock.now().toISOString() } satisfies z.infer<typeof Stored>);
  const result = await store.txn({ if: [{ key, is: 'absent' }], then: [{ put: key, value }, ...also] });
  return result.committed;
}

/** An installation without any tenant gets the one called `default`. */
export async function createFirstTenant(store: Store, clock: Clock): Promise<void> {
  const { entries } = await store.list({ prefix: keys.tenant('') }, { limit: 1 });
  if (entries.length === 0) await createTenant(store, 'default', clock);
}

const attempts = 5;

/**
 * Requests the deletion of a tenant and everything in it. Idempotent. `last`: no other tenant would be left and the
 * installation could not be used, so nothing was done. `also` is written by the same transaction.
 */
export async function requestTenantDeletion(
  store: Store,
  name: string,
  clock: Clock,
  also: readonly Write[] = [],
): Promise<'requested' | 'unknown' | 'last'> {
  const key = keys.tenant(name);
  for (let attempt = 1; ; attempt++) {
    const entry = await store.get(key);
    if (entry === undefined) return 'unknown';
    const before = Stored.parse(JSON.parse(entry.value));
    if (before.deletion_requested_at !== undefined) return 'requested';
    const { entries } = await store.list({ prefix: keys.tenant('') });
    const other = entries.find((it) => it.key !== key && isOpenRecord(it.value));
    if (other === undefined) return 'last';
    const value = JSON.stringify({ ...before, deletion_requested_at: clock.now().toISOString() });
    const result = await store.txn({
      if: [
        { key, is: 'at', revision: entry.modRevision },
        { key: other.key, is: 'at', revision: other.modRevision },
      ],
      then: [{ put: key, value }, ...also],
    });
    if (result.committed) return 'requested';
    if (attempt === attempts) throw new Error(`Tenants changed at every attempt to delete one: ${name}`);
  }
}

/** Whether the tenant exists and is not being deleted. */
export function isOpenTenant(mirror: Pick<Mirror, 'key'>, name: string): boolean {
  const record = mirror.key(keys.tenant(name));
  return record !== undefined && isOpenRecord(record.value);
}

/**
 * The guard that the tenant is as the mirror shows it, so that nothing is created in one that is being deleted.
 * `undefined` if the tenant is not open.
 */
export function openTenantGuard(mirror: Pick<Mirror, 'key'>, name: string): Guard | undefined {
  const key = keys.tenant(name);
  const record = mirror.key(key);
  return record !== undefined && isOpenRecord(record.value) ? { key, is: 'at', revision: record.revision } : undefined;
}

/** All tenants, by name. */
export function listTenants(mirror: Pick<Mirror, 'keysUnder'>): Tenant[] {
  const prefix = keys.tenant('');
  return mirror
    .keysUnder(prefix)
    .map(({ key, value }) => {
      const { created_at, deletion_requested_at } = Stored.parse(JSON.parse(value));
      const state = deletion_requested_at === undefined ? ('active' as const) : ('deleting' as const);
      return { name: key.slice(prefix.length), created_at, state };
    })
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

/** Names of the tenants that are being deleted. */
export function deletingTenants(mirror: Pick<Mirror, 'keysUnder'>): string[] {
  const prefix = keys.tenant('');
  return mirror
    .keysUnder(prefix)
    .filter(({ value }) => !isOpenRecord(value))
    .map(({ key }) => key.slice(prefix.length));
}

/** When the deletion of a tenant was requested; `undefined`: it was not, or there is no such tenant. */
export function deletionRequestedAt(mirror: Pick<Mirror, 'key'>, name: string): string | undefined {
  const record = mirror.key(keys.tenant(name));
  return record === undefined ? undefined : Stored.parse(JSON.parse(record.value)).deletion_requested_at;
}

/** A tenant is open without a deletion request, whatever else its record holds. No schema: it runs at every request. */
function isOpenRecord(value: string): boolean {
  const record: unknown = JSON.parse(value);
  return typeof record !== 'object' || record === null || !('deletion_requested_at' in record);
}
