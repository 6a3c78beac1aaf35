import { z } from 'zod';
import { defined } from '../../store/defined.ts';
import { DeploymentPhase, DeploymentTrigger, repositoryOf } from '../../store/kinds/application.ts';
import type { BuiltImage } from '../../store/kinds/application.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isDeepStrictEqual } from 'node:util';
import type { TenantView } from '../../store/mirror.ts';
import { isSuccess, servingDeployment, successes } from '../../store/serving.ts';
import { progressOf, taskProgress } from '../../store/task-progress.ts';
import { buildRole, isToBuild } from '../../store/kinds/composed-service.ts';
import { deploymentVerbs } from '../../rules/deployment.ts';
import { deploymentStatus, isApplicationSettled, isReconciled, isUnfinished } from './status.ts';
import { objectFields, objectFieldsOf, orNull } from './object-fields.ts';
import { defineResource } from './resource.ts';

const nullableText = z.string().nullable();

const TaskProgress = z
  .object({
    step: z.string().meta({ description: 'What it does now, such as `cloning`; later releases may have other words' }),
    done: z.int().nullable().meta({ description: 'How much of the step is done, in `unit`' }),
    total: z.int().nullable(),
    unit: z.string().nullable().meta({ description: 'Such as `steps`, `images` or `bytes`' }),
  })
  .meta({ id: 'TaskProgress', description: 'How far a running task is' });
type TaskProgress = z.infer<typeof TaskProgress>;

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
    dockerfile: nullableText.meta({ description: 'The Dockerfile that was generated for its build, if one was' }),
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
    progress: TaskProgress.nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Deployment' });
export type Deployment = z.infer<typeof Deployment>;

const Value = z.union([z.string(), z.number(), z.boolean()]).nullable();

/** A deployment with what its configuration changed. */
export const DeploymentDetail = Deployment.extend({
  changes: z
    .array(
      z.object({
        field: z.string().meta({ description: 'Such as `image_url`, `healthcheck.path` or `env.NAME`' }),
        change: z.enum(['added', 'changed', 'removed']),
        before: Value.meta({ description: '`null` for a secret' }),
        after: Value,
      }),
    )
    .nullable()
    .meta({ description: 'Differences to the deployment before it; `null` where that is not kept' }),
  notes: z
    .array(z.string())
    .meta({ description: 'What of its compose file means something else here than to compose' }),
}).meta({ id: 'DeploymentDetail' });

function toDeployment(
  it: ReadonlyResource<'deployment'>,
  seen: Pick<Deployment, 'is_current' | 'progress'>,
): Deployment {
  const { desired, observed } = it;
  const { source, reuse } = desired;
  return {
    ...objectFieldsOf(it),
    application_id: desired.application_id,
    project_id: desired.project_id,
    number: desired.number,
    status: deploymentStatus(it),
    trigger: desired.trigger,
    branch: repositoryOf(source)?.branch ?? null,
    ...orNull({
      image: source.type === 'image' ? source.image_url : undefined,
      image_digest: undefined,
      commit: desired.commit,
      commit_message: undefined,
      ...reuse,
      ...builtOf(it),
      dockerfile: observed?.dockerfile,
      rollback_of: desired.rollback_of,
      triggered_by: desired.triggered_by,
      started_at: observed?.started_at,
      built_at: observed?.built_at,
      finished_at: observed?.finished_at,
      error: observed?.error,
    }),
    ...seen,
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

/** How far its build is; `null` unless one runs. */
function buildProgress(it: ReadonlyResource<'deployment'>, view: TenantView): TaskProgress | null {
  const roles = ['build', ...(it.desired.services ?? []).filter(isToBuild).map(({ name }) => buildRole(name))];
  const progress = isUnfinished(it) ? firstOf(roles, (role) => taskProgress(view, it.meta.id, role)) : undefined;
  if (progress === undefined) return null;
  const { step, done, total, unit } = progress;
  return { step, ...orNull({ done, total, unit }) };
}

function firstOf<T, R>(all: readonly T[], read: (one: T) => R | undefined): R | undefined {
  for (const one of all) {
    const result = read(one);
    if (result !== undefined) return result;
  }
  return undefined;
}

export const deployments = defineResource({
  kind: 'deployment',
  word: 'Deployment',
  project: ({ desired }) => desired.project_id,
  answer: Deployment,
  seen: (it, view) => ({
    is_current: servingDeployment(view, it.desired.application_id)?.meta.id === it.meta.id,
    progress: buildProgress(it, view),
  }),
  show: toDeployment,
  list: {
    texts: ({ observed }) => [observed?.commit, observed?.commit_message],
    status: { values: DeploymentPhase.options, of: deploymentStatus },
    sorts: { number: (it) => it.desired.number },
    defaultSort: '-number',
  },
  /** Waits for the application, too, so that a read of either afterwards shows the outcome. */
  isSettled(it, view) {
    if (isUnfinished(it) || !isReconciled(it)) return false;
    const app = view.get('application', it.desired.application_id);
    return app?.desired.deployment_id !== it.meta.id || isApplicationSettled(app, view);
  },
  verbs: deploymentVerbs,
  watch: {
    shows: {
      /** Its build reports how far it is. */
      assignment({ before, after }) {
        const version = (after ?? before)?.desired.version;
        return version === undefined || isDeepStrictEqual(progressOf(before), progressOf(after)) ? [] : [version];
      },
      /** One that succeeds replaces the current one. */
      deployment({ before, after }, view) {
        if (after === undefined || !isSuccess(after) || (before !== undefined && isSuccess(before))) return [];
        const [, previous] = successes(view, after.desired.application_id);
        return previous === undefined ? [] : [previous.meta.id];
      },
    },
  },
});
