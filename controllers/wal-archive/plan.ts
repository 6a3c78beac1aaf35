import { defined } from '../../store/defined.ts';
import { volumeName } from '../../store/kinds/volume.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import type { Action } from '../rollout/actions.ts';
import { planOne } from '../rollout/actions.ts';
import { isOpen } from './states.ts';
import type { World } from './states.ts';

/** Of the assignment that sends the segments, among what an archive has. */
export const senderRole = 'sender';

/** The write that has the segments sent while the database writes into this archive. Pure. */
export function plan(world: World): Action[] {
  const { archive, sender, instance } = world;
  if (!isOpen(world)) return planOne(archive, senderRole, { present: sender, desired: undefined });
  // an instance that is made again keeps its id
  if (instance === undefined) return [];
  return planOne(archive, senderRole, { present: sender, desired: senderOf(world, instance.meta.id) });
}

function senderOf({ archive, destination }: World, instance: string): DesiredOf<'assignment'> {
  const { meta, desired } = archive;
  const spec = defined({
    type: 'archive' as const,
    engine: desired.engine.type,
    version: desired.engine.version,
    instance,
    volume: volumeName(desired.volume_id),
    ca: destination?.desired.ca,
  });
  return {
    ...desired.place,
    project_id: desired.project_id,
    workload_kind: 'wal_archive',
    workload_id: meta.id,
    workload_name: desired.name,
    service: mainService,
    version: meta.id,
    run: 'running',
    spec,
    spec_hash: JSON.stringify(spec),
  };
}
