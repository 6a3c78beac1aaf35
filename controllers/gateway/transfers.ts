import type { Addresses, AskParams } from '../../agent-protocol/messages.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { isSegment, isSettled } from '../../databases/wal.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { logKey } from '../../store/archive-keys.ts';
import { backupKeys } from '../../store/backup-keys.ts';
import { hasBackupEnded } from '../../store/kinds/backup.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { SealedValue } from '../../store/kinds/define.ts';
import type { Unsealer } from '../../store/seal.ts';
import { bucketPlace } from '../backup-destination/place.ts';

/** Signs addresses of a bucket. Whoever has one may send to it or fetch from it until it expires. Keys are without prefix. */
export interface AddressSigner {
  /** Of parts of an upload, by their numbers. */
  parts(place: BucketPlace, upload: { key: string; id: string }, numbers: readonly number[]): Promise<string[]>;
  /** Of an object. */
  object(place: BucketPlace, key: string): Promise<string>;
  /** To write an object as a whole. */
  writes(place: BucketPlace, keys: readonly string[]): Promise<string[]>;
}

/** What addresses are signed with, and for whom. */
export interface TransferDeps {
  view: TenantView;
  unsealer: Unsealer;
  signer: AddressSigner;
  /** Whose agent asks. */
  server: string;
}

/**
 * Signs the addresses that a task needs to send or fetch bytes. A server gets those of its own tasks only, and only while
 * they are to run. What an archive has is not written again, but for the last segments.
 *
 * @throws CallError `not_assigned`, `already_sent`, or `secret_unavailable` if the keys of the destination do not open
 */
export async function signedAddresses(deps: TransferDeps, params: AskParams): Promise<Addresses> {
  const { view, server } = deps;
  const task = view.get('assignment', params.assignment);
  if (!isStaying(task) || task.desired.server_id !== server || task.desired.run !== 'running') throw notAssigned();
  const { workload_kind: kind, workload_id: id } = task.desired;
  switch (params.about) {
    case 'upload.parts':
      if (kind === 'backup') return partsOf(deps, id, params.parts);
      break;
    case 'download':
      if (kind === 'restore') return objectOf(deps, id);
      break;
    case 'archive.send':
      if (kind === 'wal_archive') return intoArchive(deps, id, params.files);
      break;
    case 'archive.fetch':
      if (kind === 'restore') return outOfArchive(deps, id, params.files);
      break;
  }
  throw notAssigned();
}

async function partsOf(deps: TransferDeps, id: string, parts: readonly number[]): Promise<Addresses> {
  const backup = deps.view.get('backup', id);
  const upload = backup?.observed?.upload_id;
  if (backup === undefined || upload === undefined || hasBackupEnded(backup.observed?.phase)) throw notAssigned();
  const { object: key } = backupKeys(backup);
  return { addresses: await deps.signer.parts(placeOf(deps, backup), { key, id: upload }, parts) };
}

async function objectOf(deps: TransferDeps, id: string): Promise<Addresses> {
  const restore = deps.view.get('restore', id);
  const source = restore?.desired.source;
  if (source?.by === 'url' && !hasRestoreEnded(restore?.observed?.phase))
    return { addresses: [sourceAddress(deps, id, source.address)] };
  const backup = deps.view.get('backup', restore?.desired.backup_id ?? '');
  if (backup === undefined || hasRestoreEnded(restore?.observed?.phase)) throw notAssigned();
  return { addresses: [await deps.signer.object(placeOf(deps, backup), backupKeys(backup).object)] };
}

/** The address that a user gave of a dump. */
function sourceAddress({ view, unsealer }: TransferDeps, id: string, sealed: SealedValue): string {
  try {
    return unsealer.unseal(sealed, { tenant: view.tenant, kind: 'restore', id, path: 'source.address' });
  } catch (error) {
    const message = 'The address of the dump cannot be decrypted, as its key is not on the control plane';
    throw new CallError('secret_unavailable', `${message}: restore the key file, or begin the import again`, {
      cause: error,
    });
  }
}

async function intoArchive(deps: TransferDeps, id: string, files: readonly string[]): Promise<Addresses> {
  const archive = deps.view.get('wal_archive', id);
  if (archive === undefined || archive.desired.ended || isDeleting(archive)) throw notAssigned();
  requireUnsent(archive, files);
  const keys = files.map((file) => logKey(archive, file));
  return { addresses: await deps.signer.writes(placeOf(deps, archive), keys) };
}

/** @throws CallError `already_sent`: who has taken over a server must not change what was archived before */
function requireUnsent({ observed }: ReadonlyResource<'wal_archive'>, files: readonly string[]): void {
  const last = observed?.last_segment;
  if (last === undefined || !isSegment(last)) return;
  const past = files.filter(isSegment).find((file) => isSettled(file, last));
  if (past === undefined) return;
  throw new CallError('already_sent', `Segment ${past} was archived before, and the log has come to ${last} since`);
}

async function outOfArchive(deps: TransferDeps, id: string, files: readonly string[]): Promise<Addresses> {
  const restore = deps.view.get('restore', id);
  const archive = deps.view.get('wal_archive', restore?.desired.recovery?.archive_id ?? '');
  if (archive === undefined || hasRestoreEnded(restore?.observed?.phase)) throw notAssigned();
  const place = placeOf(deps, archive);
  return { addresses: await Promise.all(files.map((file) => deps.signer.object(place, logKey(archive, file)))) };
}

function placeOf(
  { view, unsealer }: TransferDeps,
  { desired }: ReadonlyResource<'backup' | 'wal_archive'>,
): BucketPlace {
  const destination = view.get('backup_destination', desired.destination_id);
  if (destination === undefined) throw notAssigned();
  const place = bucketPlace(destination, view, unsealer);
  if ('trouble' in place) throw new CallError('secret_unavailable', place.trouble.message);
  return place;
}

function notAssigned(): CallError {
  return new CallError('not_assigned', 'No transfer of this task is wanted any more');
}
