import { z } from 'zod';
import type { DeepReadonly } from '../deep-readonly.ts';
import { retention } from '../retention.ts';
import { GrantedCapability } from './assignment.ts';
import { Declarations, ofDeclarations } from './declarations.ts';
import { defineKind } from './define.ts';
import type { Kept } from './define.ts';
import { Domain, domainName, maxDomains } from './domain.ts';
import { composedPath, StoredComposedService, sealedWords } from './composed-service.ts';
import { BuildArgs, Id, Name, Port, Resolved, Sealed } from './fields.ts';
import { InstanceId, instanceOwner, outlivesInstance } from './instance-child.ts';
import { internalId } from './internal-id.ts';
import { Mounts } from './mounts.ts';
import { releaseSettings } from './release-settings.ts';
import { Ulimits } from './ulimits.ts';

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
    /** What steps of the build may mount, by id. Absent: nothing. */
    build_secrets: z.record(z.string(), Sealed).optional(),
    /** What its host is asked with; absent: it is read by everybody. */
    git_credential_id: Id.optional(),
    /** Its submodules are fetched as well. Absent: they are left out. */
    submodules: z.literal(true).optional(),
  }),
  z.object({
    type: z.literal('compose'),
    /** Absent: it is in `repository`. */
    compose_file: Sealed.optional(),
    /** Where the file is, which each deployment reads; absent: it is `compose_file`. */
    repository: z
      .object({
        repository_url: z.string(),
        branch: z.string(),
        compose_path: z.string(),
        git_credential_id: Id.optional(),
      })
      .optional(),
    /** The service that requests are for; absent: see `compose/main-service.ts`. */
    compose_service: z.string().optional(),
  }),
]);
export type Source = z.infer<typeof Source>;

/** A branch of a repository, and what it is read with. */
export type Repository = Pick<Extract<Source, { type: 'git' }>, 'repository_url' | 'branch' | 'git_credential_id'>;

/** The repository of a source, as a part of it: of what it builds, or of its compose file. `undefined`: it has none. */
export function repositoryOf(source: Source): Repository | undefined;
export function repositoryOf(source: DeepReadonly<Source>): DeepReadonly<Repository> | undefined;
export function repositoryOf(source: DeepReadonly<Source>): DeepReadonly<Repository> | undefined {
  if (source.type === 'git') return source;
  return source.type === 'compose' ? source.repository : undefined;
}

const checkTiming = {
  /** Seconds between two checks of a ready instance. */
  interval_seconds: z.int().min(1).max(3600).optional(),
  /** Seconds after which an unanswered check has failed. */
  timeout_seconds: z.int().min(1).max(300).optional(),
  /** Failures in a row after which a ready instance is not ready. */
  failures: z.int().min(1).max(100).optional(),
  /** Successes in a row after which an instance is ready. */
  successes: z.int().min(1).max(100).optional(),
  /** Seconds from the start of an instance within which failures are not shown. */
  start_seconds: z.int().min(0).max(3600).optional(),
};

/** How an instance shows that it is ready. An absent `port` is the `exposed_port`. */
export const HealthCheck = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('http'),
    path: z.string(),
    port: Port.optional(),
    /** The host that is asked for; absent: the address of the instance. */
    host: z.string().optional(),
    /** The one status that means ready; absent: 200 to 399. */
    status: z.int().min(100).max(599).optional(),
    ...checkTiming,
  }),
  z.object({ type: z.literal('tcp'), port: Port.optional(), ...checkTiming }),
  /** A program in the container and its arguments. */
  z.object({ type: z.literal('command'), command: z.array(z.string()).min(1).max(64), ...checkTiming }),
  /** The health check that the image declares. */
  z.object({ type: z.literal('image'), ...checkTiming }),
  /** None, also where the image declares one: to run for `min_healthy_seconds` is enough. */
  z.object({ type: z.literal('none') }),
]);
export type HealthCheck = z.infer<typeof HealthCheck>;

export const PidsLimit = z.int().min(1).max(4_194_304);

/** Settings whose change requires a new container. A deployment takes a snapshot of them, a rollback returns to it. */
export const RunConfig = z.object({
  env: z.record(z.string(), Sealed).default({}),
  /** What the variables take of other objects, see `store/references.ts`. Absent: their values are used as they are. */
  references: z.array(z.string()).optional(),
  exposed_port: Port.optional(),
  /** Short for a health check by HTTP; there is not one beside it. */
  healthcheck_path: z.string().optional(),
  healthcheck: HealthCheck.optional(),
  restart_policy: z.enum(['always', 'on-failure', 'no']).default('always'),
  start_command: z.string().optional(),
  memory_limit: z.string().optional(),
  cpu_limit: z.string().optional(),
  /** Size of `/dev/shm`. */
  shm_size: z.string().optional(),
  /** Most processes and threads of an instance. */
  pids_limit: PidsLimit.optional(),
  /** Limits of the processes of an instance, by name. */
  ulimits: Ulimits.optional(),
});
export type RunConfig = z.infer<typeof RunConfig>;

