import type { Mirror } from '../../store/mirror.ts';
import type { Store, Write } from '../../store/store.ts';
import { openTenantGuard } from '../../store/tenants.ts';
import { notFound } from './api-error.ts';

/**
 * Writes keys of a tenant that belong to no object, unless the tenant is being deleted: then nothing may come after what its
 * deletion has removed. @throws ApiError NOT_FOUND; any error of the store
 */
export async function writeInTenant(
  { store, mirror }: { store: Pick<Store, 'txn'>; mirror: Pick<Mirror, 'key'> },
  tenant: string,
  writes: Write[],
): Promise<void> {
  const open = openTenantGuard(mirror, tenant);
  const done = open && (await store.txn({ if: [open], then: writes }));
  if (done?.committed !== true) throw notFound('Tenant');
}
