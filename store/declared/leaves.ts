import { isSealed } from '../seal.ts';

/** The parts of a desired state that have no parts, by their paths: texts, numbers, lists and secrets. */
export type Leaves = ReadonlyMap<string, unknown>;

/** Kinds whose objects can be declared field by field. */
export type DeclaredKind = 'environment' | 'volume' | 'database' | 'application' | 'function' | 'template_instance';

/** What is declared as a whole, although it has parts: parts of two checks make no check, parts of two triggers no trigger. */
const whole: ReadonlySet<string> = new Set(['config/healthcheck', 'trigger']);

/** Each part of these is declared as a whole: half a limit may be none. */
const ofWholes = 'config/ulimits';

/** Fields whose names a declaration chooses: one that nobody declares stays alone. The others are written as a whole. */
const open: ReadonlySet<string> = new Set(['env', 'parameters']);

/** Fields that a declaration of each kind can speak for, by their names in the API. */
export const declarableFields: Readonly<Record<DeclaredKind, ReadonlySet<string>>> = {
  environment: new Set(['name', 'display_name', 'type', 'description', 'color', 'git_branch']),
  volume: new Set(['name']),
  /** What it declares is planned child by child. */
  template_instance: new Set(),
  database: new Set([
    'name',
    'display_name',
    'type',
    'version',
    'database_name',
    'database_user',
    'memory_limit',
    'cpu_limit',
    'parameters',
    'exposed_port',
    'connection_pooling',
    'require_tls',
  ]),
  application: new Set([
    'name',
    'host_name',
    'registry_id',
    'app_type',
    'source_type',
    'repository_url',
    'branch',
    'dockerfile_path',
    'build_context',
    'build_args',
    'build_secrets',
    'git_credential_id',
    'submodules',
    'image_url',
    'compose_file',
    'compose_path',
    'compose_service',
    'replicas',
    'autodeploy',
    'autodeploy_interval',
    'watch_paths',
    'max_surge',
    'min_healthy_seconds',
    'healthy_deadline',
    'drain_seconds',
    'stop_grace_seconds',
    'exposed_port',
    'healthcheck_path',
    'healthcheck',
    'restart_policy',
    'start_command',
    'memory_limit',
    'cpu_limit',
    'shm_size',
    'pids_limit',
    'ulimits',
    'env',
    'volumes',
    'domains',
  ]),
  /** The schedule is part of the trigger. */
  function: new Set([
    'name',
    'runtime',
    'code',
    'dependencies',
    'trigger_type',
    'exposed_port',
    'memory_limit',
    'cpu_limit',
    'timeout_seconds',
    'min_instances',
    'max_instances',
    'concurrency',
    'env',
    'volumes',
  ]),
};

/** The leaves of a desired state. Names of fields within a path are escaped as in a JSON pointer. Pure. */
export function leavesOf(desired: object): Leaves {
  return new Map(leavesBelow(desired, ''));
}

function* leavesBelow(value: object, path: string): Generator<[string, unknown]> {
  for (const [name, one] of Object.entries(value)) {
    const at = path === '' ? escaped(name) : `${path}/${escaped(name)}`;
    if (one === undefined || one === null) continue;
    if (at === 'mounts') yield [at, mountsOf(one)];
    else if (typeof one !== 'object' || Array.isArray(one) || isSealed(one) || isWhole(at, path)) yield [at, one];
    else yield* leavesBelow(one as object, at); // an object that is no list
  }
}

function isWhole(at: string, around: string): boolean {
  return whole.has(at) || around === ofWholes;
}

/** Mounts without what a restore changes of them. */
function mountsOf(mounts: unknown): unknown {
  if (!Array.isArray(mounts)) return mounts;
  return mounts.map((mount: object) => ({ ...mount, data_id: undefined }));
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The names of the fields that a path leads through. */
export function namesOfPath(path: string): string[] {
  return path.split('/').map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** The field of the API that a path is of, such as `env` of `config/env/TOKEN`. */
export function fieldOfPath(path: string): string {
  return apiNames(path)[0] ?? '';
}

/** A path as people know it, such as `env.TOKEN`. */
export function shownPath(path: string): string {
  return apiNames(path).join('.');
}

function apiNames(path: string): string[] {
  const [first = '', ...rest] = namesOfPath(path);
  if (first === 'mounts') return ['volumes'];
  if (first === 'trigger') return ['trigger_type'];
  if (first !== 'config' && first !== 'source') return [first, ...rest];
  const below = rest[0] === 'repository' && rest.length > 1 ? rest.slice(1) : rest;
  if (first === 'source' && below[0] === 'type') return ['source_type'];
  return below[0] === 'references' ? ['env'] : below;
}

/** The name that a declaration chose for a leaf of an open field, such as `TOKEN` of `config/env/TOKEN`. */
export function chosenName(path: string): string | undefined {
  const [first, second, third] = namesOfPath(path);
  return first === 'config' || first === 'source' ? third : second;
}

/** What variables take of other objects follows from them. */
export const referencesPath = 'config/references';

/** Whether a field that is declared without this leaf leaves the leaf alone. */
export function isOpen(path: string): boolean {
  return open.has(fieldOfPath(path));
}