export const ApplicationPhase = z.enum(['running', 'stopped', 'deploying', 'failed', 'error', 'deleting']);
export type ApplicationPhase = z.infer<typeof ApplicationPhase>;

/** No instance serves, or a process keeps exiting. */
const ApplicationTrouble = z.enum(['down', 'crash_loop']);
export type ApplicationTrouble = z.infer<typeof ApplicationTrouble>;

const hostPrefix = 'hosts of ';

function hostScope(environmentId: string): string {
  return hostPrefix + environmentId;
}

/** Whether a unique name of that scope is a DNS name. */
export function isHostScope(scope: string): boolean {
  return scope.startsWith(hostPrefix);
}

/** Seconds between two looks at the branch of an application that follows it; 0 of an application: none. */
export const autodeployInterval = { usual: 300, min: 60, max: 86_400 } as const;

/** Most instances of one application. */
export const maxReplicas = 100;

export const RunState = z.enum(['running', 'stopped']);

export const application = defineKind({
  kind: 'application',
  version: 1,
  /** Only the API acts on it; an earlier leader starts what `starts_from` keeps stopped. */
  ignorable: [
    ...ofDeclarations,
    'last_replicas',
    'host_name',
    'autodeploy_interval',
    'adopted_image',
    'adopted_image.image',
    'adopted_image.image_digest',
    'starts_from',
  ],
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    template_instance_id: InstanceId,
    declarations: Declarations,
    /** What its images are pulled with, now and not only from the next deployment on; absent: nothing. */
    registry_id: Id.optional(),
    name: Name,
    /** Slug of the name and 6 hex digits: container and DNS name, never changed by a rename. */
    internal_id: z.string(),
    /** A further DNS name, unique in its environment. Absent: made by an earlier release, or removed by a user. */
    host_name: z.string().optional(),
    app_type: z.enum(['web', 'worker', 'static']).default('web'),
    source: Source,
    config: RunConfig,
    watch_paths: z.string().optional(),
    autodeploy: z.boolean().default(false),
    /** Seconds between two looks at the branch while `autodeploy` is on; 0: none. Absent: the usual time. */
    autodeploy_interval: z.int().min(0).max(autodeployInterval.max).optional(),
    replicas: z.int().min(0).max(maxReplicas).default(1),
    /** Number of replicas before they were scaled to 0, to which a start returns. */
    last_replicas: z.int().min(1).max(maxReplicas).optional(),
    run: RunState.default('stopped'),
    /** Its port is not open on the server itself: it is one of a preview, beside what that is a copy of. */
    unpublished: z.literal(true).optional(),
    /** The image of the container that it was taken over from, by its id: no registry has it, and its name may move. */
    adopted_image: z.object({ image: z.string(), image_digest: z.string() }).optional(),
    /** A new value restarts the instances once. */
    restart_token: z.string().optional(),
    /** What an admin granted to its instances, also to those that a rollback brings back. Absent: nothing. */
    capabilities: z.array(GrantedCapability).optional(),
    ...releaseSettings,
    /** With a volume that they may write to, it has one instance. */
    mounts: Mounts,
    /** Names that lead to it, which need no deployment. */
    domains: z.array(Domain).max(maxDomains).default([]),
    /** The deployment to converge to; absent until the first deploy. */
    deployment_id: Id.optional(),
    /**
     * Of deployments before this number no instance is started: the application was stopped when that one was asked for.
     * Absent: any may be.
     */
    starts_from: z.int().optional(),
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
    /** Trouble that users were notified of and that is not over; absent: none. */
    notified: z.array(ApplicationTrouble).optional(),
  }),
  unique: (d) => [
    { scope: d.environment_id, name: d.name },
    ...(d.host_name === undefined ? [] : [{ scope: hostScope(d.environment_id), name: d.host_name }]),
    ...d.domains.map((domain) => ({ scope: `domains/${d.server_id}`, name: domainName(domain) })),
  ],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }, ...instanceOwner(d)],
  populates: {
    environment: 'environment',
    server: 'server',
    project: 'project',
    volume: 'volume',
    git_credential: 'git_credential',
    registry: 'registry',
  },
  /** A host of a server belongs to one project, and has one certificate. */
  takes: { server: (d) => d.domains.map(({ host, tls }) => `${tls} ${host}`) },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    template_instance: (d) => d.template_instance_id,
    server: (d) => d.server_id,
    internal_id: (d) => d.internal_id,
    volume: (d) => d.mounts.map(({ volume_id }) => volume_id),
    registry: (d) => d.registry_id,
    git_credential: (d) => repositoryOf(d.source)?.git_credential_id,
  },
  clone: {
    references: ['environment_id', 'server_id', 'mounts.*.volume_id'],
    reset: (draft, copyId) => {
      draft.internal_id = internalId(draft.name, copyId.slice(0, 6));
      draft.run = 'stopped';
      draft.domains = [];
      for (const mount of draft.mounts) delete mount.data_id;
      draft.next_deployment_number = 1;
      delete draft.restart_token;
      delete draft.starts_from;
      delete draft.unpublished;
      delete draft.adopted_image;
      delete draft.capabilities; // they were granted to the original alone
      delete draft.template_instance_id;
      delete draft.declarations;
      delete draft.deployment_id;
    },
  },
  finalizers: ['application'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment', ...outlivesInstance },
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
  /** The images of the services of a compose file, by service; `image` is that of the first of them. */
  services: z.record(z.string(), z.object({ image: z.string(), image_digest: z.string() })).optional(),
});
export type BuiltImage = z.infer<typeof BuiltImage>;

