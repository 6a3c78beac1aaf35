import { randomUUID } from 'node:crypto';
import { createServiceKey, hashServiceKey } from '../../api/auth/service-key.ts';
import { createTokens } from '../../api/auth/tokens.ts';
import type { Tokens } from '../../api/auth/tokens.ts';
import type { Column } from '../../api/rights/permissions.ts';
import { systemRandom } from '../../api/ground/random.ts';
import type { KeyScope } from '../../store/kinds/identity.ts';
import { openRepository } from '../../store/repo.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { commit } from '../../store/unit.ts';
import type { Answer, ApiWorld } from './api.ts';
import { desiredState } from './states.ts';

/** How a caller proves who it is. */
export type Credential = Readonly<Record<string, string>>;

/** A user with a session and a service key. */
export interface Actor {
  id: string;
  email: string;
  session: string;
  /** By its token, and by its service key. */
  by: { token: Credential; key: Credential };
  keyId: string;
}

/** A project of its own with all that a route can point at, one of its people, and its owner. */
export interface Stage {
  world: ApiWorld;
  tenant: string;
  project: string;
  /** The default one, with everything in it. */
  environment: string;
  /** Nothing is in it. */
  emptyEnvironment: string;
  server: string;
  emptyServer: string;
  /** No server uses it. */
  sshKey: string;
  gitCredential: string;
  registry: string;
  backupDestination: string;
  application: string;
  applicationName: string;
  /** The one that serves, the one before it, and one under way. */
  deployments: { current: string; earlier: string; queued: string };
  owner: Actor;
  /** A viewer of the project. */
  viewer: Actor & { memberId: string };
  /** Has no part in the project. */
  guest: Actor;
  /** To the project, and pending. */
  invite: string;
  /** Who asks. */
  actor: Actor;
}

/** What the columns of members are called in the record. */
const memberRoles: Partial<Record<Column, 'admin' | 'member' | 'viewer'>> = {
  project_admin: 'admin',
  member: 'member',
  viewer: 'viewer',
};

const tokensOf = new WeakMap<ApiWorld, Promise<Tokens>>();

async function tokens(world: ApiWorld): Promise<Tokens> {
  const { store, mirror, keyring, clock } = world;
  let known = tokensOf.get(world);
  known ??= createTokens({ store, mirror, sealer: keyring, unsealer: keyring, clock, random: systemRandom });
  tokensOf.set(world, known);
  return known;
}

export interface ActorOptions {
  role?: 'superadmin' | 'admin' | 'user';
  passwordHash?: string;
  disabled?: boolean;
  mustResetPassword?: boolean;
  scopes?: KeyScope[];
  /** The service key is narrowed to this project; `own`: to the one of the stage. */
  keyProject?: string;
}

/** Adds a user with a session and a service key to the unit. */
export async function addActor(
  world: ApiWorld,
  unit: Unit,
  tenant: string,
  { role = 'user', passwordHash, disabled = false, mustResetPassword = false, scopes, keyProject }: ActorOptions = {},
): Promise<Actor> {
  const [id, session, keyId] = [randomUUID(), randomUUID(), randomUUID()];
  const email = `${id}@example.test`;
  unit.create(
    'user',
    id,
    desiredState('user', {
      email,
      first_name: 'Given',
      last_name: 'Family',
      role,
      must_reset_password: mustResetPassword,
      disabled,
      ...(passwordHash !== undefined && { password_hash: passwordHash }),
    }),
  );
  const expiresAt = world.clock.now().getTime() + 3_600_000;
  unit.create('session', session, {
    user_id: id,
    expires_at: new Date(expiresAt).toISOString(),
    source: '',
    user_agent: '',
  });
  const key = createServiceKey(systemRandom);
  unit.create('service_key', keyId, {
    user_id: id,
    name: 'key',
    prefix: key.slice(0, 10),
    hash: hashServiceKey(key),
    ...(scopes !== undefined && { scopes }),
    ...(keyProject !== undefined && { project_id: keyProject }),
  });
  const claims = { tenant, userId: id, sessionId: session, expiresAt };
  const token = await (await tokens(world)).sign(claims, world.clock.now());
  return {
    id,
    email,
    session,
    keyId,
    by: { token: { authorization: `Bearer ${token}` }, key: { 'x-service-key': key } },
  };
}

