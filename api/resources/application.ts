import { repositoryOf } from '../../store/kinds/application.ts';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { GrantedCapability } from '../../agent-protocol/workload.ts';
import {
  application,
  ApplicationPhase,
  autodeployInterval,
  RunState,
  maxReplicas,
  PidsLimit,
} from '../../store/kinds/application.ts';
import type { HealthCheck, Source } from '../../store/kinds/application.ts';
import { maxComposeBytes } from '../../store/kinds/composed-service.ts';
import { Port } from '../../store/kinds/fields.ts';
import { ImageUrl } from '../../store/kinds/image-url.ts';
import { releaseOf, releaseSettings } from '../../store/kinds/release-settings.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { Ulimits } from '../../store/kinds/ulimits.ts';
import { urlsOf } from '../../store/routed-hosts.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import { servingDeployment } from '../../store/serving.ts';
import { applicationVerbs } from '../../rules/application.ts';
import { Domain, Domains, toDomain } from './domain.ts';
import { applicationStatus, isApplicationSettled, targetOf } from './status.ts';
import {
  BuildArgValues,
  CpuLimit,
  EnvValues,
  GitRef,
  HttpPath,
  MemoryLimit,
  RelativePath,
  RepositoryUrl,
  StartCommand,
  WatchPaths,
} from './fields.ts';
import { Labels, objectFields, objectFieldsOf, placeFields, Reference } from './object-fields.ts';
import { HealthCheckField, SentHealthCheck } from './health-check.ts';
import { UlimitsField } from './ulimits.ts';
import { defineResource } from './resource.ts';

const { shape } = application.desired;
const RestartPolicy = z.enum(['always', 'on-failure', 'never']);
const nullableText = z.string().nullable();

export const Application = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    registry_id: nullableText,
    name: z.string(),
    internal_id: z.string(),
    host_name: nullableText.meta({ description: 'Beside internal_id, the name by which its environment reaches it' }),
    app_type: z.enum(['web', 'worker', 'static']),
    source_type: z.enum(['git', 'image', 'compose']),
    repository_url: nullableText,
    branch: nullableText,
    dockerfile_path: nullableText,
    build_context: nullableText,
    build_secret_ids: z.array(z.string()).meta({ description: 'Ids of its build secrets, whose values no answer has' }),
    git_credential_id: nullableText.meta({ description: 'What its repository is read with; null: it is public' }),
    submodules: z.boolean().nullable().meta({ description: 'Whether its submodules are fetched; null: it has none' }),
    image_url: nullableText,
    compose_file: nullableText.meta({ description: 'Always null: GET /applications/:id/compose has it' }),
    compose_path: nullableText,
    compose_service: nullableText.meta({
      description: 'The service that requests are for; null: the first with a port',
    }),
    replicas: z.int(),
    ready_replicas: z.int(),
    exposed_port: z.int().nullable(),
    autodeploy: z.boolean(),
    autodeploy_interval: z.int().meta({ description: 'Seconds between two looks at the branch; 0: none' }),
    watch_paths: nullableText,
    healthcheck_path: nullableText,
    healthcheck: HealthCheckField.nullable(),
    restart_policy: RestartPolicy,
    start_command: nullableText,
    memory_limit: nullableText,
    cpu_limit: nullableText,
    shm_size: nullableText,
    pids_limit: z.int().nullable(),
    ulimits: Ulimits.nullable(),
    capabilities: z.array(GrantedCapability).meta({
      description: 'Capabilities of the kernel that its instances have beyond the usual ones: an admin grants them',
    }),
    max_surge: z.int().meta({ description: 'Instances beyond replicas while others take their place' }),
    min_healthy_seconds: z.int().meta({ description: 'How long an instance is ready before it replaces another one' }),
    healthy_deadline: z.int().meta({ description: 'Seconds in which a new instance must have been ready for so long' }),
    drain_seconds: z.int().meta({ description: 'Most seconds for open connections before an instance is stopped' }),
    stop_grace_seconds: z.int().meta({ description: 'Seconds that a process has to end before it is killed' }),
    run: RunState.meta({ description: 'Whether it shall run; status shows whether it does' }),
    status: ApplicationPhase,
    current_commit: nullableText,
    current_deployment_id: nullableText.meta({ description: 'The deployment that serves' }),
    deployment_id: nullableText.meta({ description: 'The newest deployment' }),
    is_source_deployed: z.boolean().meta({
      description: 'Whether the newest deployment is of the present source; if not, the next one will be',
    }),
    domains: z.array(Domain).meta({ description: 'Names that lead to it' }),
    urls: z.array(z.string()).meta({ description: 'Addresses by which it is reached' }),
    consecutive_failures: z.int(),
  })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;

