import { randomUUID } from 'node:crypto';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { routeName } from '../../api/endpoint/endpoint.ts';
import { encodeIcon, readIcon } from '../../api/workloads/icon.ts';
import { keys } from '../../store/keys.ts';
import { placeOf } from '../../store/kinds/membership.ts';
import { putHeldRemovals } from '../../store/held-removals.ts';
import { password } from '../harness/api.ts';
import { formOf, png } from '../harness/images.ts';
import { agentIsThere, instanceOf } from '../harness/running-instance.ts';
import type { Stage } from '../harness/stage.ts';
import { openRepository } from '../../store/repo.ts';
import { commit } from '../../store/unit.ts';
import { desiredState, ofDatabase, templateText } from '../harness/states.ts';

/** One request that its route grants: to the owner of the project, or to whom the table lets. */
export interface Example {
  /** Below `/api/v1`. */
  path: (stage: Stage) => string;
  body?: (stage: Stage) => unknown;
  /** What a key that is narrowed to the project must send instead. */
  bodyOfNarrowed?: (stage: Stage) => unknown;
  /** What only this route needs beside the stage. */
  before?: (stage: Stage) => Promise<void> | void;
  /** The account of the actor has a password. */
  withPassword?: true;
  /** Of a list: the items that belong to the stage. */
  item?: (stage: Stage) => string;
  /** What a masked answer must not show. */
  masked?: RegExp;
  /** The body is a form with a file, not JSON. */
  upload?: true;
  /** What a text of a field answers that is too long, where it is not 400. */
  wrongValue?: number;
  /** Why the answer is not the usual one, and which it is. */
  status?: number;
}

const at =
  (path: string): Example['path'] =>
  (stage) =>
    path.replaceAll(/:(\w+)/g, (_, name: keyof typeof places) => places[name](stage));

export const places = {
  project: (it: Stage) => it.project,
  environment: (it: Stage) => it.environment,
  empty: (it: Stage) => it.emptyEnvironment,
  server: (it: Stage) => it.server,
  emptyServer: (it: Stage) => it.emptyServer,
  sshKey: (it: Stage) => it.sshKey,
  gitCredential: (it: Stage) => it.gitCredential,
  registry: (it: Stage) => it.registry,
  backupDestination: (it: Stage) => it.backupDestination,
  application: (it: Stage) => it.application,
  current: (it: Stage) => it.deployments.current,
  queued: (it: Stage) => it.deployments.queued,
  key: (it: Stage) => it.actor.keyId,
  invite: (it: Stage) => it.invite,
  run: (it: Stage) => runOf(it),
  volume: (it: Stage) => ownVolumes.get(it) ?? '',
  database: (it: Stage) => databaseOf(it),
  fn: (it: Stage) => ownFunctions.get(it)?.id ?? '',
  fnVersion: (it: Stage) => ownFunctions.get(it)?.version ?? '',
  backup: (it: Stage) => ownBackups.get(it)?.backup ?? '',
  schedule: (it: Stage) => ownBackups.get(it)?.schedule ?? '',
  restore: (it: Stage) => ownBackups.get(it)?.restore ?? '',
  preview: (it: Stage) => ownPreviews.get(it) ?? '',
  template: (it: Stage) => ownTemplates.get(it)?.template ?? '',
  instance: (it: Stage) => ownTemplates.get(it)?.instance ?? '',
  sync: (it: Stage) => ownSyncs.get(it) ?? '',
  webhook: (it: Stage) => ownWebhooks.get(it)?.webhook ?? '',
  delivery: (it: Stage) => ownWebhooks.get(it)?.delivery ?? '',
  ownInvite: (it: Stage) => ownInvites.get(it) ?? '',
  /** Whoever may take nobody's role away may still leave. */
  leaver: (it: Stage) => (isPlainMember(it) ? it.actor.id : it.viewer.memberId),
};

const bystanders = new WeakMap<Stage, string>();

/** Somebody without any part in the project. */
async function addBystander(stage: Stage): Promise<void> {
  const id = crypto.randomUUID();
  const unit = openRepository(stage.world.store, stage.tenant, stage.world.clock).begin();
  unit.create('user', id, desiredState('user', { email: `${id}@example.test`, role: 'user' }));
  await commit(unit);
  bystanders.set(stage, id);
}

const bystander = (stage: Stage): string => `/users/${bystanders.get(stage)}`;

function isPlainMember({ world, tenant, project, actor }: Stage): boolean {
  const [member] = world.mirror.tenant(tenant).by('member', 'place', placeOf(project, actor.id));
  return member !== undefined && member.desired.role !== 'admin';
}

const ownInvites = new WeakMap<Stage, string>();

/** Somebody invites the actor to a project of theirs. */
async function inviteActor(stage: Stage): Promise<void> {
  const { world, tenant, actor, guest } = stage;
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const [project, invite] = [randomUUID(), randomUUID()];
  unit.create(
    'project',
    project,
    desiredState('project', {
      name: `project ${project}`,
      owner_id: guest.id,
      default_environment_id: randomUUID(),
    }),
  );
  unit.create('invite', invite, {
    project_id: project,
    email: actor.email.toUpperCase(),
    role: 'viewer',
    invited_by: guest.id,
    expires_at: new Date(world.clock.now().getTime() + 3_600_000).toISOString(),
    state: 'pending',
  });
  await commit(unit);
  await world.settled();
  ownInvites.set(stage, invite);
}

const ownWebhooks = new WeakMap<Stage, { webhook: string; delivery: string }>();

const ownTemplates = new WeakMap<Stage, { template: string; instance: string }>();

/** A template of the actor, and what was made of it. */
async function addTemplate(stage: Stage): Promise<void> {
  const { world, tenant, project, environment, server, actor } = stage;
  const [template, instance] = [crypto.randomUUID(), crypto.randomUUID()];
  const unit = openRepository(world.store, tenant, world.clock).begin();
  unit.create('template', template, desiredState('template', { author_id: actor.id }));
  const place = { project_id: project, environment_id: environment, server_id: server };
  const formers = [
    {
      revision: 1,
      template_id: template,
      template_name: 'shop',
      variables: {},
      content: templateText,
      until: '2030-01-01T00:00:00Z',
    },
  ];
  const of = { template_id: template, content: templateText, revision: 2, formers };
  unit.create('template_instance', instance, desiredState('template_instance', { ...place, ...of }));
  await commit(unit);
  await world.settled();
  ownTemplates.set(stage, { template, instance });
}

const ownSyncs = new WeakMap<Stage, string>();

async function addSync(stage: Stage): Promise<void> {
  const { world, tenant, project, emptyServer: reader_id, actor } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  unit.create(
    'sync',
    id,
    desiredState('sync', { project_id: project, reader_id, requested_by: actor.id, name: `kept-${id}` }),
  );
  await commit(unit);
  await world.settled();
  ownSyncs.set(stage, id);
}

