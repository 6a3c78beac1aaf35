import type { ReadonlyResource } from '../../store/resource.ts';
import { conflicting } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';

/** The password of a registry, for a login. @throws ApiError CONFLICT if it does not open */
export function registryPassword(
  { tenant, unsealer }: Pick<RequestContext, 'tenant' | 'unsealer'>,
  { meta, desired }: ReadonlyResource<'registry'>,
): string {
  try {
    return unsealer.unseal(desired.password, { tenant, kind: 'registry', id: meta.id, path: 'password' });
  } catch {
    throw conflicting(
      'The password of the registry cannot be decrypted: its key is not on the control plane. Restore the key file, or give the registry its password anew',
    );
  }
}
