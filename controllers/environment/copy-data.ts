import { newBackup } from '../../store/new-backup.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { Context, Verdict } from '../runtime/controller.ts';
import { dataBackupId, dataStepOf, leftOf, volumeBeside } from './data.ts';
import type { DataStep } from './data.ts';

type Environment = ReadonlyResource<'environment'>;

/** Pause between two looks, in milliseconds: what ends wakes it. */
const lookMs = 60_000;

/** Brings the data of its source into a clone that has all else: each by a backup, which goes once it was restored. */
export async function advanceData(it: Environment, ctx: Context): Promise<Verdict<'environment'>> {
  const left = leftOf(it);
  const ended: { id: string; failure: string | undefined }[] = [];
  const waits: string[] = [];
  for (const source of left) {
    const step = dataStepOf(it, source, ctx.view, ctx.clock.now());
    if (step.do === 'wait' && step.because !== undefined) waits.push(step.because);
    if (step.do === 'end') ended.push({ id: source.id, failure: step.failure });
    else await carryOut(it, step, ctx);
  }
  for (const { id } of ended) await ctx.retire('backup', dataBackupId(it.meta.id, id));
  if (ended.length > 0) {
    await announce(it, ended, ctx);
    await ctx.amend('environment', it.meta.id, (draft) => {
      const data = draft.clone_of?.data;
      if (data === undefined) return;
      data.left = (data.left ?? []).filter(({ id }) => !ended.some((one) => one.id === id));
      data.failed.push(...ended.flatMap(({ failure }) => failure ?? []));
    });
  }
  const total = it.desired.clone_of?.data?.total ?? 0;
  const copied = `All objects are copied, and data of ${total - left.length} of ${total} databases and volumes`;
  const [first] = waits;
  const message = first === undefined ? copied : `${copied}. It waits for ${first}`;
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'false', reason: 'CopyingData', message }],
    next:
      ended.length > 0
        ? { again: 0, because: 'the rest of the data to be copied' }
        : { again: lookMs, because: 'data of its source to be copied' },
  };
}

async function carryOut(it: Environment, step: Exclude<DataStep, { do: 'end' }>, ctx: Context): Promise<void> {
  switch (step.do) {
    case 'wait':
      return;
    case 'back_up': {
      const { of, destination, id } = step;
      await ctx.transact((unit) => {
        unit.require(it);
        unit.require(destination);
        unit.require(of.it);
        unit.create('backup', id, { ...newBackup(of, destination, ctx.clock.now()), clone_id: it.meta.id });
      });
      return;
    }
    case 'restore': {
      const { into, backup, id } = step;
      const { project_id, environment_id, server_id, name } = into.it.desired;
      const volume = volumeBeside(id, into);
      await ctx.transact((unit) => {
        unit.require(it);
        unit.require(backup);
        // a restore of a user at once: one of the two finds another version
        if (into.kind === 'database') unit.change(into.it, (draft) => void (draft.restore_token = volume.id));
        else unit.change(into.it, (draft) => void (draft.restore_token = volume.id));
        unit.create('volume', volume.id, volume.desired);
        unit.create('restore', id, {
          project_id,
          place: { environment_id, server_id },
          backup_id: backup.meta.id,
          of: { kind: into.kind, id: into.it.meta.id },
          volume_id: volume.id,
          name,
          is_new: false,
          clone_id: it.meta.id,
          switch_requested: false,
          requested_at: ctx.clock.now().toISOString(),
          cancel_requested: false,
        });
      });
    }
  }
}

/** Whether the copies of a clone that is complete have the data of their sources; none: they begin empty. */
export function dataConditions({ desired }: Environment): ConditionInput[] {
  const data = desired.clone_of?.data;
  if (data === undefined) return [];
  const type = 'DataCopied';
  return data.failed.length === 0
    ? [{ type, status: 'true', reason: 'Copied', message: `Data of ${data.total} databases and volumes is copied` }]
    : [{ type, status: 'false', reason: 'NotCopied', message: `Not copied. ${data.failed.join('; ')}` }];
}

/** Removes what a clone that is deleted has begun. */
export async function abandonData(it: Environment, ctx: Context): Promise<void> {
  for (const { id } of leftOf(it)) await ctx.retire('backup', dataBackupId(it.meta.id, id));
}

/** Clones of a project that copy the data of an object. */
export function clonesCopying(view: TenantView, projectId: string, id: string): string[] {
  return view
    .by('environment', 'project', projectId)
    .filter((it) => leftOf(it).some((one) => one.id === id))
    .map(({ meta }) => meta.id);
}

/** Notifies the users who may see the project of data that could not be copied. */
async function announce(
  it: Environment,
  ended: readonly { id: string; failure: string | undefined }[],
  ctx: Context,
): Promise<void> {
  const project = ctx.view.get('project', it.desired.project_id);
  if (!isStaying(project)) return;
  for (const { id, failure: message } of ended) {
    if (message === undefined) continue;
    ctx.event(it, { type: 'warning', reason: 'DataNotCopied', about: id, message });
    await ctx.notify(project, `clone/${it.meta.id}/data/${id}`, {
      type: 'clone_data_failed',
      severity: 'error',
      title: `Clone ${it.desired.name} lacks data`,
      message,
    });
  }
}