/** Fields of the source, flat as they are sent. `source_type` decides which of them are needed. */
const sourceFields = {
  repository_url: RepositoryUrl.nullish(),
  branch: GitRef.nullish().meta({ description: 'A branch, else a tag; or all digits of the id of a commit' }),
  dockerfile_path: RelativePath.nullish(),
  build_context: RelativePath.nullish(),
  build_args: BuildArgValues.nullish(),
  build_secrets: z
    .record(
      z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/, 'must be an id such as npm_token'),
      z.string().min(1).max(16_384),
    )
    .refine((it) => Object.keys(it).length <= 20, 'Must be at most 20 secrets')
    .nullish()
    .meta({
      description:
        'Secrets for RUN --mount=type=secret,id=… of the Dockerfile, by id: in no layer, history, log or answer. They replace those of before; null: none. A secret does not make a step run again that the cache has',
    }),
  git_credential_id: Reference.nullish().meta({
    description:
      'A git credential of the tenant (/settings/git-credentials) for the host of repository_url; null: none. It is used from the next deployment on',
  }),
  submodules: z.boolean().nullish().meta({
    description:
      'Fetch the submodules of the repository, at most 20 of them, 3 deep; null: no. git_credential_id is used for those of the same host alone',
  }),
  image_url: ImageUrl.nullish(),
  compose_file: z
    .string()
    .min(1)
    .nullish()
    .meta({ description: `A compose file, at most ${maxComposeBytes / 1024} KiB; null: as it is` }),
  compose_service: z.string().max(63).nullish().meta({
    description: 'The service that requests are for; null: the one with exposed_port, or the first with a port',
  }),
  compose_path: RelativePath.nullish().meta({
    description:
      'A compose file in the repository, in place of compose_file: each deployment reads it there, and builds its services of it',
  }),
};

/** Fields whose change needs a new container. */
const configFields = {
  exposed_port: Port.nullish(),
  healthcheck_path: HttpPath.nullish(),
  healthcheck: SentHealthCheck.nullish(),
  restart_policy: z
    .enum([...RestartPolicy.options, 'no'])
    .transform((it) => (it === 'never' ? 'no' : it))
    .nullish()
    .meta({ description: 'no is another word for never' }),
  start_command: StartCommand.nullish(),
  memory_limit: MemoryLimit.nullish(),
  cpu_limit: CpuLimit.nullish(),
  shm_size: MemoryLimit.nullish().meta({ description: 'Size of /dev/shm; null: that of the engine, 64m' }),
  pids_limit: PidsLimit.nullish().meta({ description: 'Most processes and threads of an instance; null: 4096' }),
  ulimits: UlimitsField.nullish(),
  env: EnvValues.nullish(),
};

const HostName = z
  .string()
  .regex(/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/, 'Must be a DNS label such as api: lower case, at most 63 characters')
  .refine((name) => name !== 'localhost', 'Must not be localhost');

const AutodeployInterval = z
  .int()
  .min(0)
  .max(autodeployInterval.max)
  .refine(
    (seconds) => seconds === 0 || seconds >= autodeployInterval.min,
    `Must be 0 or at least ${autodeployInterval.min}`,
  );

const plainFields = {
  name: shape.name,
  host_name: HostName.nullish(),
  app_type: z.enum(['web', 'worker', 'static']).nullish(),
  replicas: z.int().min(0).max(maxReplicas).nullish(),
  autodeploy: z.boolean().nullish(),
  autodeploy_interval: AutodeployInterval.nullish().meta({
    description: `While autodeploy is on, seconds between two looks at the branch: ${autodeployInterval.min} to ${autodeployInterval.max}, or 0: only webhooks and requests lead to a look. null: ${autodeployInterval.usual}`,
  }),
  watch_paths: WatchPaths.nullish(),
  max_surge: releaseSettings.max_surge.nullable(),
  min_healthy_seconds: releaseSettings.min_healthy_seconds.nullable(),
  healthy_deadline: releaseSettings.healthy_deadline.nullable(),
  drain_seconds: releaseSettings.drain_seconds.nullable(),
  stop_grace_seconds: releaseSettings.stop_grace_seconds.nullable(),
  domains: Domains.nullish().meta({ description: 'Names that lead to it; a change needs no deployment. null: none' }),
  labels: Labels.optional(),
};

const RegistryReference = Reference.nullish().meta({
  description:
    'A registry of the tenant (/settings/registries) for the one of image_url, or for images that a build begins with; null: none. The next pull uses it, and nothing restarts',
});

const SourceTypeField = z.enum(['git', 'image', 'compose']);

export const ApplicationCreate = z.strictObject({
  ...placeFields,
  registry_id: RegistryReference,
  source_type: SourceTypeField,
  ...plainFields,
  ...sourceFields,
  ...configFields,
});
export type ApplicationCreate = z.infer<typeof ApplicationCreate>;

export const ApplicationUpdate = z
  .strictObject({
    source_type: SourceTypeField,
    registry_id: RegistryReference,
    ...plainFields,
    ...sourceFields,
    ...configFields,
  })
  .partial();
export type ApplicationUpdate = z.infer<typeof ApplicationUpdate>;

