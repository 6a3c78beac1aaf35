import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import { isDrill } from '../../store/new-drill.ts';
import { engines } from '../../databases/engines.ts';
import { sideInstance } from '../database/instance.ts';
import type { Action } from '../rollout/actions.ts';
import { planOne } from '../rollout/actions.ts';
import { planTask } from '../task/task.ts';
import type { Wanted } from '../task/task.ts';
import type { Step, World } from './states.ts';

/** Of the instance beside the one that serves, among what a restore has. Its task has the role `restore`. */
export const sideRole = 'instance';

/**
 * The writes of instance and task that a step needs. Pure. What ended goes with the next step, once what came of it was noted:
 * without it, an end that was not stored would be no end, and the restore would begin anew in a volume that is filled.
 */
export function plan(world: World, step: Step): Action[] {
  const { restore, side, task, database, volume } = world;
  switch (step.do) {
    case 'start_side':
      if (database === undefined || volume === undefined) return [];
      return planOne(restore, sideRole, {
        present: side,
        desired: sideInstance(database, volume.meta.id, { target: targetOf(restore), isDrill: isDrill(restore) }),
      });
    case 'recover':
      return recovering(world);
    case 'read': {
      const wanted = wantedOf(world);
      // once it was begun it stays as it is: another one would begin anew
      return task !== undefined || wanted === undefined ? [] : planTask('restore', restore, { task, wanted });
    }
    case 'stop_side':
      return ending(side);
    case 'clear':
    case 'tidy':
    case 'rest':
      return [
        ...planOne(restore, sideRole, { present: side, desired: undefined }),
        ...planTask('restore', restore, { task, wanted: undefined }),
        ...planTask('recovery', restore, { task: world.recovery, wanted: undefined }),
      ];
    case 'again':
    case 'fail':
    case 'complete':
    case 'make':
    case 'switch':
    case 'turn_back':
    case 'wait':
    case 'hold':
      return [];
  }
}

/** Once it was begun it stays as it is. */
function recovering(world: World): Action[] {
  const { restore, recovery: task } = world;
  const wanted = recoveryOf(world);
  return task !== undefined || wanted === undefined ? [] : planTask('recovery', restore, { task, wanted });
}

/** The instant that it recovers to; absent: it is no recovery. */
function targetOf({ desired: { recovery } }: World['restore']): Date | undefined {
  return recovery && new Date(recovery.target_time);
}

function recoveryOf({ restore, database, side, volume }: World): Wanted<'recovery'> | undefined {
  const { place, project_id, name, recovery } = restore.desired;
  if (recovery === undefined || database === undefined || side === undefined || volume === undefined) return undefined;
  return {
    place: {
      ...place,
      project_id,
      workload_kind: 'restore',
      workload_id: restore.meta.id,
      workload_name: name,
      version: restore.meta.id,
    },
    spec: (head) => ({
      ...head,
      engine: database.desired.type,
      instance: side.meta.id,
      volume: volumeName(volume.meta.id),
      target_time: recovery.target_time,
    }),
  };
}

/** Ends an instance by its graceful end, and removes it then. */
function ending(side: World['side']): Action[] {
  if (side === undefined) return [];
  if (side.desired.run === 'running') return [{ do: 'stop', id: side.meta.id }];
  return side.observed?.phase === 'stopped' ? [{ do: 'retire', id: side.meta.id }] : [];
}

/** The part of the log that a recovery needs. */
function logOf({ restore, database, archive }: World) {
  const { recovery } = restore.desired;
  if (recovery === undefined || database === undefined) return undefined;
  const { first_segment, last_segment } = recovery;
  const system_identifier = archive?.observed?.system_identifier;
  return defined({ version: database.desired.version, first_segment, last_segment, system_identifier });
}

function wantedOf(world: World): Wanted<'restore'> | undefined {
  const { restore, backup, database, destination, side, volume } = world;
  const source = sourceOf(world);
  const seen = source === undefined ? backup?.observed : { size_bytes: 0, dump_bytes: 0, checksum_sha256: '' };
  if (volume === undefined) return undefined;
  if (seen?.size_bytes === undefined || seen.dump_bytes === undefined || seen.checksum_sha256 === undefined)
    return undefined;
  const { size_bytes, dump_bytes, checksum_sha256 } = seen;
  const how =
    database === undefined
      ? { format: 'tar' as const }
      : engineOf(database.desired.type, restore.desired.recovery === undefined ? side : undefined);
  const { place, project_id, name } = restore.desired;
  return {
    place: {
      ...place,
      project_id,
      workload_kind: 'restore',
      workload_id: restore.meta.id,
      workload_name: name,
      version: restore.meta.id,
    },
    spec: (head) =>
      defined({
        ...head,
        ...how,
        volume: volumeName(volume.meta.id),
        size_bytes,
        dump_bytes,
        checksum_sha256,
        log: logOf(world),
        source,
        ca: destination?.desired.ca,
      }),
  };
}

/** The dump of a user, as its server knows it. */
function sourceOf({ restore, database }: World) {
  const { source } = restore.desired;
  if (source === undefined || database === undefined) return undefined;
  const name = source.by === 'upload' ? source.id : source.by === 'path' ? source.path : '';
  return { by: source.by, name, database: database.desired.database_name };
}

/** How the engine reads its dump: through an instance, or as files before one begins. */
function engineOf(type: DesiredOf<'database'>['type'], side: World['side']) {
  const isByFiles = engines[type].dump?.restore.by === 'files';
  return { engine: type, instance: isByFiles ? undefined : side?.meta.id };
}
