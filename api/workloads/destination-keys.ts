import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';

/** The keys of a backup destination, for a probe. @throws ApiError CONFLICT if they do not open */
export function destinationKeys(
  { tenant, unsealer }: Pick<RequestContext, 'tenant' | 'unsealer'>,
  { meta, desired }: ReadonlyResource<'backup_destination'>,
): { accessKey: string; secretKey: string } {
  const open = (path: 'access_key' | 'secret_key'): string =>
    unsealer.unseal(desired[path], { tenant, kind: 'backup_destination', id: meta.id, path });
  try {
    return { accessKey: open('access_key'), secretKey: open('secret_key') };
  } catch {
    throw conflicting(
      'The keys of the destination cannot be decrypted: their key is not on the control plane. Restore the key file, or give the destination access_key and secret_key anew',
    );
  }
}