/** What an application shows of its deployments; `target` is the one that it converges to. */
export function applicationSeen(
  it: ReadonlyResource<'application'>,
  view: TenantView,
  target = targetOf(it, view),
): Pick<Application, 'status' | 'current_commit' | 'current_deployment_id' | 'is_source_deployed' | 'urls'> {
  const serving = servingDeployment(view, it.meta.id);
  return {
    status: applicationStatus(it, target),
    current_commit: serving?.observed?.commit ?? null,
    current_deployment_id: serving?.meta.id ?? null,
    is_source_deployed: target !== undefined && sealedEqual(target.desired.source, it.desired.source, view.isSame),
    urls: urlsOf(it.desired, view.get('server', it.desired.server_id)?.desired),
  };
}

function toApplication(
  it: ReadonlyResource<'application'>,
  { status, current_commit, current_deployment_id, is_source_deployed, urls }: ReturnType<typeof applicationSeen>,
): Application {
  const { desired, observed } = it;
  const { config } = desired;
  const release = releaseOf(desired);
  return {
    ...objectFieldsOf(it),
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    server_id: desired.server_id,
    registry_id: desired.registry_id ?? null,
    name: desired.name,
    internal_id: desired.internal_id,
    host_name: desired.host_name ?? null,
    app_type: desired.app_type,
    ...toSourceFields(desired.source),
    replicas: desired.replicas,
    ready_replicas: observed?.ready_replicas ?? 0,
    exposed_port: config.exposed_port ?? null,
    autodeploy: desired.autodeploy,
    autodeploy_interval: desired.autodeploy_interval ?? autodeployInterval.usual,
    watch_paths: desired.watch_paths ?? null,
    healthcheck_path: config.healthcheck_path ?? null,
    healthcheck: config.healthcheck === undefined ? null : plainCopy<HealthCheck>(config.healthcheck),
    restart_policy: config.restart_policy === 'no' ? 'never' : config.restart_policy,
    start_command: config.start_command ?? null,
    memory_limit: config.memory_limit ?? null,
    cpu_limit: config.cpu_limit ?? null,
    shm_size: config.shm_size ?? null,
    pids_limit: config.pids_limit ?? null,
    ulimits: config.ulimits === undefined ? null : plainCopy<Ulimits>(config.ulimits),
    capabilities: grantsOf(desired),
    max_surge: release.maxSurge,
    min_healthy_seconds: release.minHealthySeconds,
    healthy_deadline: release.healthyDeadline,
    drain_seconds: release.drainSeconds,
    stop_grace_seconds: release.stopGraceSeconds,
    run: desired.run,
    status,
    current_commit,
    current_deployment_id,
    deployment_id: desired.deployment_id ?? null,
    is_source_deployed,
    domains: desired.domains.map(toDomain),
    urls,
    consecutive_failures: observed?.consecutive_failures ?? 0,
  };
}

function grantsOf({ capabilities = [] }: ReadonlyResource<'application'>['desired']): GrantedCapability[] {
  return [...capabilities];
}

function toSourceFields(source: DeepReadonly<Source>) {
  const git = source.type === 'git' ? source : undefined;
  const repository = repositoryOf(source);
  return {
    source_type: source.type,
    repository_url: repository?.repository_url ?? null,
    branch: repository?.branch ?? null,
    dockerfile_path: git?.dockerfile_path ?? null,
    build_context: git?.build_context ?? null,
    build_secret_ids: Object.keys(git?.build_secrets ?? {}).toSorted(),
    git_credential_id: repository?.git_credential_id ?? null,
    submodules: git === undefined ? null : git.submodules === true,
    image_url: source.type === 'image' ? source.image_url : null,
    ...toComposeFields(source.type === 'compose' ? source : undefined),
  };
}

function toComposeFields(source: DeepReadonly<Extract<Source, { type: 'compose' }>> | undefined) {
  return {
    compose_file: null,
    compose_path: source?.repository?.compose_path ?? null,
    compose_service: source?.compose_service ?? null,
  };
}

export const applications = defineResource({
  kind: 'application',
  word: 'Application',
  project: ({ desired }) => desired.project_id,
  answer: Application,
  seen: (it, view) => applicationSeen(it, view),
  show: toApplication,
  list: {
    texts: ({ desired }) => [desired.name, desired.internal_id],
    status: { values: ApplicationPhase.options, of: (it, view) => applicationStatus(it, targetOf(it, view)) },
  },
  isSettled: isApplicationSettled,
  verbs: applicationVerbs,
  watch: {
    shows: {
      /** The status follows from the newest deployment. */
      deployment({ id, after }, view) {
        const it = after && view.get('application', after.desired.application_id);
        return it?.desired.deployment_id === id ? [it.meta.id] : [];
      },
      /** Its addresses follow from the ports and the domain of the server's proxy. */
      server({ id, before, after }, view) {
        if (isDeepStrictEqual(before?.desired.ingress, after?.desired.ingress)) return [];
        return view.by('application', 'server', id).map(({ meta }) => meta.id);
      },
    },
  },
});
