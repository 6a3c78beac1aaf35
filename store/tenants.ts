import { z } from 'zod';
import type { Clock } from './clock.ts';
import { keys } from './keys.ts';
import type { Mirror } from './mirror.ts';
import type { Store } from './store.ts';

/** A name that can be the first segment of an address. */
export const TenantName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{1,38}$/, 'Must be 2 to 39 characters: a-z, 0-9 and -, beginning with a letter');

const Stored = z.object({ created_at: z.string() });

export interface Tenant {
  name: string;
  created_at: string;
}

/** Makes the tenant; `false` if it was there already. @throws ZodError if the name is none. */
export async function createTenant(store: Store, name: string, clock: Clock): Promise<boolean> {
  const key = keys.tenant(TenantName.parse(name));
  const value = JSON.stringify({ created_at: clock.now().toISOString() });
  const result = await store.txn({ if: [{ key, is: 'absent' }], then: [{ put: key, value }] });
  return result.committed;
}

/** All tenants, by name. */
export function listTenants(mirror: Pick<Mirror, 'keysUnder'>): Tenant[] {
  const prefix = keys.tenant('');
  return mirror
    .keysUnder(prefix)
    .map(({ key, value }) => ({ name: key.slice(prefix.length), ...Stored.parse(JSON.parse(value)) }))
    .toSorted((a, b) => a.name.localeCompare(b.name));
}