/** Sets the stage: what stands on it is in the store as the controllers would leave it. */
export async function setStage(
  world: ApiWorld,
  column: Column = 'owner',
  options: Omit<ActorOptions, 'role'> & { tenant?: string } = {},
): Promise<Stage> {
  const { tenant = 'default', ...given } = options;
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const ids = Array.from({ length: 9 }, () => randomUUID()) as [string, ...string[]];
  const [project, environment = '', emptyEnvironment = '', server = '', emptyServer = '', application = ''] = ids;
  const [current = '', earlier = '', queued = ''] = ids.slice(6);
  const ofActor = narrowedTo(project, given);
  const owner = await addActor(world, unit, tenant, column === 'owner' ? ofActor : {});
  const actor = column === 'owner' ? owner : await addActor(world, unit, tenant, { ...ofActor, role: roleOf(column) });
  unit.create(
    'project',
    project,
    desiredState('project', {
      name: `project ${project}`,
      owner_id: owner.id,
      default_environment_id: environment,
    }),
  );
  const memberRole = memberRoles[column];
  if (memberRole !== undefined)
    unit.create('member', randomUUID(), { project_id: project, user_id: actor.id, role: memberRole });
  for (const [id, name] of [
    [environment, 'production'],
    [emptyEnvironment, 'staging'],
  ] as const)
    unit.create('environment', id, { project_id: project, name, type: 'production' });
  const sshKey = randomUUID();
  unit.create('ssh_key', sshKey, desiredState('ssh_key'));
  const gitCredential = randomUUID();
  const registry = randomUUID();
  const backupDestination = randomUUID();

  for (const id of [server, emptyServer])
    unit.create(
      'server',
      id,
      desiredState('server', {
        name: `server ${id}`,
        ip_address: '192.0.2.7',
      }),
    );
  const applicationName = `web ${application}`;
  const source = { type: 'image' as const, image_url: 'example/web:1' };
  const env = {
    PASSWORD: world.keyring.seal('sesame', {
      tenant,
      kind: 'application',
      id: application,
      path: 'config.env.PASSWORD',
    }),
  };
  const config = { env, restart_policy: 'always' as const };
  unit.create(
    'application',
    application,
    desiredState('application', {
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: applicationName,
      internal_id: `web-${application.slice(0, 6)}`,
      source,
      config,
      run: 'running',
      deployment_id: queued,
      next_deployment_number: 4,
    }),
  );
  for (const [at, id] of [earlier, current, queued].entries())
    unit.create(
      'deployment',
      id,
      desiredState('deployment', {
        application_id: application,
        project_id: project,
        environment_id: environment,
        server_id: server,
        number: at + 1,
        trigger: 'manual',
        source,
        config,
        queued_at: world.clock.now().toISOString(),
      }),
    );
  await commit(unit);
  const credentials = repo.begin();
  const description = 'of the finance team';
  credentials.create('git_credential', gitCredential, desiredState('git_credential', { description }));
  const password = world.keyring.seal('sesame', { tenant, kind: 'registry', id: registry, path: 'password' });
  credentials.create('registry', registry, desiredState('registry', { password, description }));
  const sealed = (path: string) =>
    world.keyring.seal('sesame', { tenant, kind: 'backup_destination', id: backupDestination, path });
  const keys = { access_key: sealed('access_key'), secret_key: sealed('secret_key') };
  credentials.create('backup_destination', backupDestination, desiredState('backup_destination', keys));
  await commit(credentials);
  const people = await addPeople(world, tenant, project, owner.id);
  const stage: Stage = {
    world,
    tenant,
    project,
    environment,
    emptyEnvironment,
    server,
    emptyServer,
    sshKey,
    gitCredential,
    registry,
    backupDestination,
    application,
    applicationName,
    deployments: { current, earlier, queued },
    owner,
    ...people,
    actor,
  };
  await observeStage(stage);
  return stage;
}

