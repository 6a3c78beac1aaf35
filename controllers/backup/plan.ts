import { defined } from '../../store/defined.ts';
import { dataName } from '../../store/kinds/volume.ts';
import type { Action } from '../rollout/actions.ts';
import type { Assignment } from '../rollout/slots.ts';
import { partBytesFor } from '../../network/multipart.ts';
import { planTask } from '../task/task.ts';
import { isReading, uploadVersion } from './states.ts';
import type { Step, World } from './states.ts';

/** The writes that a step needs. Pure. The task goes once what it sent is an object, or is given up. */
export function plan(world: World, step: Step): Action[] {
  const { backup, task } = world;
  if (step.do === 'finish' || step.do === 'wait' || step.do === 'begin') return [];
  if (step.do !== 'send') return planTask('backup', backup, { task, wanted: undefined });
  const how = howOf(world);
  const { desired, meta } = backup;
  if (how === undefined) return [];
  return planTask('backup', backup, {
    task,
    wanted: {
      place: {
        ...desired.place,
        project_id: desired.project_id,
        workload_kind: 'backup',
        workload_id: meta.id,
        workload_name: desired.name,
        version: uploadVersion(backup),
      },
      spec: (head) => ({ ...head, ...how }),
    },
  });
}

type Spec = Extract<Assignment['desired']['spec'], { type: 'backup' }>;

type How = Pick<Spec, 'engine' | 'instance' | 'method' | 'volume' | 'part_bytes' | 'ca'>;

/**
 * What a task was made with stays: another one would begin anew. But no attempt begins to read what a restore has replaced
 * meanwhile, nor goes on to read the former data of a volume: it would be the newest backup, of data that was given up.
 * `undefined`: there is nothing that could be sent.
 */
function howOf(world: World): How | undefined {
  const { task, destination, expectedBytes, backup } = world;
  const source = sourceOf(world);
  const made = task?.desired.spec;
  if (made?.type === 'backup') {
    const { engine, instance, method, volume, part_bytes, ca } = made;
    const stays = backup.desired.of.kind === 'database' && isReading(task);
    return defined({ engine, instance, method, volume, ...(!stays && source), part_bytes, ca });
  }
  if (source === undefined) return undefined;
  return defined({
    ...source,
    part_bytes: partBytesFor(expectedBytes),
    ca: destination?.desired.ca,
  });
}

type Source = Pick<How, 'engine' | 'instance' | 'method' | 'volume'>;

function sourceOf({ backup, instance, volume }: World): Source | undefined {
  const { of, method } = backup.desired;
  if (of.kind === 'volume') return volume && { volume: dataName(volume) };
  const how = method === 'physical' && { method };
  return instance && { engine: of.engine.type, instance: instance.meta.id, ...how };
}