export const deployment = defineKind({
  kind: 'deployment',
  version: 1,
  // what leads to instances reads it, not what leads the deployment
  ignorable: ['gives_port'],
  desired: z.object({
    application_id: Id,
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    number: z.int(),
    trigger: DeploymentTrigger,
    triggered_by: Id.optional(),
    source: Source,
    /**
     * The commit to build; absent: the head of the branch when the build begins. That of a compose file in a repository is
     * added once the file is read.
     */
    commit: z.string().optional(),
    config: RunConfig,
    /**
     * What its compose file declares, the service that requests are for first; absent for any other source. Those of a
     * file in a repository are added once it is read, before there is any instance, and never change then.
     */
    services: z.array(StoredComposedService).min(1).optional(),
    /** What of its compose file means something else here than to compose. */
    notes: z.array(z.string()).optional(),
    /** If present, this image is used and nothing is built. */
    reuse: BuiltImage.optional(),
    rollback_of: Id.optional(),
    /**
     * The variable `PORT` has its `exposed_port`, unless it is set. Absent of a deployment of an earlier release, whose
     * instances would be replaced by it.
     */
    gives_port: z.boolean().optional(),
    queued_at: z.string(),
    /** Set by the cancel verb, a stop or a delete; the controller turns it into the terminal phase. */
    cancel_requested: z.boolean().default(false),
  }),
  observed: z.object({
    phase: DeploymentPhase,
    /** What each reference of its variables stands for, from its beginning on. */
    references: z.record(z.string(), Resolved).optional(),
    image: z.string().optional(),
    image_digest: z.string().optional(),
    /** Digests of the images of its services, by service. */
    service_digests: z.record(z.string(), z.string()).optional(),
    commit: z.string().optional(),
    commit_message: z.string().optional(),
    /** The Dockerfile that was generated for its build. */
    dockerfile: z.string().optional(),
    started_at: z.string().optional(),
    built_at: z.string().optional(),
    finished_at: z.string().optional(),
    /** The most of its instances that were stable at a time during its rollout: each further one is progress. */
    stable_instances: z.int().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [{ kind: 'application', id: d.application_id, blocks: true }],
  indexes: { application: (d) => d.application_id, project: (d) => d.project_id, server: (d) => d.server_id },
  configuration: (d, o, { part }) => {
    const service = d.services?.find((it) => it.name === part);
    const files = new Map(
      service?.files.flatMap(({ path, content }) => (content === undefined ? [] : [[path, content]])),
    );
    const words = service === undefined ? {} : sealedWords(service);
    return {
      of: {
        kind: 'application',
        id: d.application_id,
        path: service === undefined ? 'config' : composedPath(service.name),
      },
      env: service?.env ?? d.config.env,
      ...(files.size > 0 && { files: Object.fromEntries(files) }),
      ...(Object.keys(words).length > 0 && { words }),
      ...(d.config.references !== undefined && { references: o?.references ?? {} }),
    };
  },
  clone: { never: 'It is the history of an application; the copy of that begins without one' },
  finalizers: ['deployment'],
  keep: {
    newest: {
      count: retention.deploymentsPerApplication,
      under: 'application',
      number: ({ desired }) => desired.number,
      hasEnded: ({ observed }) => hasDeploymentEnded(observed?.phase),
      // The one that the application converges to, the one that serves, and the one that a rollback returns to.
      unless: (app: Kept<z.output<typeof application.desired>, z.output<typeof application.observed>>, all) => {
        const current = app.observed?.current_deployment_id;
        const previous = all.find(({ observed, meta }) => observed?.phase === 'succeeded' && meta.id !== current);
        return ({ meta }) => [app.desired.deployment_id, current, previous?.meta.id].includes(meta.id);
      },
    },
  },
});

/** Whether a deployment reads a repository and makes images of it. */
export function isBuilt({
  source,
  reuse,
}: DeepReadonly<Pick<z.output<typeof deployment.desired>, 'source' | 'reuse'>>): boolean {
  return reuse === undefined && repositoryOf(source) !== undefined;
}

/** Whether the compose file of a deployment is in a repository and was not read yet. */
export function isUnread({
  source,
  services,
}: DeepReadonly<Pick<z.output<typeof deployment.desired>, 'source' | 'services'>>): boolean {
  return source.type === 'compose' && source.repository !== undefined && services === undefined;
}
