import { endpointOf } from '../../store/backup-endpoint.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { isWithoutAnswer } from '../../network/bucket-trouble.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';
import { settingsOf } from '../../store/settings.ts';
import { BucketTrouble } from '../backup/bucket.ts';

/** Opens the keys of destinations. */
export type KeyOpener = Unsealer;

type Destination = ReadonlyResource<'backup_destination'>;

/** Where and as whom the bucket of a destination is asked; or why it cannot be, in words for people. */
export function bucketPlace(
  it: Destination,
  view: TenantView,
  secrets: KeyOpener,
): BucketPlace | { trouble: { code: string; message: string } } {
  const { bucket, path_prefix: prefix = '', ca, storage_class: storageClass } = it.desired;
  const at = endpointOf(it.desired);
  if ('field' in at) throw new TypeError(`Destination ${it.meta.id} was stored without ${at.field}`);
  const keys = destinationKeys(it, secrets);
  if (keys === undefined) return { trouble: keysUnreadable };
  return { ...at, ...keys, bucket, prefix, ca, storageClass, allowed: settingsOf(view).backup_endpoints };
}

/** What a bucket is asked for: to take or show something, or to let go what it has. */
export type Asking = 'use' | 'removal';

/**
 * Whether a bucket is asked while its probes fail. One that answers is asked to remove things, whatever its probes find:
 * a full one takes nothing again before something has gone.
 */
export function isAsked({ observed }: Destination, asking: Asking): boolean {
  if (observed?.phase !== 'unreachable') return true;
  return asking === 'removal' && observed.trouble !== undefined && !isWithoutAnswer(observed.trouble.code);
}

/**
 * Where and as whom a bucket is asked for a backup or an archive. The probes of a destination decide for all whether it
 * is, see {@link isAsked}.
 *
 * @throws BucketTrouble
 */
export function placeToAsk(
  it: Destination | undefined,
  view: TenantView,
  secrets: KeyOpener,
  asking: Asking,
): BucketPlace {
  if (it === undefined)
    throw new BucketTrouble({ code: 'destination_gone', message: 'Its destination was deleted', isPassing: false });
  const { trouble } = it.observed ?? {};
  if (!isAsked(it, asking))
    throw new BucketTrouble({
      code: trouble?.code ?? 'unreachable',
      message: trouble?.message ?? 'Its bucket cannot be used',
      isPassing: true,
    });
  const place = bucketPlace(it, view, secrets);
  if ('trouble' in place) throw new BucketTrouble({ ...place.trouble, isPassing: false });
  return place;
}

const keysUnreadable = {
  code: 'keys_unreadable',
  message:
    'Its keys cannot be decrypted, as their key is not on the control plane: restore the key file, or give the destination its keys anew',
} as const;

/** The keys of a destination; `undefined` if they do not open. */
function destinationKeys(
  { meta: { tenant, id }, desired }: Destination,
  secrets: KeyOpener,
): { accessKey: string; secretKey: string } | undefined {
  const open = (path: 'access_key' | 'secret_key'): string =>
    secrets.unseal(desired[path], { tenant, kind: 'backup_destination', id, path });
  try {
    return { accessKey: open('access_key'), secretKey: open('secret_key') };
  } catch {
    return undefined;
  }
}
