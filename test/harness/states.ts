import { kinds } from '../../store/kinds/kinds.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { Condition } from '../../store/resource.ts';
import { randomId } from './random-id.ts';
import { serviceSpec } from './wire-items.ts';

const at = '2030-01-01T00:00:00.000Z';
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
