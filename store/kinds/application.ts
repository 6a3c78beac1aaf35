import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import type { Kept } from './define.ts';
import { BuildArgs, Id, Name, Port, Sealed } from './fields.ts';
import { internalId } from './internal-id.ts';

/** Where the image of an application comes from. */
export const Source = z.discriminatedUnion('type', [
  z.object({ type: z.literal('image'), image_url: z.string() }),
  z.object({
    type: z.literal('git'),
    repository_url: z.string(),
    branch: z.string(),
    dockerfile_path: z.string(),
    build_context: z.string().default('.'),
    build_args: BuildArgs.default({}),
  }),
]);
export type Source = z.infer<typeof Source>;

/** Settings whose change requires a new container. A deployment takes a snapshot of them, a rollback returns to it. */
export const RunConfig = z.object({
  env: z.record(z.string(), Sealed).default({}),
  exposed_port: Port.optional(),
  healthcheck_path: z.string().optional(),
  restart_policy: z.enum(['always', 'on-failure', 'no']).default('always'),
  start_command: z.string().optional(),
  memory_limit: z.string().optional(),
  cpu_limit: z.string().optional(),
});
export type RunConfig = z.infer<typeof RunConfig>;

export const ApplicationPhase = z.enum(['running', 'stopped', 'deploying', 'failed', 'error', 'deleting']);
export type ApplicationPhase = z.infer<typeof ApplicationPhase>;

/** Most instances of one application. */
export const maxReplicas = 100;

export const RunState = z.enum(['running', 'stopped']);

export const application = defineKind({
  kind: 'application',
  version: 1,
  /** Only the API acts on it. */
  ignorable: ['last_replicas'],
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    registry_id: Id.optional(),
    name: Name,
    /** Slug of the name and 6 hex digits: container and DNS name, never changed by a rename. */
    internal_id: z.string(),
    app_type: z.enum(['web', 'worker', 'static']).default('web'),
    source: Source,
    config: RunConfig,
    watch_paths: z.string().optional(),
    autodeploy: z.boolean().default(false),
    replicas: z.int().min(0).max(maxReplicas).default(1),
    /** Number of replicas before they were scaled to 0, to which a start returns. */
    last_replicas: z.int().min(1).max(maxReplicas).optional(),
    run: RunState.default('stopped'),
    /** A new value restarts the instances once. */
    restart_token: z.string().optional(),
    /** Volumes of its server that its instances mount. With one that they may write to, it has one instance. */
    mounts: z.array(z.object({ volume_id: Id, path: z.string(), read_only: z.boolean().default(false) })).default([]),
    /** The deployment to converge to; absent until the first deploy. */
    deployment_id: Id.optional(),
    /** Number that the next deployment gets. */
    next_deployment_number: z.int().default(1),
  }),
  observed: z.object({
    phase: ApplicationPhase,
    /** The deployment that serves. */
    current_deployment_id: Id.optional(),
    current_commit: z.string().optional(),
    consecutive_failures: z.int().default(0),
    /** Instances that are ready. */
    ready_replicas: z.int().default(0),
    /** Deployment whose failure was counted last, so that it is counted once. */
    counted_deployment_id: Id.optional(),
    /** The instances are in a crash loop that was counted. */
    crash_loop_counted: z.boolean().default(false),
  }),
  unique: (d) => [{ scope: d.environment_id, name: d.name }],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }],
  populates: { environment: 'environment', server: 'server', project: 'project', volume: 'volume' },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    server: (d) => d.server_id,
    internal_id: (d) => d.internal_id,
    volume: (d) => d.mounts.map(({ volume_id }) => volume_id),
  },
  clone: {
    references: ['environment_id', 'server_id', 'mounts.*.volume_id'],
    reset: (draft, copyId) => {
      draft.internal_id = internalId(draft.name, copyId.slice(0, 6));
      draft.run = 'stopped';
      draft.next_deployment_number = 1;
      delete draft.restart_token;
      delete draft.deployment_id;
    },
  },
  finalizers: ['application'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment' },
});

export const DeploymentPhase = z.enum([
  'queued',
  'building',
  'deploying',
  'succeeded',
  'failed',
  'cancelled',
  'superseded',
]);
export type DeploymentPhase = z.infer<typeof DeploymentPhase>;

/** Whether a deployment in this phase never leaves it; `undefined` is the phase of one that was not observed yet. */
export function hasDeploymentEnded(phase: DeploymentPhase | undefined): boolean {
  switch (phase) {
    case 'succeeded':
    case 'failed':
    case 'cancelled':
    case 'superseded':
      return true;
    case 'queued':
    case 'building':
    case 'deploying':
    case undefined:
      return false;
  }
}

export const DeploymentTrigger = z.enum(['manual', 'webhook', 'rollback', 'template', 'config']);

/** An image that exists already: a rollback and a change of configuration do not build again. */
export const BuiltImage = z.object({
  image: z.string(),
  image_digest: z.string(),
  commit: z.string().optional(),
  commit_message: z.string().optional(),
});
export type BuiltImage = z.infer<typeof BuiltImage>;

export const deployment = defineKind({
  kind: 'deployment',
  version: 1,
  desired: z.object({
    application_id: Id,
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    number: z.int(),
    trigger: DeploymentTrigger,
    triggered_by: Id.optional(),
    source: Source,
    config: RunConfig,
    /** If present, this image is used and nothing is built. */
    reuse: BuiltImage.optional(),
    rollback_of: Id.optional(),
    queued_at: z.string(),
    /** Set by the cancel verb, a stop or a delete; the controller turns it into the terminal phase. */
    cancel_requested: z.boolean().default(false),
  }),
  observed: z.object({
    phase: DeploymentPhase,
    image: z.string().optional(),
    image_digest: z.string().optional(),
    commit: z.string().optional(),
    commit_message: z.string().optional(),
    started_at: z.string().optional(),
    built_at: z.string().optional(),
    finished_at: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [{ kind: 'application', id: d.application_id, blocks: true }],
  indexes: { application: (d) => d.application_id, project: (d) => d.project_id, server: (d) => d.server_id },
  configuration: (d) => ({ of: { kind: 'application', id: d.application_id, path: 'config' }, env: d.config.env }),
  clone: { never: 'It is the history of an application; the copy of that begins without one' },
  finalizers: ['deployment'],
  keep: {
    newest: {
      count: retention.deploymentsPerApplication,
      under: 'application',
      number: ({ desired }) => desired.number,
      hasEnded: ({ observed }) => hasDeploymentEnded(observed?.phase),
      // The one that the application converges to, the one that serves, and the one that a rollback returns to.
      unless: (it, app: Kept<z.output<typeof application.desired>, z.output<typeof application.observed>>, all) => {
        const current = app.observed?.current_deployment_id;
        const previous = all.find(({ observed, meta }) => observed?.phase === 'succeeded' && meta.id !== current);
        return [app.desired.deployment_id, current, previous?.meta.id].includes(it.meta.id);
      },
    },
  },
});