/** A sync that has applied two commits. */
async function addAppliedSync(stage: Stage): Promise<void> {
  await addSync(stage);
  const { world, tenant } = stage;
  const repo = openRepository(world.store, tenant, world.clock);
  const it = await repo.get('sync', ownSyncs.get(stage) ?? '');
  if (it === undefined) throw new Error('The sync is not there');
  const runs = ['b', 'a'].map((digit) => ({
    commit: digit.repeat(40),
    at: '2026-01-01T00:00:00.000Z',
    outcome: 'applied' as const,
    steps: [],
    changes: 1,
  }));
  const seen = { observedGeneration: it.meta.generation, conditions: [], differs: [], needs_force: [] };
  await repo.observe(it, { phase: 'in_sync', commit_applied: 'b'.repeat(40), runs, ...seen }, []);
  await world.settled();
}

const ownPreviews = new WeakMap<Stage, string>();

/** A preview of a fork, and an application that one could be made of. */
async function addPreview(stage: Stage): Promise<void> {
  const { world, tenant, project, environment, server } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const repository_url = 'https://git.example/shop.git';
  const source = { type: 'git', repository_url, branch: 'main', dockerfile_path: 'Dockerfile' } as const;
  const built = { source: { ...source, build_context: '.', build_args: {} } };
  const at = { project_id: project, environment_id: environment, server_id: server };
  unit.create('application', crypto.randomUUID(), desiredState('application', { ...at, ...built }));
  const fork = { fork_url: 'https://git.example/fork.git', commit: 'a'.repeat(40) };
  unit.create(
    'preview',
    id,
    desiredState('preview', { project_id: project, source_environment_id: environment, expires_at: soon(), ...fork }),
  );
  await commit(unit);
  await world.settled();
  ownPreviews.set(stage, id);
}

function soon(): string {
  return new Date(Date.now() + 3_600_000).toISOString();
}

async function addWebhook(stage: Stage): Promise<void> {
  const { world, tenant, project } = stage;
  const [webhook, delivery] = [crypto.randomUUID(), crypto.randomUUID()];
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const place = { tenant, kind: 'git_webhook', id: webhook, path: 'secret' };
  const secret = world.keyring.seal('s'.repeat(64), place);
  unit.create('git_webhook', webhook, desiredState('git_webhook', { project_id: project, secret, provider: 'gitlab' }));
  const what = { webhook_id: webhook, project_id: project, pushes: [] };
  const it = unit.create('webhook_delivery', delivery, desiredState('webhook_delivery', what));
  await commit(unit);
  await world.settled();
  await openRepository(world.store, tenant, world.clock).observe(
    it as never,
    { phase: 'decided', applications: [], observedGeneration: 1, conditions: [] },
    [],
  );
  await world.settled();
  ownWebhooks.set(stage, { webhook, delivery });
}

const ownVolumes = new WeakMap<Stage, string>();

async function addVolume(stage: Stage): Promise<void> {
  const { world, tenant, project, environment, server } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const place = { project_id: project, environment_id: environment, server_id: server };
  unit.create('volume', id, desiredState('volume', place));
  await commit(unit);
  await world.settled();
  ownVolumes.set(stage, id);
}

const ownDatabases = new WeakMap<Stage, string>();
export const databaseOf = (stage: Stage): string => ownDatabases.get(stage) ?? '';

/** A database that runs on the server of the stage, with its volume, and an agent that answers for it. */
export async function addDatabase(stage: Stage): Promise<void> {
  const { world, tenant, project, environment, server } = stage;
  const [id, volume] = [crypto.randomUUID(), crypto.randomUUID()];
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const place = { project_id: project, environment_id: environment, server_id: server };
  const password = world.keyring.seal('open sesame', { tenant, kind: 'database', id, path: 'password' });
  const it = unit.create('database', id, desiredState('database', { ...place, password, data_volume_id: volume }));
  unit.create('volume', volume, desiredState('volume', { ...place, database_id: id }));
  await commit(unit);
  const seen = { observedGeneration: it.meta.generation, conditions: [] };
  await repo.observe(it, { phase: 'running', initialised: true, ...seen }, []);
  await instanceOf(repo, { application: id, project, environment, server }, { kind: 'database' });
  await agentIsThere(world.store, stage);
  world.agents.answer = (_, call) => answerFor(call);
  await world.settled();
  ownDatabases.set(stage, id);
}

const ownFunctions = new WeakMap<Stage, { id: string; version: string }>();

/** A function that runs on the server of the stage, with its version, and an agent that answers for it. */
async function addFunction(stage: Stage): Promise<void> {
  const { world, tenant, project, environment, server } = stage;
  const [id, version] = [crypto.randomUUID(), crypto.randomUUID()];
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const place = { project_id: project, server_id: server };
  const env = {
    SECRET: world.keyring.seal('open sesame', { tenant, kind: 'function', id, path: 'config.env.SECRET' }),
  };
  const wanted = {
    ...place,
    environment_id: environment,
    version_id: version,
    run: 'running' as const,
    config: { env },
  };
  const it = unit.create('function', id, desiredState('function', wanted));
  const built = unit.create(
    'function_version',
    version,
    desiredState('function_version', { ...place, function_id: id, config: { env } }),
  );
  await commit(unit);
  const seen = { observedGeneration: 1, conditions: [] };
  await repo.observe(it, { phase: 'running', active_version_id: version, ...seen }, []);
  await repo.observe(built, { phase: 'ready', image: 'setpoint/hello:1', image_digest: 'sha256:1', ...seen }, []);
  await agentIsThere(world.store, stage);
  world.agents.answer = (_, call) => answerOfFunction(call);
  await world.settled();
  ownFunctions.set(stage, { id, version });
}

function answerOfFunction(call: CallParams): unknown {
  const execution = {
    id: crypto.randomUUID(),
    version_id: crypto.randomUUID(),
    trigger: 'manual',
    status: 'succeeded',
    started_at: '2026-01-01T00:00:00.000Z',
    cold_start: false,
    method: 'POST',
    path: '/',
  };
  switch (call.method) {
    case 'function.call':
      return { execution, answer: { status: 200, headers: {}, body: 'SGVsbG8=', truncated: false } };
    case 'function.executions':
      return { items: [execution], more: false };
    default:
      return { lines: [], truncated: false };
  }
}

const ownBackups = new WeakMap<Stage, { backup: string; schedule: string; restore: string }>();

