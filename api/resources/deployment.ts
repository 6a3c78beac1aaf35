import { z } from 'zod';
import { defined } from '../../store/defined.ts';
import { DeploymentPhase, DeploymentTrigger } from '../../store/kinds/application.ts';
import type { BuiltImage } from '../../store/kinds/application.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import type { Keep, Kept } from '../kept.ts';
import { deploymentStatus, isApplicationSettled, isReconciled, isUnfinished } from '../status.ts';
import { objectFields, objectFieldsOf, orNull } from './object-fields.ts';

const nullableText = z.string().nullable();

export const Deployment = z
  .object({
    ...objectFields,
    application_id: z.string(),
    project_id: z.string(),
    number: z.int(),
    status: DeploymentPhase,
    trigger: DeploymentTrigger,
    commit: nullableText,
    commit_message: nullableText,
    branch: nullableText,
    image: nullableText,
    image_digest: nullableText,
    is_current: z.boolean(),
    rollback_of: nullableText,
    triggered_by: nullableText,
    queued_at: z.string(),
    started_at: nullableText,
    built_at: nullableText,
    finished_at: nullableText,
    duration_ms: z.int().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Deployment' });
export type Deployment = z.infer<typeof Deployment>;

export function toDeployment(it: ReadonlyResource<'deployment'>, isCurrent: boolean): Deployment {
  const { desired, observed } = it;
  const { source, reuse } = desired;
  return {
    ...objectFieldsOf(it),
    application_id: desired.application_id,
    project_id: desired.project_id,
    number: desired.number,
    status: deploymentStatus(it),
    trigger: desired.trigger,
    branch: source.type === 'git' ? source.branch : null,
    ...orNull({
      image: source.type === 'image' ? source.image_url : undefined,
      image_digest: undefined,
      commit: undefined,
      commit_message: undefined,
      ...reuse,
      ...builtOf(it),
      rollback_of: desired.rollback_of,
      triggered_by: desired.triggered_by,
      started_at: observed?.started_at,
      built_at: observed?.built_at,
      finished_at: observed?.finished_at,
      error: observed?.error,
    }),
    is_current: isCurrent,
    queued_at: desired.queued_at,
    duration_ms: durationOf(it),
  };
}

/** What was observed of the image; unknown fields are absent. */
function builtOf({ observed }: ReadonlyResource<'deployment'>): Partial<BuiltImage> {
  return defined({
    image: observed?.image,
    image_digest: observed?.image_digest,
    commit: observed?.commit,
    commit_message: observed?.commit_message,
  });
}

function durationOf({ observed }: ReadonlyResource<'deployment'>): number | null {
  if (observed?.started_at === undefined || observed.finished_at === undefined) return null;
  return Math.max(0, Date.parse(observed.finished_at) - Date.parse(observed.started_at));
}

export function isCurrentDeployment(it: ReadonlyResource<'deployment'>, view: TenantView): boolean {
  return servingDeployment(view, it.desired.application_id)?.meta.id === it.meta.id;
}

export function keptDeployment(keep: Keep, it: ReadonlyResource<'deployment'>, view: TenantView): Kept<Deployment> {
  const isCurrent = isCurrentDeployment(it, view);
  return keep(it, String(isCurrent), () => toDeployment(it, isCurrent));
}

export const deploymentSettle = {
  /** Waits for the application, too, so that a read of either afterwards shows the outcome. */
  isSettled(view: TenantView, id: string): boolean {
    const it = view.get('deployment', id);
    if (it === undefined) return true;
    if (isUnfinished(it) || !isReconciled(it)) return false;
    const { application_id } = it.desired;
    const isOvertaken = view.get('application', application_id)?.desired.deployment_id !== id;
    return isOvertaken || isApplicationSettled(view, application_id);
  },
  answer({ view, keep }: { view: TenantView; keep: Keep }, id: string): Kept<Deployment> | undefined {
    const it = view.get('deployment', id);
    return it && keptDeployment(keep, it, view);
  },
};
