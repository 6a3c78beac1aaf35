import { defined } from '../../store/defined.ts';
import { findTarget } from '../../store/referable.ts';
import { hasReferences, parseReferences } from '../../store/references.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { requireInProject } from '../rights/in-project.ts';
import { unsealBuildArgs, unsealEnv } from '../workloads/application-env.ts';
import { referred } from '../workloads/references.ts';
import { escapeExpression, mentionText } from './expression.ts';
import { printTemplate } from './print.ts';
import type { Printed, PrintedApplication, PrintedFunction } from './print.ts';
import { keyOf } from './resource-key.ts';
import { assignsSecret, isSecretName, mayBeSecret, Secrets } from './secrets.ts';

type Context = Pick<RequestContext, 'view' | 'principal' | 'tenant' | 'sealer' | 'unsealer'>;
type Workload = ReadonlyResource<'application' | 'database' | 'function' | 'volume'>;
type Application = ReadonlyResource<'application'>;
type Fn = ReadonlyResource<'function'>;

/** Ids of what a template is to be made of. */
export interface Sources {
  application_ids?: readonly string[] | undefined;
  database_ids?: readonly string[] | undefined;
  volume_ids?: readonly string[] | undefined;
  function_ids?: readonly string[] | undefined;
}

/**
 * The text of a template that makes the same once more. Secrets become variables that are generated, domains become
 * variables, and ids become references. Databases that variables refer to, and volumes that are mounted, come along.
 * @throws ApiError NOT_FOUND, FORBIDDEN; BAD_REQUEST or CONFLICT for what a template cannot say
 */
export function textOfWorkloads(ctx: Context, name: string, sources: Sources): string {
  return new Reverse(ctx, sources).text(name);
}

class Reverse {
  readonly #ctx: Context;
  readonly #applications: readonly Application[];
  readonly #functions: readonly Fn[];
  readonly #databases = new Map<string, ReadonlyResource<'database'>>();
  readonly #volumes = new Map<string, ReadonlyResource<'volume'>>();
  readonly #keys = new Map<string, string>();
  readonly #secrets = new Secrets([]);
  readonly #domains: { name: string; type: 'domain'; description: string }[] = [];

