import { stringify } from 'yaml';
import { defined } from '../../store/defined.ts';
import { expiryOf } from '../../store/expiry.ts';
import { parseReferences } from '../../store/references.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { toDomain } from '../resources/domain.ts';
import { unsealEnv } from '../workloads/application-env.ts';
import type { DeclaredWord } from './objects.ts';

type Context = Pick<RequestContext, 'view' | 'tenant' | 'sealer' | 'unsealer'>;

/** What is there as a text that applies back to no change, and what is not in it. */
export interface Exported {
  content: string;
  /** Such as `applications.web: env.TOKEN`. */
  left_out: string[];
}

/**
 * The environments, volumes, databases, applications and functions of a project as a text. Secrets and template instances are
 * left out, and named: what is not declared stays as it is. Previews are left out with all that is in them, as they come and go.
 */
export function exportProject(ctx: Context, project: ReadonlyResource<'project'>): Exported {
  const { view } = ctx;
  const documents: object[] = [];
  const leftOut: string[] = [];
  const { id } = project.meta;
  const environments = named(view.by('environment', 'project', id)).filter((it) => !isOfPreview(it));
  const exported = new Set(environments.map(({ meta }) => meta.id));
  const own = <T extends Placed>(all: readonly T[]): T[] => ownOf(all, exported);
  const add = (kind: DeclaredWord, { desired, meta }: Named, spec: object): void => {
    const labels = Object.keys(meta.labels).length === 0 ? undefined : { ...meta.labels };
    documents.push({
      apiVersion: 'setpoint/v1',
      kind,
      metadata: { name: desired.name, ...defined({ labels }) },
      ...(Object.keys(spec).length > 0 && { spec }),
    });
  };
  for (const it of environments) {
    const { display_name, type, description, color, git_branch } = it.desired;
    add('Environment', it, defined({ display_name, type, description, color, git_branch }));
  }
  const placeOf = ({ environment_id, server_id }: { environment_id: string; server_id: string }): object =>
    defined({
      environment: view.get('environment', environment_id)?.desired.name,
      server: view.get('server', server_id)?.desired.name,
    });
  for (const it of own(view.by('volume', 'project', id)))
    if (it.desired.database_id === undefined && expiryOf(it, view) === undefined)
      add('Volume', it, placeOf(it.desired));
  for (const it of own(view.by('database', 'project', id))) {
    const { type, version, database_name, display_name, memory_limit, cpu_limit, ...desired } = it.desired;
    const { parameters, exposed_port, connection_pooling, require_tls } = desired;
    const database_user = type === 'redis' ? undefined : it.desired.database_user;
    const settings = defined({ database_user, display_name, memory_limit, cpu_limit, parameters, exposed_port });
    const connections = defined({ connection_pooling, require_tls });
    add('Database', it, { ...placeOf(it.desired), type, version, database_name, ...settings, ...connections });
    leftOut.push(`databases.${it.desired.name}: password`);
  }
  for (const it of own(view.by('application', 'project', id))) {
    const { spec, secrets } = applicationSpec(ctx, it);
    add('Application', it, { ...placeOf(it.desired), ...spec });
    for (const field of secrets) leftOut.push(`applications.${it.desired.name}: ${field}`);
  }
  for (const it of own(view.by('function', 'project', id))) {
    const { spec, secrets } = functionSpec(ctx, it);
    add('Function', it, { ...placeOf(it.desired), ...spec });
    for (const field of secrets) leftOut.push(`functions.${it.desired.name}: ${field}`);
  }
  for (const { desired } of own(view.by('template_instance', 'project', id)))
    leftOut.push(`template_instances.${desired.name}: all of it`);
  const options = { lineWidth: 0, version: '1.2', schema: 'core', aliasDuplicateObjects: false } as const;
  return { content: documents.map((it) => stringify(it, options)).join('---\n'), left_out: leftOut };
}

type Placed = ReadonlyResource<'volume' | 'database' | 'application' | 'function' | 'template_instance'>;
type Named = Placed | ReadonlyResource<'environment'>;

function named<T extends Named>(all: readonly T[]): T[] {
  return all.filter(isStaying).toSorted((a, b) => (a.desired.name < b.desired.name ? -1 : 1));
}

/** What is in one of the environments, and in no template instance. */
function ownOf<T extends Placed>(all: readonly T[], environments: ReadonlySet<string>): T[] {
  return named(all).filter(
    ({ desired }) =>
      environments.has(desired.environment_id) &&
      ('template_instance_id' in desired ? desired.template_instance_id : undefined) === undefined,
  );
}

function isOfPreview({ meta }: ReadonlyResource<'environment'>): boolean {
  return meta.owners.some(({ kind }) => kind === 'preview');
}

