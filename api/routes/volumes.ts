import { defined } from '../../store/defined.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { objectsIn } from '../../store/objects-in.ts';
import { conflicting, notFound } from '../ground/api-error.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { wordOf } from '../endpoint/subject.ts';
import { functions } from '../resources/function.ts';
import {
  mountingWorkloads,
  seenOf,
  Volume,
  VolumeBind,
  VolumeCreate,
  volumes,
  VolumeUnbind,
  VolumeUpdate,
} from '../resources/volume.ts';
import type { MountingWorkload } from '../resources/volume.ts';
import { isApplicationSettled } from '../resources/status.ts';
import { changeMounts, keepVolume, requireMountable } from '../workloads/mounting.ts';
import { holdPopulation, inWords } from '../workloads/population.ts';
import { requireVolumeRoom } from '../workloads/new-application.ts';
import { enterPlace, placeFrom } from '../workloads/place.ts';
import { referred } from '../workloads/references.ts';
import { requireOwnVolume, requireUnread } from '../workloads/backing-up.ts';
import { beginVolumeBackups, changeVolumeBackups } from '../workloads/volume-backups.ts';
import { readOnlyFields } from '../resources/object-fields.ts';
import { deleteEndpoint, eventsEndpoint, getEndpoint, listEndpoint } from './resource-endpoints.ts';

export const listVolumes = listEndpoint(volumes, { path: '/volumes', summary: 'Volumes that one may see' });

export const getVolume = getEndpoint(volumes, { path: '/volumes/:id', summary: 'A volume and what mounts it' });

export const createVolume = defineEndpoint({
  method: 'POST',
  path: '/volumes',
  summary: 'Create an empty volume on a server',
  projectFrom: 'body.project_id',
  body: VolumeCreate,
  response: Volume,
  status: 201,
  settle: volumes.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const place = placeFrom(view, body);
    requireVolumeRoom(view, place.fields.project_id, { adding: 1 });
    const unit = ctx.repo.begin();
    enterPlace(unit, place);
    const desired = { ...place.fields, name: body.name };
    const it = unit.create('volume', ctx.random.id(), desired, defined({ labels: body.labels }));
    const schedule = beginVolumeBackups(ctx, unit, it, body);
    return ctx.commit(unit, () => volumes.show(it, seenOf(view, it.meta.id, [], schedule)));
  },
});

export const updateVolume = defineEndpoint({
  method: 'PUT',
  path: '/volumes/:id',
  summary: 'Change the name, the labels or the backups of a volume',
  on: ['volume', 'id'],
  body: VolumeUpdate,
  readOnly: readOnlyFields(Volume, VolumeUpdate),
  response: Volume,
  settle: volumes.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => void (draft.name = body.name ?? draft.name));
    if (body.labels !== undefined) unit.label(it, body.labels);
    const schedule = changeVolumeBackups(ctx, unit, it, body);
    const users = mountingWorkloads(view, it.meta.id);
    return ctx.commit(unit, () => volumes.show(changed, seenOf(view, it.meta.id, users, schedule)));
  },
});

export const deleteVolume = deleteEndpoint(
  volumes,
  { path: '/volumes/:id', summary: 'Delete a volume with its data; not while something mounts it' },
  {
    async check(ctx, unit, { it }) {
      requireOwnVolume(ctx.view, it);
      requireUnread(ctx.view, it);
      await holdPopulation(ctx, unit, it);
      const users = objectsIn(ctx.view, 'volume', it.meta.id);
      if (users.length > 0) throw conflicting(`The volume is mounted (${inWords(users)}): unbind it first`);
    },
  },
);

/** A volume is bound once the workloads that mount it have their instances again, too. */
const settleBound: typeof volumes.settle = volumes.settle && {
  ...volumes.settle,
  isSettled: (view, id) =>
    volumes.settle?.isSettled(view, id) === true &&
    view.by('application', 'volume', id).every((it) => isApplicationSettled(it, view)) &&
    view.by('function', 'volume', id).every((it) => functions.settle?.isSettled(view, it.meta.id) !== false),
};

export const bindVolume = defineEndpoint({
  method: 'POST',
  path: '/volumes/:id/bind',
  summary: 'Mount a volume in an application or a function; its instances are replaced one by one',
  on: ['volume', 'id'],
  body: VolumeBind,
  response: Volume,
  settle: settleBound,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const { workload_type: kind, workload_id: id, mount_path: path, read_only: readOnly = false } = body;
    requireOwnVolume(view, it);
    const workload = besideVolume(view, it, { kind, id });
    const unit = ctx.repo.begin();
    if (isMountedSo(workload, { volume_id: it.meta.id, path, read_only: readOnly })) {
      unit.require(it);
      unit.require(workload);
      return ctx.commit(unit, () => volumes.answerOf(it, view));
    }
    await requireMountable(ctx, unit, it, workload, { path, readOnly });
    const bound = keepVolume(unit, it);
    const { data_id } = it.desired;
    const mount = { volume_id: it.meta.id, ...defined({ data_id }), path, read_only: readOnly };
    const changed = changeMounts(unit, workload, (mounts) => [...mounts, mount]);
    return ctx.commit(unit, () => volumes.show(bound, seenOf(view, it.meta.id, [changed])));
  },
});

/** Whether a request to mount a volume was done already, such as by one whose answer was lost. */
function isMountedSo(
  { desired }: MountingWorkload,
  wanted: Pick<MountingWorkload['desired']['mounts'][number], 'volume_id' | 'path' | 'read_only'>,
): boolean {
  return desired.mounts.some(
    ({ volume_id, path, read_only }) =>
      volume_id === wanted.volume_id && path === wanted.path && read_only === wanted.read_only,
  );
}

/** The workload of that id, in the project of the volume. @throws as `referred` */
function besideVolume(
  view: TenantView,
  volume: ReadonlyResource<'volume'>,
  { kind, id }: Pick<MountingWorkload['meta'], 'kind' | 'id'>,
): MountingWorkload {
  const workload: MountingWorkload =
    kind === 'function'
      ? referred(view, 'function', id, 'workload_id')
      : referred(view, 'application', id, 'workload_id');
  if (workload.desired.project_id === volume.desired.project_id) return workload;
  throw notFound(wordOf(kind), 'workload_id');
}

export const unbindVolume = defineEndpoint({
  method: 'POST',
  path: '/volumes/:id/unbind',
  summary: 'Take a volume from what mounts it; no data is removed',
  on: ['volume', 'id'],
  body: VolumeUnbind,
  response: Volume,
  settle: volumes.settle,
  handle: async (ctx, { it, body }) => {
    requireOwnVolume(ctx.view, it);
    const users = mountingWorkloads(ctx.view, it.meta.id);
    const { workload_id: only } = body;
    const kindOf = (id: string) => (ctx.view.get('function', id) === undefined ? 'application' : 'function');
    const chosen = typeof only === 'string' ? [besideVolume(ctx.view, it, { kind: kindOf(only), id: only })] : users;
    const unit = ctx.repo.begin();
    unit.require(it);
    for (const workload of chosen)
      changeMounts(unit, workload, (mounts) => mounts.filter(({ volume_id }) => volume_id !== it.meta.id));
    const others = users.filter(({ meta }) => !chosen.some((it) => it.meta.id === meta.id));
    return ctx.commit(unit, () => volumes.show(it, seenOf(ctx.view, it.meta.id, others)));
  },
});

export const listVolumeEvents = eventsEndpoint(volumes, {
  path: '/volumes/:id/events',
  summary: 'What happened to a volume, newest first',
});