  constructor(ctx: Context, { application_ids = [], database_ids = [], volume_ids = [], function_ids = [] }: Sources) {
    this.#ctx = ctx;
    const { view } = ctx;
    this.#applications = [...new Set(application_ids)].map((id) =>
      this.#open(referred(view, 'application', id, 'application_ids')),
    );
    this.#functions = [...new Set(function_ids)].map((id) =>
      this.#open(referred(view, 'function', id, 'function_ids')),
    );
    for (const id of database_ids) this.#databases.set(id, this.#open(referred(view, 'database', id, 'database_ids')));
    for (const id of volume_ids) this.#volumes.set(id, this.#open(referred(view, 'volume', id, 'volume_ids')));
    for (const it of this.#applications) {
      for (const { volume_id: id } of it.desired.mounts)
        this.#volumes.set(id, this.#open(referred(view, 'volume', id, 'application_ids')));
      for (const text of it.desired.config.references ?? []) this.#include(it, text);
    }
    for (const it of this.#functions) for (const text of it.desired.config.references ?? []) this.#include(it, text);
    const all = [...this.#applications, ...this.#functions, ...this.#databases.values(), ...this.#volumes.values()];
    const places = new Set(all.map(({ desired }) => desired.environment_id));
    if (places.size > 1)
      throw badField(
        'application_ids',
        'elsewhere',
        'All of it must be in one environment: a template is instantiated in one',
      );
    for (const it of all) this.#keys.set(it.meta.id, this.#keyFor(it));
  }

  /** Each object is one that the caller may change. */
  #open<W extends Workload>(it: W): W {
    requireInProject(this.#ctx.principal, 'POST /templates/from-workloads', this.#ctx.view, it.desired.project_id);
    return it;
  }

  /** Takes along what a variable refers to. @throws ApiError CONFLICT for an application that was not named */
  #include(of: Application | Fn, text: string): void {
    const parsed = parseReferences(text);
    const [reference] = 'parts' in parsed ? parsed.parts : [];
    if (typeof reference !== 'object') return;
    const target = findTarget(this.#ctx.view, of.desired.environment_id, reference);
    if ('lack' in target) throw conflicting(`Cannot make a template of ${of.desired.name} as ${target.lack}`);
    if (target.kind === 'database')
      this.#databases.set(target.id, this.#open(referred(this.#ctx.view, 'database', target.id, 'application_ids')));
    else if (!this.#applications.some(({ meta }) => meta.id === target.id))
      throw badField(
        'application_ids',
        'incomplete',
        `Variables of ${of.desired.name} refer to application ${reference.name}: name it, too`,
      );
  }

  #keyFor({ meta, desired }: Workload): string {
    if (meta.kind === 'volume' && 'database_id' in desired && desired.database_id !== undefined)
      throw badField('volume_ids', 'of_database', `Volume ${desired.name} belongs to a database: name that`);
    const taken = new Set(
      [...this.#keys].filter(([id]) => this.#ctx.view.get(meta.kind, id) !== undefined).map(([, key]) => key),
    );
    const start = keyOf(desired.name);
    let free = start;
    for (let suffix = 2; taken.has(free); suffix += 1) free = `${start.slice(0, 36)}-${suffix}`;
    return free;
  }

  text(name: string): string {
    const holders: (Application | Fn)[] = [...this.#applications, ...this.#functions];
    const envs = new Map(
      holders.map(({ meta: { kind, id }, desired }) => [id, unsealEnv(this.#ctx, id, desired.config.env, kind)]),
    );
    // secrets that have a name of their own are known before texts that hold them
    for (const it of holders)
      for (const [key, value] of Object.entries(envs.get(it.meta.id) ?? {}))
        if (!isRead(it) || !hasReferences(value)) this.#secretIn(key, value);
    const printed: Omit<Printed, 'variables'> = {
      metadata: { name },
      volumes: [...this.#volumes.keys()].map((id) => ({ name: this.#key(id) })),
      databases: [...this.#databases].map(([id, { desired }]) => ({
        name: this.#key(id),
        type: desired.type,
        version: desired.version,
        database_name: desired.database_name,
        ...defined({
          database_user: desired.type === 'redis' ? undefined : desired.database_user,
          memory_limit: desired.memory_limit,
          cpu_limit: desired.cpu_limit,
          parameters: desired.parameters,
          connection_pooling: desired.connection_pooling,
          require_tls: desired.require_tls,
        }),
      })),
      applications: this.#applications.map((it) => this.#application(it, envs.get(it.meta.id) ?? {})),
      functions: this.#functions.map((it) => this.#function(it, envs.get(it.meta.id) ?? {})),
    };
    return printTemplate({ ...printed, variables: [...this.#domains, ...this.#secrets.variables()] });
  }

  #key(id: string): string {
    return this.#keys.get(id) ?? '';
  }

  #application(it: Application, values: Readonly<Record<string, string>>): PrintedApplication {
    const { desired, meta } = it;
    const { config } = desired;
    const key = this.#key(meta.id);
    const { env: _env, references: _references, restart_policy, ...others } = config;
    const { start_command, healthcheck, healthcheck_path, ...settings } = others;
    const { watch_paths } = desired;
    const texts = defined({ start_command, healthcheck, healthcheck_path, watch_paths });
    const env = this.#env(it, values);
    const plain = {
      app_type: desired.app_type,
      ...this.#source(it),
      ...defined({
        ...settings,
        restart_policy: restart_policy === 'always' ? undefined : restart_policy,
        replicas: desired.replicas === 1 ? undefined : desired.replicas,
        autodeploy: desired.autodeploy ? true : undefined,
        autodeploy_interval: desired.autodeploy_interval,
        max_surge: desired.max_surge,
        min_healthy_seconds: desired.min_healthy_seconds,
        healthy_deadline: desired.healthy_deadline,
        drain_seconds: desired.drain_seconds,
        stop_grace_seconds: desired.stop_grace_seconds,
      }),
    };
    const domains = desired.domains.map((one, index) => {
      if (one.basic_auth.length > 0 || one.service !== undefined)
        throw conflicting(
          `Cannot make a template of ${desired.name} as its domain ${one.host} has users or names a service`,
        );
      const variable = `${key.toUpperCase().replaceAll('-', '_')}_DOMAIN${index === 0 ? '' : `_${index + 1}`}`;
      this.#domains.push({ name: variable, type: 'domain', description: `Leads to ${key}` });
      return {
        host: `\${${variable}}`,
        ...(one.path !== '/' && { path: one.path }),
        ...defined({ port: one.port }),
        tls: one.tls,
      };
    });
    const volumes = desired.mounts.map(({ volume_id, path, read_only }) => ({
      volume: this.#key(volume_id),
      path,
      ...(read_only && { read_only }),
    }));
    return {
      name: key,
      ...mapped(plain, escapeExpression),
      ...mapped(texts, (text) => this.#secrets.hide(text, `${key}_SECRET`).text),
      ...(domains.length > 0 && { domains }),
      ...(Object.keys(env).length > 0 && { env }),
      ...(volumes.length > 0 && { volumes }),
    };
  }

  /** @throws ApiError CONFLICT for a function with a volume, or with a secret in its code or dependencies: a template has neither */
  #function(it: Fn, values: Readonly<Record<string, string>>): PrintedFunction {
    const { desired, meta } = it;
    const { code, dependencies, trigger } = desired;
    const refuse = (why: string) => conflicting(`Cannot make a template of function ${desired.name} as ${why}`);
    if (desired.mounts.length > 0) throw refuse('it mounts a volume, which functions of a template cannot');
    const secretIn = (text: string): string | undefined =>
      this.#secrets.hide(text, `${this.#key(meta.id)}_SECRET`).names[0];
    const hidden = secretIn(code);
    if (hidden !== undefined) throw refuse(`its code has a secret (${hidden}): let it read a variable instead`);
    if (secretIn(dependencies ?? '') !== undefined)
      throw refuse('its dependencies have a secret, which a template would show: name them without a login');
    const env = this.#env(it, values);
    const plain = defined({
      dependencies,
      trigger_type: trigger.type === 'http' ? undefined : trigger.type,
      schedule: trigger.type === 'cron' ? trigger.schedule : undefined,
      schedule_config: trigger.type === 'cron' ? { timezone: trigger.timezone } : undefined,
      memory_limit: desired.memory_limit,
      cpu_limit: desired.cpu_limit,
      timeout_seconds: desired.timeout_seconds,
      min_instances: desired.min_instances,
      max_instances: desired.max_instances,
      concurrency: desired.concurrency,
    });
    return {
      name: this.#key(meta.id),
      runtime: desired.runtime,
      ...mapped(plain, escapeExpression),
      code,
      ...(Object.keys(env).length > 0 && { env }),
    };
  }

  /** @throws ApiError CONFLICT for a source that a template cannot have */
  #source({ meta, desired: { name, source, registry_id } }: Application): object {
    const refuse = (why: string) => conflicting(`Cannot make a template of application ${name} as ${why}`);
    if (registry_id !== undefined) throw refuse('its images are pulled with a registry of this installation');
    switch (source.type) {
      case 'image':
        return { image_url: source.image_url };
      case 'compose':
        throw refuse('it is one of a compose file: convert that by POST /templates/convert-compose');
      case 'git': {
        if (source.git_credential_id !== undefined || source.build_secrets !== undefined)
          throw refuse('its repository or its build needs a secret of this installation');
        const { repository_url, branch, dockerfile_path, build_context, submodules } = source;
        const args = unsealBuildArgs(this.#ctx, meta.id, source.build_args);
        const secret = Object.entries(args).find(([key, value]) => this.#tellsSecret(key, value));
        if (secret !== undefined) throw refuse(`its build argument ${secret[0]} looks like a secret`);
        return {
          source_type: 'git',
          repository_url,
          branch,
          dockerfile_path,
          build_context,
          ...defined({ submodules }),
          ...(Object.keys(args).length > 0 && { build_args: args }),
        };
      }
    }
  }

  /** Whether a text with that name, which cannot be a variable, would show a secret. */
  #tellsSecret(name: string, value: string): boolean {
    if (isSecretName(name) || mayBeSecret(name, value) || assignsSecret(value)) return true;
    return this.#secrets.hide(value, name).names.length > 0;
  }

  #env(it: Application | Fn, values: Readonly<Record<string, string>>): Record<string, string> {
    return Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name,
        isRead(it) ? this.#readValue(it.desired, name, value) : this.#plain(name, value),
      ]),
    );
  }

  /** A value with references to other objects. */
  #readValue({ environment_id }: Pick<Application['desired'], 'environment_id'>, name: string, value: string): string {
    const parsed = parseReferences(value);
    if ('fault' in parsed) return this.#plain(name, value);
    if (parsed.parts.every((part) => typeof part === 'string')) return this.#plain(name, parsed.parts.join(''));
    return parsed.parts
      .map((part) => {
        if (typeof part === 'string') return this.#secrets.hide(part, name).text;
        const target = findTarget(this.#ctx.view, environment_id, part);
        const key = 'lack' in target ? part.name : this.#key(target.id);
        return mentionText({ of: part.kind, name: key, attribute: part.attribute });
      })
      .join('');
  }

  #plain(name: string, value: string): string {
    const secret = this.#secretIn(name, value);
    return secret === undefined ? this.#secrets.hide(value, name).text : `\${${secret}}`;
  }

  /** The variable for a value that is a secret as a whole. Everybody of the tenant sees a template. */
  #secretIn(name: string, value: string): string | undefined {
    if (value === '') return undefined;
    if (isSecretName(name)) return this.#secrets.nameOf(value, name);
    return mayBeSecret(name, value) ? this.#secrets.nameOf(value, name, false) : undefined;
  }
}

/** Whether values of the variables are read for references. */
function isRead({ desired }: Application | Fn): boolean {
  return desired.config.references !== undefined;
}

/** The fields with each text, also within lists and maps, changed by `by`. */
function mapped(fields: object, by: (text: string) => string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, mappedValue(value, by)]));
}

function mappedValue(value: unknown, by: (text: string) => string): unknown {
  if (typeof value === 'string') return by(value);
  if (Array.isArray(value)) return value.map((it) => mappedValue(it, by));
  return typeof value === 'object' && value !== null ? mapped(value, by) : value;
}