function applicationSpec(ctx: Context, it: ReadonlyResource<'application'>): { spec: object; secrets: string[] } {
  const { view } = ctx;
  const { desired } = it;
  const { env: _env, references: _references, restart_policy, ...config } = desired.config;
  const env = referringVariables(ctx, it);
  const secrets = Object.keys(desired.config.env)
    .filter((name) => !Object.hasOwn(env, name))
    .map((name) => `env.${name}`);
  const passwords = desired.domains.flatMap(({ host, basic_auth }) =>
    basic_auth.map(({ username }) => `password of ${username} for ${host}`),
  );
  const source = sourceSpec(ctx, it);
  const volumes = mountsSpec(ctx, desired);
  const registry = desired.registry_id === undefined ? undefined : view.get('registry', desired.registry_id);
  const spec = {
    app_type: desired.app_type,
    ...source.spec,
    ...defined({
      ...config,
      host_name: desired.host_name,
      registry: registry?.desired.name,
      restart_policy: restart_policy === 'no' ? 'never' : restart_policy,
      replicas: desired.replicas,
      watch_paths: desired.watch_paths,
      autodeploy: desired.autodeploy,
      autodeploy_interval: desired.autodeploy_interval,
      max_surge: desired.max_surge,
      min_healthy_seconds: desired.min_healthy_seconds,
      healthy_deadline: desired.healthy_deadline,
      drain_seconds: desired.drain_seconds,
      stop_grace_seconds: desired.stop_grace_seconds,
    }),
    ...(desired.domains.length > 0 && { domains: desired.domains.map((one) => filled(toDomain(one))) }),
    ...(volumes.length > 0 && { volumes }),
    ...(Object.keys(env).length > 0 && { env }),
  };
  if (desired.source.type === 'compose') {
    // what its services have is in their file
    const { restart_policy: _policy, ...rest } = spec;
    return { spec: rest, secrets: [...source.secrets, ...passwords, ...secrets] };
  }
  return { spec, secrets: [...source.secrets, ...passwords, ...secrets] };
}

/** What a workload mounts, by the names of the volumes. */
function mountsSpec({ view }: Context, { mounts }: ReadonlyResource<'application' | 'function'>['desired']): object[] {
  return mounts.flatMap(({ volume_id, path, read_only }) => {
    const volume = view.get('volume', volume_id)?.desired.name;
    return volume === undefined ? [] : [{ volume, path, ...(read_only && { read_only }) }];
  });
}

function functionSpec(ctx: Context, it: ReadonlyResource<'function'>): { spec: object; secrets: string[] } {
  const { runtime, code, dependencies, trigger, exposed_port, memory_limit, cpu_limit, concurrency, ...rest } =
    it.desired;
  const { timeout_seconds, min_instances, max_instances, config } = rest;
  const env = referringVariables(ctx, it);
  const { schedule, timezone } = trigger.type === 'cron' ? trigger : {};
  const spec = {
    runtime,
    code,
    trigger_type: trigger.type,
    timeout_seconds,
    min_instances,
    max_instances,
    ...defined({ dependencies, schedule, exposed_port, memory_limit, cpu_limit, concurrency }),
    ...(timezone !== undefined && { schedule_config: { timezone } }),
    ...(it.desired.mounts.length > 0 && { volumes: mountsSpec(ctx, it.desired) }),
    ...(Object.keys(env).length > 0 && { env }),
  };
  const secrets = Object.keys(config.env).filter((name) => !Object.hasOwn(env, name));
  return { spec, secrets: secrets.map((name) => `env.${name}`) };
}

/** The fields that have a value. */
function filled(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

/** Variables that are one reference each, and hold no text of their own. */
function referringVariables(
  ctx: Context,
  { meta, desired }: ReadonlyResource<'application'> | ReadonlyResource<'function'>,
): Record<string, string> {
  if (desired.config.references === undefined) return {};
  const kind = 'trigger' in desired ? 'function' : 'application';
  const all = unsealEnv(ctx, meta.id, desired.config.env, kind);
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => {
      const parsed = parseReferences(value);
      return 'parts' in parsed && parsed.parts.length > 0 && parsed.parts.every((part) => typeof part !== 'string');
    }),
  );
}

function sourceSpec(
  { view }: Context,
  { desired: { source } }: ReadonlyResource<'application'>,
): { spec: object; secrets: string[] } {
  switch (source.type) {
    case 'image':
      return { spec: { source_type: 'image', image_url: source.image_url }, secrets: [] };
    case 'git': {
      const {
        repository_url,
        branch,
        dockerfile_path,
        build_context,
        submodules,
        build_args,
        build_secrets = {},
      } = source;
      const of = { repository_url, branch, dockerfile_path, build_context };
      return {
        spec: { source_type: 'git', ...of, ...defined({ submodules, git_credential: credential(view, source) }) },
        secrets: [
          ...Object.keys(build_args).map((name) => `build_args.${name}`),
          ...Object.keys(build_secrets).map((name) => `build_secrets.${name}`),
        ],
      };
    }
    case 'compose': {
      const { repository, compose_service, compose_file } = source;
      const { repository_url, branch, compose_path } = repository ?? {};
      const git_credential = repository && credential(view, repository);
      return {
        spec: {
          source_type: 'compose',
          ...defined({ repository_url, branch, compose_path, compose_service, git_credential }),
        },
        secrets: compose_file === undefined ? [] : ['compose_file'],
      };
    }
  }
}

function credential(
  view: Context['view'],
  { git_credential_id: id }: { readonly git_credential_id?: string | undefined },
) {
  return id === undefined ? undefined : view.get('git_credential', id)?.desired.name;
}