/** A database with a schedule, a backup that is completed, and a restore of it that was asked for; `ended`: it has ended. */
async function addBackup(stage: Stage, { ended = true } = {}): Promise<void> {
  await addDatabase(stage);
  const { world, tenant, project, environment, server, backupDestination } = stage;
  const database = databaseOf(stage);
  const [backup, schedule, restore] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const place = { environment_id: environment, server_id: server };
  const of = { project_id: project, of: { kind: 'database' as const, id: database } };
  const to = { destination_id: backupDestination };
  const made = unit.create(
    'backup',
    backup,
    desiredState('backup', { ...of, of: ofDatabase(database), ...to, place, schedule_id: schedule }),
  );
  unit.create('backup_schedule', schedule, desiredState('backup_schedule', { ...of, ...to }));
  const wanted = desiredState('restore', { ...of, place, backup_id: backup, volume_id: crypto.randomUUID() });
  const begun = unit.create('restore', restore, wanted);
  await commit(unit);
  const seen = { observedGeneration: 1, conditions: [] };
  await repo.observe(made, { phase: 'completed', ...seen }, []);
  await repo.observe(begun, { phase: ended ? 'completed' : 'pending', ...seen }, []);
  await world.settled();
  ownBackups.set(stage, { backup, schedule, restore });
}
/** A volume that the application of the stage mounts, and a backup of it that is completed. */
async function addVolumeBackup(stage: Stage): Promise<void> {
  await addVolume(stage);
  const { world, tenant, project, environment, server, backupDestination, application } = stage;
  const [id, volume] = [crypto.randomUUID(), ownVolumes.get(stage) ?? ''];
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const of = { project_id: project, of: { kind: 'volume' as const, id: volume }, method: 'snapshot' as const };
  const place = { environment_id: environment, server_id: server };
  const made = unit.create(
    'backup',
    id,
    desiredState('backup', { ...of, place, name: 'notes', destination_id: backupDestination }),
  );
  const app = (await repo.get('application', application))!;
  unit.change(app, (draft) => {
    draft.replicas = 1;
    draft.mounts.push({ volume_id: volume, path: '/data', read_only: false });
  });
  await commit(unit);
  const seen = { observedGeneration: 1, conditions: [] };
  await repo.observe(made, { phase: 'completed', ...seen }, []);
  await repo.observe((await repo.get('volume', volume))!, { phase: 'bound', ...seen }, []);
  await world.settled();
  ownBackups.set(stage, { backup: id, schedule: '', restore: '' });
}

const addUnfinished = (stage: Stage): Promise<void> => addBackup(stage, { ended: false });

/** An instant that the database of {@link addRecoverable} can be brought to. */
const recoverable = '2026-01-02T00:00:00.000Z';
const formerVolumes = new WeakMap<Stage, string>();

/** A volume that the database served from before. */
export function formerVolumeOf(stage: Stage): string {
  return formerVolumes.get(stage) ?? '';
}

/** A database with an archive that goes on and a base backup, a former volume, and, if wanted, a recovery to be switched to. */
async function addRecoverable(stage: Stage, { isReady = false } = {}): Promise<void> {
  await addDatabase(stage);
  const { world, tenant, project, environment, server, backupDestination } = stage;
  const database = databaseOf(stage);
  const [archive, backup, former] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const repo = openRepository(world.store, tenant, world.clock);
  const unit = repo.begin();
  const place = { environment_id: environment, server_id: server };
  const to = { project_id: project, place, destination_id: backupDestination };
  const log = unit.create('wal_archive', archive, desiredState('wal_archive', { ...to, database_id: database }));
  const base = unit.create(
    'backup',
    backup,
    desiredState('backup', { ...to, of: ofDatabase(database), method: 'physical', archive_id: archive }),
  );
  unit.create('volume', former, desiredState('volume', { project_id: project, ...place, database_id: database }));
  const recovery = {
    archive_id: archive,
    target_time: recoverable,
    first_segment: '000000010000000000000002',
    last_segment: '000000010000000000000009',
    holds: true,
  };
  const wanted = desiredState('restore', {
    project_id: project,
    place,
    of: { kind: 'database', id: database },
    backup_id: backup,
    volume_id: former,
    recovery,
  });
  const begun = isReady ? unit.create('restore', crypto.randomUUID(), wanted) : undefined;
  await commit(unit);
  const seen = { observedGeneration: 1, conditions: [] };
  const until = { until: '2026-01-03T00:00:00.000Z', until_segment: '000000010000000000000009' };
  await repo.observe(log, { phase: 'archiving', gaps: [], ...until, ...seen }, []);
  const needs = { first_segment: '000000010000000000000002', last_segment: '000000010000000000000003' };
  await repo.observe(
    base,
    { phase: 'completed', log: { ...needs, stopped_at: '2026-01-01T00:00:00.000Z' }, ...seen },
    [],
  );
  if (begun !== undefined) await repo.observe(begun, { phase: 'ready_to_switch', ...seen }, []);
  await world.settled();
  formerVolumes.set(stage, former);
}

/** A backup that has not ended. */
async function addPendingBackup(stage: Stage): Promise<void> {
  await addBackup(stage);
  const { world, tenant, project, environment, server, backupDestination } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const place = { environment_id: environment, server_id: server };
  const of = { project_id: project, of: ofDatabase(databaseOf(stage)), destination_id: backupDestination };
  unit.create('backup', id, desiredState('backup', { ...of, place }));
  await commit(unit);
  await world.settled();
  ownBackups.set(stage, { backup: id, schedule: '', restore: '' });
}

/** What the agent of a server with a database of PostgreSQL answers. */
function answerFor(call: CallParams): unknown {
  switch (call.method) {
    case 'instance.command':
      return {
        exit_code: 0,
        output: call.command.join(' ').includes('pg_database_size') ? '8192,app\n' : '1,100,60\n',
      };
    case 'import.look':
      return { size_bytes: 4096 };
    case 'volume.usage':
      return { bytes: 65_536 };
    case 'logs.read':
      return { lines: [], truncated: false };
    default:
      return { since: 0, until: 3_600_000, step_ms: 5000, rows: [], latest: [] };
  }
}

const ownRuns = new WeakMap<Stage, string>();
export const runOf = (stage: Stage): string => ownRuns.get(stage) ?? '';

/** A run of the application on the stage. */
export async function addRun(stage: Stage): Promise<void> {
  const { world, tenant, project, application, server, deployments } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const of = { application_id: application, project_id: project, server_id: server };
  unit.create('run', id, desiredState('run', { ...of, deployment_id: deployments.current }));
  await commit(unit);
  await world.settled();
  ownRuns.set(stage, id);
}

/** The agent of the server is connected, and of a release that examines nothing. */
async function addEarlierAgent({ world, tenant, server }: Stage): Promise<void> {
  const live = { replica: 'r', session: 's', machineId: 'm', capabilities: [] };
  await world.store.txn({ if: [], then: [{ put: keys.agent(tenant, server), value: JSON.stringify(live) }] });
  await world.settled();
}

const tenantInvites = new WeakMap<Stage, string>();

async function addTenantInvite(stage: Stage): Promise<void> {
  const { world, tenant, actor } = stage;
  const id = crypto.randomUUID();
  const unit = openRepository(world.store, tenant, world.clock).begin();
  const expires_at = new Date(world.clock.now().getTime() + 86_400_000).toISOString();
  const email = `${id}@example.test`;
  unit.create('invite', id, { email, role: 'user', invited_by: actor.id, expires_at, state: 'pending' });
  await commit(unit);
  tenantInvites.set(stage, id);
}

async function oneRuns(stage: Stage): Promise<void> {
  const { world, tenant } = stage;
  await instanceOf(openRepository(world.store, tenant, world.clock), stage);
  await agentIsThere(world.store, stage);
  await world.settled();
}

const noLogs = ({ world }: Stage): void => {
  world.agents.answer = () => ({ lines: [], truncated: false });
};

async function noMetrics({ world, tenant, server }: Stage): Promise<void> {
  world.agents.answer = () => ({ since: 0, until: 3_600_000, step_ms: 5000, rows: [], latest: [] });
  await agentIsThere(world.store, { tenant, server });
  await world.settled();
}

