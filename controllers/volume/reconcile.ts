import { createHash } from 'node:crypto';
import { mainService } from '../../agent-protocol/workload.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { dataName } from '../../store/kinds/volume.ts';
import type { CopyFrom } from '../../store/kinds/volume.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { placesOf } from '../../store/population.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { perform, planOne } from '../rollout/actions.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { conditionsOf, isCopied, stateOf } from './states.ts';
import type { World } from './states.ts';

type Volume = ReadonlyResource<'volume'>;

/** Kinds whose objects mount volumes. */
const users = ['application', 'database', 'function'] as const;

/** Keeps a volume on its server, and removes its data when it is deleted: the record stays until the data is gone. */
export const volumeController: Controller<'volume'> = {
  name: 'volume',
  kind: 'volume',
  reads: ['assignment', 'application', 'database', 'function', 'server'],
  children: ['assignment'],
  notifies: ['volume_error'],
  wakes: [
    onChild('assignment', ({ desired }) => (desired.workload_kind === 'volume' ? [desired.workload_id] : [])),
    onChange(
      'application',
      ({ desired }) => desired.mounts,
      (it) => placesOf(it, 'volume'),
    ),
    onChange(
      'function',
      ({ desired }) => desired.mounts,
      (it) => placesOf(it, 'volume'),
    ),
    onChange(
      'database',
      ({ desired }) => desired.data_volume_id,
      ({ desired }) => [desired.data_volume_id],
    ),
    onChange(
      'server',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
      ({ meta }, view) => view.by('volume', 'server', meta.id).map((it) => it.meta.id),
    ),
  ],
  async reconcile(it, ctx) {
    const world = readWorld(it, ctx);
    const desired = world.server === 'gone' ? undefined : onServer(it, isCopied(it, world.assignment));
    await perform(ctx, planOne(it, 'volume', { present: world.assignment, desired }));
    await announce(world, ctx);
    return verdict(world);
  },
  async finalize(it, ctx) {
    const world = readWorld(it, ctx);
    const { assignment } = world;
    if (assignment === undefined) return { ...verdict(world), released: true };
    const { spec, spec_hash } = onServer(it, isCopied(it, assignment));
    const isOfIt = assignment.desired.spec_hash === spec_hash;
    const isRemoved = isOfIt && assignment.desired.run === 'stopped' && upToDate(assignment)?.phase === 'stopped';
    if (isRemoved) await ctx.retire('assignment', assignment.meta.id);
    else
      await ctx.amend('assignment', assignment.meta.id, (draft) => {
        draft.run = 'stopped';
        // what it had before may be the data of another volume by now
        if (!isOfIt) Object.assign(draft, { spec, spec_hash });
      });
    return { ...verdict(world), released: false };
  },
};

function readWorld(it: Volume, { view }: Context): World {
  const server = view.get('server', it.desired.server_id);
  return {
    volume: it,
    assignment: view.by('assignment', 'workload', it.meta.id)[0],
    isBound: users.some((kind) => view.by(kind, 'volume', it.meta.id).some(isStaying)),
    server: isStaying(server) ? server.observed?.phase : 'gone',
  };
}

function onServer(it: Volume, copied: boolean): DesiredOf<'assignment'> {
  const { meta, desired } = it;
  const name = dataName(it);
  const { copy_from: from } = desired;
  return {
    server_id: desired.server_id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    workload_kind: 'volume',
    workload_id: meta.id,
    workload_name: name,
    service: mainService,
    version: meta.id,
    run: 'running',
    spec: from === undefined || copied ? { type: 'volume', volume: name } : copyOf(name, from),
    spec_hash: createHash('sha256').update(name).digest('hex'),
  };
}

function copyOf(name: string, from: DeepReadonly<CopyFrom>): DesiredOf<'assignment'>['spec'] {
  return { type: 'copied_volume', volume: name, copy_from: plainCopy<CopyFrom>(from) };
}

/**
 * Records each change of the phase, and notifies the users who may see the volume when it is in error; not of one that goes by
 * itself, as it has what was lost once that is restored.
 */
async function announce(world: World, ctx: Context): Promise<void> {
  const { volume } = world;
  const { phase, reason, message } = stateOf(world);
  const before = volume.observed?.phase;
  if (before === undefined || before === phase) return;
  ctx.event(volume, { type: phase === 'error' ? 'warning' : 'normal', reason, message });
  if (phase !== 'error' || volume.desired.expires_at !== undefined) return;
  await ctx.notify(volume, `${volume.meta.id}/error/${volume.meta.observedRevision ?? 0}`, {
    type: 'volume_error',
    severity: 'error',
    title: `Volume ${volume.desired.name} is in error`,
    message,
  });
}

function verdict(world: World): Verdict<'volume'> {
  const { phase, because } = stateOf(world);
  const { volume, assignment } = world;
  const waitingFor = assignment === undefined ? [] : [{ kind: 'assignment' as const, id: assignment.meta.id }];
  return {
    observed: isCopied(volume, assignment) ? { phase, copied: true } : { phase },
    conditions: conditionsOf(world),
    next: because === undefined ? { settled: true } : { waitingFor, because },
  };
}
