import { z } from 'zod';
import { application, ApplicationPhase, RunState, maxReplicas } from '../../store/kinds/application.ts';
import type { Source } from '../../store/kinds/application.ts';
import { Port } from '../../store/kinds/fields.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { applicationVerbs } from '../../rules/application.ts';
import { applicationStatus, isApplicationSettled, targetOf } from './status.ts';
import {
  CpuLimit,
  EnvValues,
  GitRef,
  HttpPath,
  ImageUrl,
  Line,
  MemoryLimit,
  RelativePath,
  RepositoryUrl,
  StartCommand,
  WatchPaths,
} from './fields.ts';
import { Labels, objectFields, objectFieldsOf, placeFields, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

const { shape } = application.desired;
const RestartPolicy = z.enum(['always', 'on-failure', 'no']);
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
    app_type: z.enum(['web', 'worker', 'static']),
    source_type: z.enum(['git', 'image', 'compose']),
    repository_url: nullableText,
    branch: nullableText,
    dockerfile_path: nullableText,
    build_context: nullableText,
    image_url: nullableText,
    compose_file: nullableText,
    compose_path: nullableText,
    replicas: z.int(),
    ready_replicas: z.int(),
    exposed_port: z.int().nullable(),
    autodeploy: z.boolean(),
    watch_paths: nullableText,
    healthcheck_path: nullableText,
    restart_policy: RestartPolicy,
    start_command: nullableText,
    memory_limit: nullableText,
    cpu_limit: nullableText,
    run: RunState.meta({ description: 'Whether it shall run; status shows whether it does' }),
    status: ApplicationPhase,
    current_commit: nullableText,
    current_deployment_id: nullableText.meta({ description: 'The deployment that serves' }),
    deployment_id: nullableText.meta({ description: 'The newest deployment' }),
    consecutive_failures: z.int(),
  })
  .meta({ id: 'Application' });
export type Application = z.infer<typeof Application>;

/** Fields of the source, flat as they are sent. `source_type` decides which of them are needed. */
const sourceFields = {
  repository_url: RepositoryUrl.nullish(),
  branch: GitRef.nullish(),
  dockerfile_path: RelativePath.nullish(),
  build_context: RelativePath.nullish(),
  build_args: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), Line.max(4096)).nullish(),
  image_url: ImageUrl.nullish(),
  compose_file: z.string().nullish(),
  compose_path: z.string().nullish(),
};

/** Fields whose change needs a new container. */
const configFields = {
  exposed_port: Port.nullish(),
  healthcheck_path: HttpPath.nullish(),
  restart_policy: RestartPolicy.nullish(),
  start_command: StartCommand.nullish(),
  memory_limit: MemoryLimit.nullish(),
  cpu_limit: CpuLimit.nullish(),
  env: EnvValues.nullish(),
};

const plainFields = {
  name: shape.name,
  app_type: z.enum(['web', 'worker', 'static']).nullish(),
  replicas: z.int().min(0).max(maxReplicas).nullish(),
  autodeploy: z.boolean().nullish(),
  watch_paths: WatchPaths.nullish(),
  labels: Labels.optional(),
};

const SourceTypeField = z.enum(['git', 'image', 'compose']);

export const ApplicationCreate = z.strictObject({
  ...placeFields,
  registry_id: Reference.nullish(),
  source_type: SourceTypeField,
  ...plainFields,
  ...sourceFields,
  ...configFields,
});
export type ApplicationCreate = z.infer<typeof ApplicationCreate>;

export const ApplicationUpdate = z
  .strictObject({
    source_type: SourceTypeField,
    registry_id: Reference.nullish(),
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
): Pick<Application, 'status' | 'current_commit' | 'current_deployment_id'> {
  const serving = servingDeployment(view, it.meta.id);
  return {
    status: applicationStatus(it, target),
    current_commit: serving?.observed?.commit ?? null,
    current_deployment_id: serving?.meta.id ?? null,
  };
}

function toApplication(
  it: ReadonlyResource<'application'>,
  { status, current_commit, current_deployment_id }: ReturnType<typeof applicationSeen>,
): Application {
  const { desired, observed } = it;
  const { config } = desired;
  return {
    ...objectFieldsOf(it),
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    server_id: desired.server_id,
    registry_id: desired.registry_id ?? null,
    name: desired.name,
    internal_id: desired.internal_id,
    app_type: desired.app_type,
    ...toSourceFields(desired.source),
    replicas: desired.replicas,
    ready_replicas: observed?.ready_replicas ?? 0,
    exposed_port: config.exposed_port ?? null,
    autodeploy: desired.autodeploy,
    watch_paths: desired.watch_paths ?? null,
    healthcheck_path: config.healthcheck_path ?? null,
    restart_policy: config.restart_policy,
    start_command: config.start_command ?? null,
    memory_limit: config.memory_limit ?? null,
    cpu_limit: config.cpu_limit ?? null,
    run: desired.run,
    status,
    current_commit,
    current_deployment_id,
    deployment_id: desired.deployment_id ?? null,
    consecutive_failures: observed?.consecutive_failures ?? 0,
  };
}

function toSourceFields(source: DeepReadonly<Source>) {
  const git = source.type === 'git' ? source : undefined;
  return {
    source_type: source.type,
    repository_url: git?.repository_url ?? null,
    branch: git?.branch ?? null,
    dockerfile_path: git?.dockerfile_path ?? null,
    build_context: git?.build_context ?? null,
    image_url: source.type === 'image' ? source.image_url : null,
    compose_file: null,
    compose_path: null,
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
    },
  },
});