/** Lets another one ask on the stage, whom nothing on it belongs to. */
export async function recast(
  stage: Stage,
  column: Exclude<Column, 'owner'>,
  options: Omit<ActorOptions, 'role'> = {},
): Promise<Stage> {
  const { world, tenant, project } = stage;
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const given = { ...narrowedTo(project, options), role: roleOf(column) };
  const actor = await addActor(world, unit, tenant, given);
  const role = memberRoles[column];
  if (role !== undefined) unit.create('member', randomUUID(), { project_id: project, user_id: actor.id, role });
  await commit(unit);
  await world.settled();
  stage.actor = actor;
  return stage;
}

function roleOf(column: Column): NonNullable<ActorOptions['role']> {
  return column === 'superadmin' || column === 'admin' ? column : 'user';
}

function narrowedTo(project: string, given: ActorOptions): ActorOptions {
  return given.keyProject === 'own' ? { ...given, keyProject: project } : given;
}

async function addPeople(
  world: ApiWorld,
  tenant: string,
  project: string,
  owner: string,
): Promise<Pick<Stage, 'viewer' | 'guest' | 'invite'>> {
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const viewer = { ...(await addActor(world, unit, tenant)), memberId: randomUUID() };
  const guest = await addActor(world, unit, tenant);
  const invite = randomUUID();
  unit.create('member', viewer.memberId, { project_id: project, user_id: viewer.id, role: 'viewer' });
  unit.create('invite', invite, {
    project_id: project,
    email: `invited-${invite}@example.test`,
    role: 'member',
    invited_by: owner,
    expires_at: new Date(world.clock.now().getTime() + 3_600_000).toISOString(),
    state: 'pending',
  });
  await commit(unit);
  return { viewer, guest, invite };
}

async function observeStage({ world, tenant, application, deployments, server }: Stage): Promise<void> {
  const repo = openRepository(world.store, tenant, world.clock);
  const finished = { image: 'example/web:1', image_digest: `sha256:${'0'.repeat(64)}` };
  const states = [
    ['deployment', deployments.earlier, { phase: 'succeeded', ...finished }],
    ['deployment', deployments.current, { phase: 'succeeded', ...finished }],
    ['deployment', deployments.queued, { phase: 'queued' }],
    [
      'application',
      application,
      {
        phase: 'running',
        current_deployment_id: deployments.current,
        consecutive_failures: 0,
        ready_replicas: 1,
        crash_loop_counted: false,
      },
    ],
    ['server', server, { phase: 'active' }],
  ] as const;
  const unit = repo.begin();
  for (const [kind, id, observed] of states) {
    const it = await repo.get(kind, id);
    if (it === undefined) throw new Error(`Not on the stage: ${kind} ${id}`);
    unit.observe(it as never, { ...observed, observedGeneration: it.meta.generation, conditions: [] } as never);
  }
  await commit(unit);
  await world.settled();
}

/** Sends one request below `/<tenant>/api/v1`. */
export async function ask(
  world: ApiWorld,
  request: { method: string; path: string; body?: unknown; tenant?: string },
  credential: Credential = {},
): Promise<Answer> {
  const { method, path, body, tenant = 'default' } = request;
  if (!(body instanceof FormData)) return world.client(undefined, tenant).request(method, path, body, credential);
  const response = await fetch(`${world.url}/${tenant}/api/v1${path}`, { method, headers: { ...credential }, body });
  const text = await response.text();
  const parsed = text === '' ? undefined : JSON.parse(text);
  return { status: response.status, headers: response.headers, body: parsed, data: parsed?.data };
}