async function giveIcon({ world, tenant, project }: Stage): Promise<void> {
  const repo = openRepository(world.store, tenant, world.clock);
  await repo.change('project', project, (draft) => void (draft.icon_path = '/icon'));
  const value = encodeIcon(await readIcon(png()));
  await world.store.txn({ if: [], then: [{ put: keys.bytes(tenant, 'project', project), value }] });
  await world.settled();
}

/** One for every endpoint, by its name in the table of permissions. */
export const examples: Readonly<Record<string, Example>> = {
  'GET /auth/setup-status': { path: at('/auth/setup-status') },
  'POST /auth/register': {
    path: at('/auth/register'),
    body: () => ({ email: 'first@example.test', password }),
    status: 403, // there are users
  },
  'POST /auth/login': {
    path: at('/auth/login'),
    withPassword: true,
    body: ({ actor }) => ({ email: actor.email, password }),
  },
  'POST /auth/logout': { path: at('/auth/logout') },
  'GET /auth/me': { path: at('/auth/me') },
  'PUT /auth/me': { path: at('/auth/me'), body: () => ({ first_name: 'New' }) },
  'PUT /auth/me/password': {
    path: at('/auth/me/password'),
    withPassword: true,
    body: () => ({ current_password: password, new_password: 'another correct horse' }),
  },
  'POST /auth/me/set-initial-password': {
    path: at('/auth/me/set-initial-password'),
    body: () => ({ new_password: 'another correct horse' }),
  },
  'POST /auth/send-code': {
    path: at('/auth/send-code'),
    body: () => ({
      // another one each time it is sent: one address gets one code a minute
      get email() {
        return `${crypto.randomUUID()}@example.test`;
      },
    }),
  },
  'POST /auth/verify-code': {
    path: at('/auth/verify-code'),
    body: ({ actor }) => ({ email: actor.email, code: '000000' }),
    status: 401, // no code was sent
  },
  'GET /auth/me/two-factor': { path: at('/auth/me/two-factor') },
  'POST /auth/me/two-factor': {
    path: at('/auth/me/two-factor'),
    withPassword: true,
    body: () => ({ password }),
  },
  'POST /auth/me/two-factor/confirm': {
    path: at('/auth/me/two-factor/confirm'),
    body: () => ({ totp: '123456' }),
    status: 409, // no setup was begun
  },
  'DELETE /auth/me/two-factor': {
    path: at('/auth/me/two-factor'),
    body: () => ({ totp: '123456' }),
    status: 409, // it is not enabled
  },
  'POST /auth/me/two-factor/recovery-codes': {
    path: at('/auth/me/two-factor/recovery-codes'),
    body: () => ({ totp: '123456' }),
    status: 409, // it is not enabled
  },
  'GET /auth/sessions': { path: at('/auth/sessions'), item: ({ actor }) => actor.session },
  'DELETE /auth/sessions': { path: at('/auth/sessions') },
  'DELETE /auth/sessions/:id': { path: ({ actor }) => `/auth/sessions/${actor.session}` },
  'POST /auth/stream-tickets': { path: at('/auth/stream-tickets'), body: () => ({ path: '/ws/notifications' }) },
  'GET /users': { path: at('/users?sort=-created_at&limit=500'), item: ({ actor }) => actor.id },
  'GET /users/invites': { path: at('/users/invites') },
  'POST /users/invites': {
    path: at('/users/invites'),
    body: () => ({
      // another one each time it is sent, since an address is invited once
      get email() {
        return `${crypto.randomUUID()}@example.test`;
      },
    }),
  },
  'DELETE /users/invites/:inviteId': {
    path: (stage) => `/users/invites/${tenantInvites.get(stage)}`,
    before: addTenantInvite,
  },
  'GET /users/:id': { path: bystander, before: addBystander },
  'PUT /users/:id': { path: bystander, before: addBystander, body: () => ({ disabled: true }) },
  'DELETE /users/:id': { path: bystander, before: addBystander },
  'GET /limits': { path: at('/limits') },
  'POST /compose/validate': {
    path: at('/compose/validate'),
    body: () => ({ content: 'services: {web: {image: nginx}}', env: {} }),
  },
  'GET /system/diagnose': { path: at('/system/diagnose') },
  'GET /settings': { path: at('/settings') },
  'PUT /settings': { path: at('/settings'), body: () => ({ project_creation: 'users' }) },
  'GET /users/:id/service-keys': {
    path: ({ viewer }) => `/users/${viewer.id}/service-keys`,
    item: ({ viewer }) => viewer.keyId,
  },
  'GET /settings/service-keys': { path: at('/settings/service-keys'), item: ({ actor }) => actor.keyId },
  'POST /settings/service-keys': {
    path: at('/settings/service-keys'),
    body: () => ({ name: 'ci', scopes: ['read'] }),
    bodyOfNarrowed: ({ project }) => ({ name: 'ci', project_id: project }),
  },
  'DELETE /settings/service-keys/:id': { path: at('/settings/service-keys/:key') },
  'GET /settings/ssh-keys': { path: at('/settings/ssh-keys'), item: ({ sshKey }) => sshKey },
  'POST /settings/ssh-keys': {
    path: at('/settings/ssh-keys'),
    body: ({ sshKey }) => ({ name: `more of ${sshKey}`, password: 'open sesame' }),
  },
  'GET /settings/ssh-keys/:id': { path: at('/settings/ssh-keys/:sshKey') },
  'PUT /settings/ssh-keys/:id': { path: at('/settings/ssh-keys/:sshKey'), body: () => ({ description: 'changed' }) },
  'DELETE /settings/ssh-keys/:id': { path: at('/settings/ssh-keys/:sshKey') },
  'GET /settings/git-credentials': {
    path: at('/settings/git-credentials'),
    item: ({ gitCredential }) => gitCredential,
  },
  'POST /settings/git-credentials': {
    path: at('/settings/git-credentials'),
    body: ({ gitCredential }) => ({
      name: `more of ${gitCredential}`,
      host: 'git.example.test',
      type: 'token',
      token: 'open sesame',
    }),
  },
  'GET /settings/git-credentials/:id': { path: at('/settings/git-credentials/:gitCredential') },
  'PUT /settings/git-credentials/:id': {
    path: at('/settings/git-credentials/:gitCredential'),
    body: () => ({ description: 'changed' }),
  },
  'DELETE /settings/git-credentials/:id': { path: at('/settings/git-credentials/:gitCredential') },
  'GET /settings/registries': { path: at('/settings/registries'), item: ({ registry }) => registry },
  'POST /settings/registries': {
    path: at('/settings/registries'),
    body: ({ registry }) => ({
      name: `more of ${registry}`,
      address: 'registry.example.test',
      username: 'reader',
      password: 'open sesame',
    }),
  },
  'GET /settings/registries/:id': { path: at('/settings/registries/:registry') },
  'PUT /settings/registries/:id': {
    path: at('/settings/registries/:registry'),
    body: () => ({ description: 'changed' }),
  },
  'DELETE /settings/registries/:id': { path: at('/settings/registries/:registry') },
  'POST /settings/registries/:id/test': { path: at('/settings/registries/:registry/test') },
  'GET /settings/backup-destinations': {
    path: at('/settings/backup-destinations'),
    item: ({ backupDestination }) => backupDestination,
  },
  'POST /settings/backup-destinations': {
    path: at('/settings/backup-destinations'),
    body: ({ backupDestination }) => ({
      name: `more of ${backupDestination}`,
      provider: 'custom',
      endpoint: 'https://s3.example.test',
      bucket: 'backups',
      access_key: 'AKIDEXAMPLE0',
      secret_key: 'open-sesame',
    }),
  },
  'GET /settings/backup-destinations/:id': { path: at('/settings/backup-destinations/:backupDestination') },
  'PUT /settings/backup-destinations/:id': {
    path: at('/settings/backup-destinations/:backupDestination'),
    body: () => ({ storage_class: 'STANDARD_IA' }),
  },
  'POST /settings/backup-destinations/:id/import': {
    path: at('/settings/backup-destinations/:backupDestination/import'),
    body: ({ project, server }) => ({ project_id: project, server_id: server }),
  },
  'DELETE /settings/backup-destinations/:id': { path: at('/settings/backup-destinations/:backupDestination') },

  'GET /projects': { path: at('/projects'), item: ({ project }) => project },
  'POST /projects': { path: at('/projects'), body: ({ project }) => ({ name: `more of ${project}` }) },
  'GET /projects/:id': { path: at('/projects/:project') },
  'PUT /projects/:id': {
    path: at('/projects/:project'),
    body: ({ server }) => ({ description: 'changed', default_server_id: server }),
  },
  'DELETE /projects/:id': { path: at('/projects/:project') },
  'GET /projects/:id/icon': { path: at('/projects/:project/icon'), before: giveIcon },
  'POST /projects/:id/icon': { path: at('/projects/:project/icon'), body: () => formOf(png()), upload: true },
  'DELETE /projects/:id/icon': { path: at('/projects/:project/icon'), before: giveIcon },

  'GET /projects/:id/members': { path: at('/projects/:project/members'), item: ({ viewer }) => viewer.memberId },
  'POST /projects/:id/members': {
    path: at('/projects/:project/members'),
    body: ({ guest }) => ({ user_id: guest.id, role: 'viewer' }),
  },
  'PUT /projects/:id/members/:memberId': {
    path: ({ project, viewer }) => `/projects/${project}/members/${viewer.memberId}`,
    body: () => ({ role: 'member' }),
  },
  'DELETE /projects/:id/members/:memberId': { path: at('/projects/:project/members/:leaver') },
  'POST /projects/:id/transfer': {
    path: at('/projects/:project/transfer'),
    body: ({ viewer }) => ({ new_owner_id: viewer.id }),
  },
  'GET /projects/:id/invites': { path: at('/projects/:project/invites'), item: ({ invite }) => invite },
  'POST /projects/:id/invites': {
    path: at('/projects/:project/invites'),
    body: ({ guest }) => ({ email: guest.email, role: 'viewer' }),
  },
  'DELETE /projects/:id/invites/:inviteId': { path: at('/projects/:project/invites/:invite') },
  'GET /invites/:token': { path: at('/invites/:ownInvite'), before: inviteActor },
  'POST /invites/:token/accept': { path: at('/invites/:ownInvite/accept'), before: inviteActor },
  'GET /me/invites': {
    path: at('/me/invites'),
    before: inviteActor,
    item: (stage) => ownInvites.get(stage) ?? '',
  },

  'GET /projects/:projectId/environments': {
    path: at('/projects/:project/environments'),
    item: ({ environment }) => environment,
  },
  'POST /projects/:projectId/environments': {
    path: at('/projects/:project/environments'),
    body: () => ({ name: 'preview', type: 'staging' }),
  },
  'GET /projects/:projectId/environments/:envId': { path: at('/projects/:project/environments/:environment') },
  'PUT /projects/:projectId/environments/:envId': {
    path: at('/projects/:project/environments/:environment'),
    body: () => ({ description: 'changed' }),
  },
  'DELETE /projects/:projectId/environments/:envId': { path: at('/projects/:project/environments/:empty') },
  'POST /projects/:projectId/environments/:envId/set-default': {
    path: at('/projects/:project/environments/:empty/set-default'),
  },
  'POST /projects/:projectId/environments/:envId/clone': {
    path: at('/projects/:project/environments/:environment/clone'),
    body: ({ server, emptyServer }) => ({ name: 'copy', type: 'staging', server_map: { [server]: emptyServer } }),
  },

  'GET /servers': { path: at('/servers'), item: ({ server }) => server, masked: /192\.0\.2\.7|root/ },
  'POST /servers': { path: at('/servers'), body: ({ project }) => ({ name: `host of ${project}` }) },
  'GET /servers/:id': { path: at('/servers/:server'), masked: /192\.0\.2\.7|root/ },
  'PUT /servers/:id': { path: at('/servers/:server'), body: () => ({ log_retention_days: 9 }) },
  'DELETE /servers/:id': { path: at('/servers/:emptyServer') },
  'POST /servers/:id/join-token': { path: at('/servers/:server/join-token') },
  'POST /servers/:id/confirm-removals': {
    path: at('/servers/:server/confirm-removals'),
    before: async ({ world, server }) => {
      await world.store.txn({ if: [], then: [putHeldRemovals('default', server, { held: 1, confirmed: false })] });
    },
  },
  'POST /servers/:id/ping': {
    path: at('/servers/:server/ping'),
    before: ({ world }) => void (world.agents.answer = () => ({})),
  },
  'POST /servers/:id/terminal': {
    path: at('/servers/:server/terminal'),
    body: () => ({ shell: '/bin/sh', cols: 80, rows: 24 }),
    before: async (stage) => {
      await agentIsThere(stage.world.store, stage);
      await stage.world.settled();
    },
  },
  'GET /servers/:id/agent-status': { path: at('/servers/:server/agent-status') },
  'POST /servers/:id/update-agent': {
    path: at('/servers/:server/update-agent'),
    body: () => ({}),
    before: addEarlierAgent,
    status: 409, // there is no release of the agent
  },
  'GET /servers/:id/tunnel-status': { path: at('/servers/:server/tunnel-status') },
  'GET /servers/tunnel-status/all': { path: at('/servers/tunnel-status/all') },
  'GET /servers/:id/logs': {
    path: at('/servers/:server/logs'),
    before: ({ world }) =>
      void (world.agents.answer = () => ({ lines: [], cursor: '0', more: false, truncated: false })),
  },
  'GET /servers/:id/logs/storage': {
    path: at('/servers/:server/logs/storage'),
    before: ({ world }) => void (world.agents.answer = () => ({ total_bytes: 0, retention_days: 7, workloads: [] })),
  },
  'GET /servers/:id/metrics': { path: at('/servers/:server/metrics'), before: noMetrics, masked: /workloads/ },
  'GET /servers/:id/diagnose': { path: at('/servers/:server/diagnose') },
  'POST /servers/:id/validate': {
    path: at('/servers/:server/validate'),
    body: () => ({}),
    status: 409, // it has no SSH key
  },
  'POST /servers/:id/provision': {
    path: at('/servers/:server/provision'),
    body: () => ({}),
    status: 409, // it has no SSH key
  },
  'POST /servers/:id/trust-host-key': {
    path: at('/servers/:server/trust-host-key'),
    body: () => ({ fingerprint: `SHA256:${'a'.repeat(43)}` }),
  },
  'POST /servers/:id/heal': {
    path: at('/servers/:server/heal'),
    body: () => ({}),
    before: addEarlierAgent,
    status: 409, // its agent is of an earlier release
  },
  'POST /servers/:id/adopt': {
    path: at('/servers/:server/adopt'),
    body: ({ project, environment }) => ({ project_id: project, environment_id: environment, take: ['web'] }),
    before: addEarlierAgent,
    status: 409, // its agent is of an earlier release
  },
  'GET /servers/:id/events': { path: at('/servers/:server/events') },

  'GET /previews': { path: at('/previews'), before: addPreview, item: (stage) => ownPreviews.get(stage) ?? '' },
  'POST /previews': {
    path: at('/previews'),
    before: addPreview,
    body: ({ project }) => ({ project_id: project, name: 'pr-1', branch: 'feature' }),
  },
  'GET /previews/:id': { path: at('/previews/:preview'), before: addPreview },
  'PUT /previews/:id': { path: at('/previews/:preview'), before: addPreview, body: () => ({ ttl_seconds: 7200 }) },
  'DELETE /previews/:id': { path: at('/previews/:preview'), before: addPreview },
  'POST /previews/:id/approve': {
    path: at('/previews/:preview/approve'),
    before: addPreview,
    body: () => ({ commit: 'a'.repeat(40) }),
  },
  'GET /previews/:id/events': { path: at('/previews/:preview/events'), before: addPreview },
  'GET /projects/:id/export': { path: ({ project }) => `/projects/${project}/export` },
  'POST /apply': {
    path: at('/apply'),
    body: ({ project }) => ({
      project_id: project,
      content: 'apiVersion: setpoint/v1\nkind: Environment\nmetadata: {name: staging}\n',
    }),
  },
  'GET /templates': { path: at('/templates'), before: addTemplate, item: places.template },
  'POST /templates': { path: at('/templates'), body: () => ({ name: randomUUID(), content: templateText }) },
  'GET /templates/:id': { path: at('/templates/:template'), before: addTemplate },
  'PUT /templates/:id': {
    path: at('/templates/:template'),
    before: addTemplate,
    body: () => ({ display_name: 'Shop' }),
  },
  'DELETE /templates/:id': { path: at('/templates/:template'), before: addTemplate },
  'GET /templates/:id/export': { path: at('/templates/:template/export'), before: addTemplate },
  'POST /templates/import': {
    path: at('/templates/import'),
    body: () => ({ format: 'setpoint/template/v1', name: randomUUID(), content: templateText }),
  },
  'POST /templates/validate': { path: at('/templates/validate'), body: () => ({ content: templateText }) },
  'POST /templates/convert-compose': {
    path: at('/templates/convert-compose'),
    body: () => ({ content: 'services: { web: { image: "web:1", restart: always } }' }),
  },
  'POST /templates/from-workloads': {
    path: at('/templates/from-workloads'),
    body: ({ application }) => ({ name: randomUUID(), application_ids: [application] }),
  },
  'POST /templates/:id/instantiate': {
    path: at('/templates/:template/instantiate'),
    before: addTemplate,
    body: ({ project, environment, server }) => ({
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'shop',
    }),
  },
  'GET /template-instances': { path: at('/template-instances'), before: addTemplate, item: places.instance },
  'GET /template-instances/:id': { path: at('/template-instances/:instance'), before: addTemplate },
  'PUT /template-instances/:id': {
    path: at('/template-instances/:instance'),
    before: addTemplate,
    body: (stage) => ({ template_id: ownTemplates.get(stage)?.template ?? '' }),
  },
  'POST /template-instances/:id/rollback': {
    path: at('/template-instances/:instance/rollback'),
    before: addTemplate,
    body: () => ({ dry_run: true }),
  },
  'DELETE /template-instances/:id': { path: at('/template-instances/:instance'), before: addTemplate },
  'GET /syncs': { path: at('/syncs'), before: addSync, item: places.sync },
  'POST /syncs': {
    path: at('/syncs'),
    body: ({ project, server }) => ({
      project_id: project,
      server_id: server,
      name: 'shop',
      repository_url: 'https://git.example.test/shop.git',
      branch: 'main',
    }),
  },
  'GET /syncs/:id': { path: at('/syncs/:sync'), before: addSync },
  'PUT /syncs/:id': { path: at('/syncs/:sync'), before: addSync, body: () => ({ interval_seconds: 60 }) },
  'DELETE /syncs/:id': { path: at('/syncs/:sync'), before: addSync },
  'POST /syncs/:id/sync': { path: at('/syncs/:sync/sync'), before: addSync, body: () => ({}) },
  'POST /syncs/:id/rollback': { path: at('/syncs/:sync/rollback'), before: addAppliedSync, body: () => ({}) },
  'GET /syncs/:id/runs': { path: at('/syncs/:sync/runs'), before: addSync },
  'GET /syncs/:id/events': { path: at('/syncs/:sync/events'), before: addSync },
  'GET /webhooks/git': {
    path: at('/webhooks/git'),
    before: addWebhook,
    item: (stage) => ownWebhooks.get(stage)?.webhook ?? '',
  },
  'POST /webhooks/git': {
    path: at('/webhooks/git'),
    body: ({ project }) => ({
      project_id: project,
      name: 'shop',
      provider: 'github',
      repository_url: 'https://git.example/shop.git',
    }),
  },
  'GET /webhooks/git/:id': { path: at('/webhooks/git/:webhook'), before: addWebhook },
  'PUT /webhooks/git/:id': { path: at('/webhooks/git/:webhook'), before: addWebhook, body: () => ({ name: 'other' }) },
  'DELETE /webhooks/git/:id': { path: at('/webhooks/git/:webhook'), before: addWebhook },
  'POST /webhooks/git/:id': {
    path: at('/webhooks/git/:webhook'),
    before: addWebhook,
    status: 404, // it is not signed
  },
  'GET /webhooks/git/:id/deliveries': {
    path: at('/webhooks/git/:webhook/deliveries'),
    before: addWebhook,
    item: (stage) => ownWebhooks.get(stage)?.delivery ?? '',
  },
  'GET /webhooks/deliveries/:id': { path: at('/webhooks/deliveries/:delivery'), before: addWebhook },
  'POST /webhooks/deliveries/:id/replay': { path: at('/webhooks/deliveries/:delivery/replay'), before: addWebhook },
  'GET /volumes': { path: at('/volumes'), before: addVolume, item: (stage) => ownVolumes.get(stage) ?? '' },
  'POST /volumes': {
    path: at('/volumes'),
    body: ({ project, environment, server }) => ({
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'data',
    }),
  },
  'GET /volumes/:id': { path: at('/volumes/:volume'), before: addVolume },
  'PUT /volumes/:id': { path: at('/volumes/:volume'), before: addVolume, body: () => ({ name: 'other' }) },
  'DELETE /volumes/:id': { path: at('/volumes/:volume'), before: addVolume },
  'POST /volumes/:id/bind': {
    path: at('/volumes/:volume/bind'),
    before: addVolume,
    body: ({ application }) => ({ workload_type: 'application', workload_id: application, mount_path: '/data' }),
  },
  'POST /volumes/:id/unbind': { path: at('/volumes/:volume/unbind'), before: addVolume, body: () => ({}) },
  'GET /volumes/:id/events': { path: at('/volumes/:volume/events'), before: addVolume },
  'POST /volumes/:id/backup': {
    path: at('/volumes/:volume/backup'),
    before: addVolumeBackup,
    body: ({ backupDestination }) => ({ destination_id: backupDestination }),
  },
  'GET /volumes/:id/backups': {
    path: at('/volumes/:volume/backups'),
    before: addVolumeBackup,
    item: places.backup,
  },
  'GET /applications/:id/volume-backups': {
    path: at('/applications/:application/volume-backups'),
    before: addVolumeBackup,
    item: places.backup,
  },
  'POST /applications/:id/volume-backups': {
    path: at('/applications/:application/volume-backups'),
    before: addVolumeBackup,
    body: ({ backupDestination }) => ({ destination_id: backupDestination }),
  },
  'POST /backups/volume/:id/restore': { path: at('/backups/volume/:backup/restore'), before: addVolumeBackup },
  'POST /backups/volume/:id/clone': {
    path: at('/backups/volume/:backup/clone'),
    before: addVolumeBackup,
    body: () => ({ name: 'copy' }),
  },
  'GET /functions': { path: at('/functions'), before: addFunction, item: places.fn },
  'POST /functions': {
    path: at('/functions'),
    body: ({ project, environment, server }) => ({
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: `hello ${crypto.randomUUID()}`,
      runtime: 'node20',
      code: 'export default () => new Response("Hello")',
    }),
  },
  'GET /functions/:id': { path: at('/functions/:fn'), before: addFunction, masked: /open sesame/ },
  'PUT /functions/:id': {
    path: at('/functions/:fn'),
    before: addFunction,
    body: () => ({ timeout_seconds: 10 }),
  },
  'DELETE /functions/:id': { path: at('/functions/:fn'), before: addFunction },
  'POST /functions/:id/deploy': { path: at('/functions/:fn/deploy'), before: addFunction },
  'POST /functions/:id/start': { path: at('/functions/:fn/start'), before: addFunction },
  'POST /functions/:id/stop': { path: at('/functions/:fn/stop'), before: addFunction },
  'GET /functions/:id/executions': { path: at('/functions/:fn/executions'), before: addFunction },
  'GET /functions/:id/versions': { path: at('/functions/:fn/versions'), before: addFunction, item: places.fnVersion },
  'GET /functions/:id/versions/:versionId/logs': {
    path: at('/functions/:fn/versions/:fnVersion/logs'),
    before: addFunction,
  },
  'POST /functions/:id/versions/:versionId/deploy': {
    path: at('/functions/:fn/versions/:fnVersion/deploy'),
    before: addFunction,
  },
  'GET /functions/:id/dependencies': { path: at('/functions/:fn/dependencies'), before: addFunction },
  'GET /functions/:id/events': { path: at('/functions/:fn/events'), before: addFunction },
  'GET /functions/:id/logs': { path: at('/functions/:fn/logs'), before: addFunction },
  'POST /functions/:id/invoke': {
    path: at('/functions/:fn/invoke'),
    before: addFunction,
    body: () => ({ body: 'Hello' }),
  },
  'GET /databases': { path: at('/databases'), before: addDatabase, item: databaseOf },
  'POST /databases': {
    path: at('/databases'),
    body: ({ project, environment, server }) => ({
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'orders',
      type: 'postgres',
    }),
  },
  'GET /databases/:id': { path: at('/databases/:database'), before: addDatabase },
  'PUT /databases/:id': {
    path: at('/databases/:database'),
    before: addDatabase,
    body: () => ({ display_name: 'Orders' }),
  },
  'DELETE /databases/:id': { path: at('/databases/:database'), before: addDatabase },
  'POST /databases/:id/start': { path: at('/databases/:database/start'), before: addDatabase },
  'POST /databases/:id/stop': { path: at('/databases/:database/stop'), before: addDatabase },
  'POST /databases/:id/restart': { path: at('/databases/:database/restart'), before: addDatabase },
  'GET /databases/:id/credentials': { path: at('/databases/:database/credentials'), before: addDatabase },
  'POST /databases/:id/rotate-password': {
    path: at('/databases/:database/rotate-password'),
    before: addDatabase,
    body: () => ({}),
  },
  'GET /databases/:id/storage': { path: at('/databases/:database/storage'), before: addDatabase },
  'GET /databases/:id/metrics': { path: at('/databases/:database/metrics'), before: addDatabase },
  'GET /databases/:id/logs': { path: at('/databases/:database/logs'), before: addDatabase },
  'GET /databases/:id/dependencies': { path: at('/databases/:database/dependencies'), before: addDatabase },
  'POST /databases/:id/terminal': {
    path: at('/databases/:database/terminal'),
    before: addDatabase,
    body: () => ({ cols: 80, rows: 24 }),
  },
  'GET /databases/:id/events': { path: at('/databases/:database/events'), before: addDatabase },
  'GET /databases/:id/backups': {
    path: at('/databases/:database/backups'),
    before: addBackup,
    item: places.backup,
  },
  'POST /databases/:id/backups': {
    path: at('/databases/:database/backups'),
    before: addDatabase,
    body: ({ backupDestination }) => ({ destination_id: backupDestination }),
  },
  'POST /databases/:id/restore': {
    path: at('/databases/:database/restore'),
    before: addBackup,
    body: (stage) => ({ backup_id: places.backup(stage) }),
  },
  'POST /databases/:id/import': {
    path: at('/databases/:database/import'),
    before: addDatabase,
    body: () => ({ url: 'https://dumps.example.test/orders.sql.gz' }),
  },
  'POST /databases/:id/restore-from-path': {
    path: at('/databases/:database/restore-from-path'),
    before: addDatabase,
    body: () => ({ path: 'orders.sql' }),
  },
  'GET /databases/:id/recovery-window': {
    path: at('/databases/:database/recovery-window'),
    before: addRecoverable,
  },
  'POST /databases/:id/pitr': {
    path: at('/databases/:database/pitr'),
    before: addRecoverable,
    body: () => ({ target_time: recoverable }),
  },
  'POST /databases/:id/pitr-clone': {
    path: at('/databases/:database/pitr-clone'),
    before: addRecoverable,
    body: () => ({ target_time: recoverable, new_name: 'orders-then' }),
  },
  'POST /databases/:id/switch': {
    path: at('/databases/:database/switch'),
    before: (stage: Stage) => addRecoverable(stage, { isReady: true }),
    body: () => ({}),
  },
  'GET /backups': { path: at('/backups'), before: addBackup, item: places.backup },
  'GET /backups/:id': { path: at('/backups/:backup'), before: addBackup },
  'PUT /backups/:id': { path: at('/backups/:backup'), before: addBackup, body: () => ({ pinned: true }) },
  'DELETE /backups/:id': { path: at('/backups/:backup'), before: addBackup },
  'POST /backups/:id/cancel': { path: at('/backups/:backup/cancel'), before: addPendingBackup },
  'POST /backups/:id/verify': { path: at('/backups/:backup/verify'), before: addBackup },
  'GET /backups/:id/events': { path: at('/backups/:backup/events'), before: addBackup },
  'POST /backups/database/:id/restore': {
    path: at('/backups/database/:backup/restore'),
    before: addBackup,
    body: () => ({}),
  },
  'GET /backup-schedules': { path: at('/backup-schedules'), before: addBackup, item: places.schedule },
  'POST /backup-schedules': {
    path: at('/backup-schedules'),
    async before(stage) {
      await addDatabase(stage);
      await addVolume(stage);
    },
    body: (stage) => ({
      database_id: databaseOf(stage),
      destination_id: stage.backupDestination,
      cron_expression: '30 3 * * *',
    }),
  },
  'GET /backup-schedules/:id': { path: at('/backup-schedules/:schedule'), before: addBackup },
  'PUT /backup-schedules/:id': {
    path: at('/backup-schedules/:schedule'),
    before: addBackup,
    body: () => ({ retention_count: 3 }),
  },
  'DELETE /backup-schedules/:id': { path: at('/backup-schedules/:schedule'), before: addBackup },
  'POST /backup-schedules/:id/run': { path: at('/backup-schedules/:schedule/run'), before: addBackup },
  'GET /backup-schedules/:id/events': { path: at('/backup-schedules/:schedule/events'), before: addBackup },
  'GET /restores': { path: at('/restores'), before: addBackup, item: places.restore },
  'GET /restores/:id': { path: at('/restores/:restore'), before: addBackup },
  'POST /restores/:id/cancel': { path: at('/restores/:restore/cancel'), before: addUnfinished },
  'GET /restores/:id/events': { path: at('/restores/:restore/events'), before: addBackup },
  'GET /applications': { path: at('/applications'), item: ({ application }) => application },
  'GET /applications/check-name': { path: at('/applications/check-name?name=api&projectId=:project') },
  'POST /applications': {
    path: at('/applications'),
    body: ({ project, environment, server }) => ({
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'api',
      source_type: 'image',
      image_url: 'example/api:1',
    }),
  },
  'GET /applications/:id': { path: at('/applications/:application') },
  'PUT /applications/:id': { path: at('/applications/:application'), body: () => ({ name: 'other name' }) },
  'DELETE /applications/:id': { path: at('/applications/:application') },
  'POST /applications/:id/deploy': { path: at('/applications/:application/deploy') },
  'POST /applications/:id/start': { path: at('/applications/:application/start') },
  'POST /applications/:id/stop': { path: at('/applications/:application/stop') },
  'POST /applications/:id/restart': { path: at('/applications/:application/restart') },
  'POST /applications/:id/rollback': { path: at('/applications/:application/rollback') },
  'POST /applications/:id/scale': { path: at('/applications/:application/scale'), body: () => ({ replicas: 2 }) },
  'PUT /applications/:id/capabilities': {
    path: at('/applications/:application/capabilities'),
    body: () => ({ capabilities: ['NET_RAW'] }),
  },
  'GET /applications/:id/instances': { path: at('/applications/:application/instances') },
  'GET /applications/:id/dependencies': { path: at('/applications/:application/dependencies') },
  'GET /applications/:id/events': { path: at('/applications/:application/events') },
  'GET /applications/:id/env': { path: at('/applications/:application/env'), masked: /sesame/ },
  'PUT /applications/:id/env': { path: at('/applications/:application/env'), body: () => ({ COLOUR: 'green' }) },
  'GET /applications/:id/compose': { path: at('/applications/:application/compose') },
  'PATCH /applications/:id/env': { path: at('/applications/:application/env'), body: () => ({ COLOUR: 'green' }) },
  'POST /applications/:id/terminal': {
    path: at('/applications/:application/terminal'),
    body: () => ({ shell: '/bin/sh', cols: 80, rows: 24 }),
    before: oneRuns,
  },
  'GET /applications/:id/runtime-logs': { path: at('/applications/:application/runtime-logs'), before: noLogs },
  'GET /applications/:id/build-logs': { path: at('/applications/:application/build-logs'), before: noLogs },
  'GET /applications/:id/metrics': { path: at('/applications/:application/metrics'), before: noMetrics },
  'GET /applications/:id/traffic': { path: at('/applications/:application/traffic') },
  'GET /applications/:appId/deployments': {
    path: at('/applications/:application/deployments'),
    item: ({ deployments }) => deployments.current,
  },
  'POST /applications/:appId/deployments/sync': {
    path: at('/applications/:application/deployments/sync'),
    status: 409, // it has an image and no repository
  },
  'POST /applications/:id/dockerfile': {
    path: at('/applications/:application/dockerfile'),
    status: 409, // it has an image and no repository
  },
  'POST /applications/:id/run': {
    path: at('/applications/:application/run'),
    body: () => ({ command: ['migrate', '--all'] }),
  },
  'GET /applications/:id/runs': {
    path: at('/applications/:application/runs'),
    before: addRun,
    item: runOf,
  },
  'GET /runs/:id': { path: at('/runs/:run'), before: addRun },
  'GET /runs/:id/events': { path: at('/runs/:run/events'), before: addRun },
  'POST /runs/:id/cancel': { path: at('/runs/:run/cancel'), before: addRun },
  'GET /runs/:id/logs': {
    path: at('/runs/:run/logs'),
    before: async (stage) => {
      await addRun(stage);
      noLogs(stage);
    },
  },

  'GET /deployments/:id': { path: at('/deployments/:current') },
  'GET /deployments/:id/events': { path: at('/deployments/:current/events') },
  'POST /deployments/:id/cancel': { path: at('/deployments/:queued/cancel') },
  'GET /deployments/:id/logs': { path: at('/deployments/:current/logs'), before: noLogs },
  'GET /deployments/:id/runtime-logs': { path: at('/deployments/:current/runtime-logs'), before: noLogs },
  'GET /deployments/:id/build-logs': { path: at('/deployments/:current/build-logs'), before: noLogs },

  'GET /audit': { path: at('/audit?projectId=:project') },
  'GET /audit/verify': { path: at('/audit/verify') },

  'GET /notifications': { path: at('/notifications') },
  'POST /notifications/read': { path: at('/notifications/read'), body: () => ({}) },
};

/** The example of an endpoint. @throws Error for an endpoint that has none: every route is to be swept. */
export function exampleOf(endpoint: AnyEndpoint): Example {
  const it = examples[routeName(endpoint)];
  if (it === undefined) throw new Error(`Add an example of ${routeName(endpoint)} to test/api/examples.ts`);
  return it;
}

/** Endpoints with their names, for `it.each`. */
export const named = endpoints.map((endpoint) => [routeName(endpoint), endpoint] as const);
