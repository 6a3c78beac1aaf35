import { copiedFrom, copyIdOf } from '../../store/copying.ts';
import { engines } from '../../databases/engines.ts';
import type { ClonedData } from '../../store/kinds/project.ts';
import type { BackedUp } from '../../store/new-backup.ts';
import { goingOf, isDrill } from '../../store/new-drill.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isKind, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { besideVolume } from '../../store/volume-beside.ts';

type Environment = ReadonlyResource<'environment'>;

/** What brings the data of one source nearer to its copy. */
export type DataStep =
  | { do: 'back_up'; of: BackedUp; destination: ReadonlyResource<'backup_destination'>; id: string }
  | { do: 'restore'; backup: ReadonlyResource<'backup'>; into: BackedUp; id: string }
  /** `because`: what of its copy is not as it is to be. */
  | { do: 'wait'; because?: string }
  /** It is there, or never will be. `failure`: why it is not. */
  | { do: 'end'; failure?: string };

type Restoring = Extract<DataStep, { do: 'restore' }>;

/** What a clone that is complete still has to copy the data of. */
export function leftOf({ desired }: Environment): readonly ClonedData[] {
  return desired.clone_of?.data?.left ?? [];
}

/** What of an environment has data that can be copied. */
export function dataIn(view: TenantView, environmentId: string): ClonedData[] {
  return copiedFrom(view, environmentId)
    .filter(isStaying)
    .flatMap((it): ClonedData[] => {
      const { id } = it.meta;
      if (isKind(it, 'database')) return engines[it.desired.type].dump === undefined ? [] : [{ kind: 'database', id }];
      // others are of a database
      const isOwn = isKind(it, 'volume') && it.desired.database_id === undefined;
      return isOwn ? [{ kind: 'volume', id }] : [];
    });
}

/** The backup by which the data of a source goes to a clone. */
export function dataBackupId(cloneId: string, sourceId: string): string {
  return uuidv5(cloneId, `data/${sourceId}/backup`);
}

/** The restore that puts it there; its new volume follows from it. */
export function dataRestoreId(cloneId: string, sourceId: string): string {
  return uuidv5(cloneId, `data/${sourceId}/restore`);
}

/** What is next for the data of one source. Pure. The restore goes beside what its copy has, as every restore. */
export function dataStepOf(clone: Environment, source: ClonedData, view: TenantView, now: Date): DataStep {
  const { kind, id } = source;
  const restore = view.get('restore', dataRestoreId(clone.meta.id, id));
  if (restore !== undefined) return afterRestore(restore, source);
  const into = backedUp(view, kind, copyIdOf(clone.meta.id, id));
  if (into === undefined) return failed({ kind, name: id }, 'Its copy was deleted');
  const backup = view.get('backup', dataBackupId(clone.meta.id, id));
  if (backup === undefined) return backUp(clone, into, source, view);
  return afterBackup({ backup, into, id: dataRestoreId(clone.meta.id, id) }, view, now);
}

function failed({ kind, name }: { kind: string; name: string }, why: string): DataStep {
  return { do: 'end', failure: `${kind} ${name}: ${why}` };
}

function afterRestore({ desired, observed }: ReadonlyResource<'restore'>, { kind }: ClonedData): DataStep {
  switch (observed?.phase) {
    case 'completed':
      return { do: 'end' };
    case 'failed':
      return failed({ kind, name: desired.name }, observed.error?.message ?? '');
    default:
      return { do: 'wait' };
  }
}

function backUp(clone: Environment, into: BackedUp, { kind, id }: ClonedData, view: TenantView): DataStep {
  const { name } = into.it.desired;
  const of = backedUp(view, kind, id);
  if (of === undefined) return failed({ kind, name }, 'It was deleted before its data was copied');
  const destination = view.get('backup_destination', clone.desired.clone_of?.data?.destination_id ?? '');
  if (!isStaying(destination)) return failed({ kind, name }, 'The destination of its backup was deleted');
  return { do: 'back_up', of, destination, id: dataBackupId(clone.meta.id, id) };
}

/** For so long the copy of a volume may come to its server after the backup of its source, in milliseconds. */
const copyMs = 24 * 60 * 60_000;

function afterBackup(next: Omit<Restoring, 'do'>, view: TenantView, now: Date): DataStep {
  const { backup, into } = next;
  const { phase, error, finished_at: finished } = backup.observed ?? {};
  const { name } = backup.desired;
  const of = { kind: into.kind, name };
  if (phase === 'failed' || phase === 'expired') return failed(of, error?.message ?? 'Its backup went');
  if (phase !== 'completed') return { do: 'wait' };
  // a restore of a user has the data that is wanted there
  if (goingOf(view, into.it.meta.id).restore !== undefined)
    return { do: 'wait', because: `the restore into ${into.kind} ${name} to end` };
  if (hasOther(view, into)) return failed(of, 'Something else was restored into its copy, and stays there');
  // the data of two volumes is exchanged once both are there
  if (into.kind === 'database' || (into.it.observed?.phase ?? 'pending') !== 'pending')
    return { do: 'restore', ...next };
  return now.getTime() - Date.parse(finished ?? backup.meta.createdAt) > copyMs
    ? failed(of, 'Its copy was not on its server within a day')
    : { do: 'wait', because: `volume ${name} to be on its server` };
}

/** Somebody has restored or imported something into a copy. */
function hasOther(view: TenantView, { it }: BackedUp): boolean {
  return view
    .by('restore', 'of', it.meta.id)
    .some((one) => one.observed?.phase === 'completed' && !isDrill(one) && one.desired.clone_id === undefined);
}

/** The new volume of a restore into a copy, and its id. */
export function volumeBeside(restoreId: string, { kind, it }: BackedUp) {
  const id = uuidv5(restoreId, 'volume');
  return { id, desired: kind === 'database' ? volumeOf(it.meta.id, it.desired) : besideVolume(it.desired, id) };
}

function backedUp(view: TenantView, kind: ClonedData['kind'], id: string): BackedUp | undefined {
  if (kind === 'database') {
    const it = view.get('database', id);
    return isStaying(it) ? { kind, it } : undefined;
  }
  const it = view.get('volume', id);
  return isStaying(it) ? { kind, it } : undefined;
}
