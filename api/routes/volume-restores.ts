import { defined } from '../../store/defined.ts';
import { goingOf } from '../../store/new-drill.ts';
import { shownPhase } from '../../store/kinds/backup.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { besideVolume } from '../../store/volume-beside.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { Restore, restores, VolumeClone } from '../resources/restore.ts';
import { volumeStatus } from '../resources/volume.ts';
import type { MountingWorkload } from '../resources/volume.ts';
import { requireInProject } from '../rights/in-project.ts';
import { requireMountable } from '../workloads/mounting.ts';
import { requireOwnVolume } from '../workloads/backing-up.ts';
import { requireVolumeRoom } from '../workloads/new-application.ts';
import { enterPlace, placeFrom } from '../workloads/place.ts';
import { referred } from '../workloads/references.ts';
import { endDrills, requireInSameProject } from '../workloads/restoring.ts';

type Backup = ReadonlyResource<'backup'>;

export const restoreVolumeBackup = defineEndpoint({
  method: 'POST',
  path: '/backups/volume/:id/restore',
  summary:
    'Bring a backup back into its volume: beside its data, which stays for a week, and mounted once all is there',
  on: ['backup', 'id'],
  heavy: true,
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it }) => {
    const { view } = ctx;
    requireOfVolume(it);
    const volume = view.get('volume', it.desired.of.id);
    if (!isStaying(volume))
      throw conflicting('The volume of the backup is gone: make a new one of the backup by clone');
    requireInSameProject(it, volume);
    requireOwnVolume(view, volume);
    if (volumeStatus(volume) === 'pending')
      throw conflicting('Cannot restore the volume as its server has not made it yet: wait until it is available');
    const running = goingOf(view, volume.meta.id).restore;
    if (running !== undefined)
      throw conflicting(`Restore ${running.meta.id} of the volume has not ended: wait for it, or cancel it`);
    requireVolumeRoom(view, volume.desired.project_id, { adding: 1 });
    const volumeId = ctx.random.id();
    const unit = ctx.repo.begin();
    unit.require(it);
    endDrills(unit, view, { id: volume.meta.id, server: volume.desired.server_id });
    // two at once: the second one finds another version of the volume
    unit.change(volume, (draft) => void (draft.restore_token = volumeId));
    unit.create('volume', volumeId, besideVolume(volume.desired, volumeId));
    const wanted = restoreOf(ctx, it, { id: volume.meta.id, desired: volume.desired, volumeId, isNew: false });
    const made = unit.create('restore', ctx.random.id(), wanted);
    return ctx.commit(unit, () => restores.answerOf(made, view));
  },
});

export const cloneVolumeBackup = defineEndpoint({
  method: 'POST',
  path: '/backups/volume/:id/clone',
  summary: 'Make a volume of a backup, for an application, a function or neither, on any server of a project',
  on: ['backup', 'id'],
  heavy: true,
  body: VolumeClone,
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    requireOfVolume(it);
    const bound = workloadOf(ctx, body);
    const wantedPlace = bound?.workload.desired ?? placeOf(it, body);
    const project = referred(view, 'project', wantedPlace.project_id, 'project_id');
    // the right is needed where the data comes from, and where it goes to
    requireInProject(ctx.principal, 'POST /backups/volume/:id/clone', view, project.meta.id);
    const place = placeFrom(view, wantedPlace);
    requireVolumeRoom(view, project.meta.id, { adding: 1 });
    const volumeId = ctx.random.id();
    const unit = ctx.repo.begin();
    unit.require(it);
    endDrills(unit, view, { server: place.fields.server_id });
    enterPlace(unit, place);
    const desired = { ...place.fields, name: body.name ?? it.desired.name };
    const volume = unit.create('volume', volumeId, desired);
    if (bound !== undefined) {
      unit.require(bound.workload);
      await requireMountable(ctx, unit, volume, bound.workload, bound);
    }
    const wanted = {
      ...restoreOf(ctx, it, { id: volumeId, desired, volumeId, isNew: true }),
      ...defined({ bind: bound && bindOf(bound) }),
    };
    const made = unit.create('restore', ctx.random.id(), wanted);
    return ctx.commit(unit, () => restores.answerOf(made, view));
  },
});

/** @throws ApiError CONFLICT unless it is of a volume, and can be read */
function requireOfVolume({ desired, observed }: Backup): void {
  if (desired.of.kind !== 'volume') throw conflicting('Cannot restore the backup as a volume as it is of a database');
  const phase = shownPhase(observed);
  if (phase === 'completed') return;
  throw conflicting(`Cannot restore the backup as it is ${phase}: choose one that is completed`);
}

/** What is to mount a new volume, and where. */
interface Bound {
  workload: MountingWorkload;
  path: string;
  readOnly: boolean;
}

function bindOf({ workload: { meta }, path, readOnly }: Bound): DesiredOf<'restore'>['bind'] {
  const { kind, id } = meta;
  return { application_id: id, ...(kind === 'function' && { workload_kind: kind }), path, read_only: readOnly };
}

/** What is to mount the new volume, if the body names it. @throws ApiError as `referred` */
function workloadOf(ctx: RequestContext, body: VolumeClone): Bound | undefined {
  const { view } = ctx;
  const { workload_id: id, mount_path: path, read_only, project_id, environment_id, server_id } = body;
  const isNamed = typeof id === 'string';
  if (!isNamed) {
    if (typeof path === 'string') throw badField('workload_id', 'required', 'workload_id is required with mount_path');
    return undefined;
  }
  const kind = body.workload_type ?? (view.get('function', id) === undefined ? 'application' : 'function');
  const workload: MountingWorkload =
    kind === 'function'
      ? referred(view, 'function', id, 'workload_id')
      : referred(view, 'application', id, 'workload_id');
  requireInProject(ctx.principal, 'POST /backups/volume/:id/clone', view, workload.desired.project_id);
  if (typeof path !== 'string') throw badField('mount_path', 'required', 'mount_path is required with workload_id');
  const elsewhere = [project_id, environment_id, server_id].some((field) => typeof field === 'string');
  if (elsewhere)
    throw badField(
      'workload_id',
      'conflict',
      'Send workload_id, or the place of the volume: it is where its workload is',
    );
  return { workload, path, readOnly: read_only === true };
}

function placeOf({ desired }: Backup, { project_id, environment_id, server_id }: VolumeClone) {
  const project = project_id ?? desired.project_id;
  if (project !== desired.project_id) return { project_id: project, environment_id, server_id };
  const { place } = desired;
  return {
    project_id: project,
    environment_id: environment_id ?? place.environment_id,
    server_id: server_id ?? place.server_id,
  };
}

function restoreOf(
  ctx: RequestContext,
  backup: Backup,
  of: { id: string; desired: Place; volumeId: string; isNew: boolean },
): DesiredOf<'restore'> {
  const { project_id, environment_id, server_id, name } = of.desired;
  return {
    project_id,
    place: { environment_id, server_id },
    backup_id: backup.meta.id,
    of: { kind: 'volume', id: of.id },
    volume_id: of.volumeId,
    name,
    is_new: of.isNew,
    requested_by: ctx.principal.user.meta.id,
    requested_at: ctx.clock.now().toISOString(),
    switch_requested: false,
    cancel_requested: false,
  };
}

type Place = Pick<DesiredOf<'volume'>, 'project_id' | 'environment_id' | 'server_id' | 'name'>;
