import { kinds } from '../../store/kinds/kinds.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { Condition } from '../../store/resource.ts';
import { randomId } from './random-id.ts';
import { serviceSpec } from './wire-items.ts';

const at = '2030-01-01T00:00:00.000Z';
/** A template of one volume. */
export const templateText = 'apiVersion: setpoint/v1\nkind: Template\nvolumes:\n  - name: data\n';
const source = { type: 'image', image_url: 'example/web:1' } as const;

/** What the schema of each kind requires; it adds the rest. */
const required: { readonly [K in KindName]: () => object } = {
  user: () => ({ email: `${randomId()}@example.test`, role: 'user' }),
  session: () => ({ user_id: randomId(), expires_at: at }),
  service_key: () => ({ user_id: randomId(), name: 'key', prefix: 'sp_0000000', hash: randomId() }),
  login_code: () => ({ email: `${randomId()}@example.test` }),
  project: () => ({ name: `project-${randomId()}`, owner_id: randomId(), default_environment_id: randomId() }),
  environment: () => ({ project_id: randomId(), name: 'production' }),
  server: () => ({ name: `server-${randomId()}` }),
  application: () => ({
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    name: `application-${randomId()}`,
    internal_id: 'web-0a1b2c',
    source,
    config: {},
  }),
  database: () => ({
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    name: `database-${randomId()}`,
    internal_id: 'orders-0a1b2c',
    type: 'postgres',
    version: '17',
    database_name: 'app',
    database_user: 'app',
    password: { $sealed: 'sealed', for: 'database' },
    config: { revision: 1, env: {}, files: {} },
    data_volume_id: randomId(),
    run: 'running',
  }),
  deployment: () => ({
    application_id: randomId(),
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    number: 1,
    trigger: 'manual',
    source,
    config: {},
    queued_at: at,
  }),
  assignment: () => ({
    server_id: randomId(),
    project_id: randomId(),
    environment_id: randomId(),
    workload_kind: 'application',
    workload_id: randomId(),
    workload_name: 'web',
    version: randomId(),
    run: 'running',
    spec: serviceSpec(),
    spec_hash: 'hash',
  }),
  git_webhook: () => ({
    project_id: randomId(),
    name: `webhook-${randomId()}`,
    provider: 'github',
    repository_url: 'https://git.example/shop.git',
    secret: { $sealed: 'sealed', for: 'git_webhook' },
  }),
  preview: () => ({
    project_id: randomId(),
    name: `preview-${randomId()}`,
    source_environment_id: randomId(),
    repository_url: 'https://git.example/shop.git',
    branch: 'feature',
    expires_at: at,
  }),
  webhook_delivery: () => ({
    webhook_id: randomId(),
    project_id: randomId(),
    delivery_key: randomId(),
    event: 'push',
    what: 'push',
    repositories: [],
    pushes: [],
    received_at: at,
  }),
  operation: () => ({ type: 'sync', requested_at: at }),
  notification: () => ({ user_id: randomId(), type: 'test', severity: 'info', title: 'Title', message: 'Message' }),
  member: () => ({ project_id: randomId(), user_id: randomId(), role: 'viewer' }),
  invite: () => ({ email: `${randomId()}@example.test`, role: 'member', invited_by: randomId(), expires_at: at }),
  settings: () => ({}),
  volume: () => ({
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    name: `volume-${randomId()}`,
  }),
  git_credential: () => ({
    name: `credential-${randomId()}`,
    host: 'git.example.test',
    credential: {
      type: 'token',
      username: 'reader',
      token: { $sealed: 'key.nonce.text', for: 'git_credential/id/credential.token' },
    },
  }),
  function: () => ({
    project_id: randomId(),
    environment_id: randomId(),
    server_id: randomId(),
    name: `function-${randomId()}`,
    internal_id: 'hello-0a1b2c',
    runtime: 'node20',
    code: 'export default () => new Response("Hello")',
    config: {},
    trigger: { type: 'http' },
    timeout_seconds: 30,
    min_instances: 0,
    max_instances: 4,
    run: 'stopped',
  }),
  function_version: () => ({
    function_id: randomId(),
    project_id: randomId(),
    server_id: randomId(),
    number: 1,
    runtime: 'node20',
    code: 'export default () => new Response("Hello")',
    config: {},
    requested_at: at,
  }),
  run: () => ({
    application_id: randomId(),
    project_id: randomId(),
    server_id: randomId(),
    deployment_id: randomId(),
    name: 'migrate',
    command: ['migrate'],
    timeout_seconds: 60,
    requested_at: at,
  }),
  backup_destination: () => ({
    name: `destination-${randomId()}`,
    provider: 'custom',
    bucket: 'backups',
    endpoint: 'https://s3.example.test',
    access_key: { $sealed: 'key.nonce.text', for: 'backup_destination/id/access_key' },
    access_key_end: 'MPLE',
    secret_key: { $sealed: 'key.nonce.text', for: 'backup_destination/id/secret_key' },
  }),
  backup_schedule: () => ({
    project_id: randomId(),
    of: { kind: 'database', id: randomId() },
    destination_id: randomId(),
    cron_expression: '30 3 * * *',
    timezone: 'UTC',
    retention_count: 7,
  }),
  restore: () => ({
    project_id: randomId(),
    place: { environment_id: randomId(), server_id: randomId() },
    backup_id: randomId(),
    of: { kind: 'database', id: randomId() },
    volume_id: randomId(),
    name: 'orders',
    requested_at: '2026-01-01T00:00:00.000Z',
  }),
  backup: () => ({
    project_id: randomId(),
    place: { environment_id: randomId(), server_id: randomId() },
    of: ofDatabase(randomId()),
    method: 'logical',
    destination_id: randomId(),
    name: 'orders',
    requested_at: '2026-01-01T00:00:00.000Z',
  }),
  wal_archive: () => ({
    project_id: randomId(),
    place: { environment_id: randomId(), server_id: randomId() },
    database_id: randomId(),
    volume_id: randomId(),
    destination_id: randomId(),
    name: 'orders',
    engine: { type: 'postgres', version: '17' },
  }),
  registry: () => ({
    name: `registry-${randomId()}`,
    address: 'registry.example.test',
    username: 'reader',
    password: { $sealed: 'key.nonce.text', for: 'registry/id/password' },
  }),
  template: () => ({ name: `template-${randomId()}`, content: templateText, author_id: randomId() }),
  sync: () => ({
    project_id: randomId(),
    name: `sync-${randomId()}`,
    repository_url: 'https://git.example.test/shop.git',
    branch: 'main',
    path: 'setpoint',
    reader_id: randomId(),
    interval_seconds: 180,
    prune: true,
    drift: 'warn',
    is_paused: false,
    key_id: randomId(),
    requested_by: randomId(),
  }),
  template_instance: () => {
    const place = { project_id: randomId(), environment_id: randomId(), server_id: randomId() };
    const name = `instance-${randomId()}`;
    const volume = { kind: 'volume', id: randomId(), key: 'data', wave: 0, desired: { ...place, name } };
    const of = { template_id: randomId(), template_name: 'shop', variables: {}, requested_by: randomId() };
    return { ...place, name, ...of, children: [volume] };
  },
  ssh_key: () => ({
    name: `key-${randomId()}`,
    credential: { type: 'password', password: { $sealed: 'key.nonce.text', for: 'ssh_key/id/credential.password' } },
  }),
};

/**
 * A desired state that the schema of its kind accepts, for tests that care for a field or two. It is the one place that
 * a new field that is required must be added to.
 */
export function desiredState<K extends KindName>(kind: K, overrides: Partial<DesiredOf<K>> = {}): DesiredOf<K> {
  return kinds[kind].desired.parse({ ...required[kind](), ...overrides }) as DesiredOf<K>; // of the schema of the kind
}

/** An observed state of a project, with one condition. */
export function projectObserved(
  phase: ObservedOf<'project'>['phase'],
  generation = 1,
): ObservedOf<'project'> & { observedGeneration: number; conditions: Condition[] } {
  const ready: Condition = {
    type: 'Ready',
    status: 'true',
    reason: 'Ready',
    message: '',
    observedGeneration: generation,
    changedAt: at,
  };
  return { phase, observedGeneration: generation, conditions: [ready] };
}

/** What a backup is of, which is of that database. */
export function ofDatabase(id: string): DesiredOf<'backup'>['of'] {
  const credentials = { database_user: 'app', database_name: 'app' };
  return { kind: 'database', id, engine: { type: 'postgres', version: '17' }, credentials };
}
