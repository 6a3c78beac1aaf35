import { randomUUID } from 'node:crypto';
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
import { desiredState } from '../harness/states.ts';

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

const places = {
  project: (it: Stage) => it.project,
  environment: (it: Stage) => it.environment,
  empty: (it: Stage) => it.emptyEnvironment,
  server: (it: Stage) => it.server,
  emptyServer: (it: Stage) => it.emptyServer,
  sshKey: (it: Stage) => it.sshKey,
  application: (it: Stage) => it.application,
  current: (it: Stage) => it.deployments.current,
  queued: (it: Stage) => it.deployments.queued,
  key: (it: Stage) => it.actor.keyId,
  invite: (it: Stage) => it.invite,
  volume: (it: Stage) => ownVolumes.get(it) ?? '',
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
  'GET /applications/:id/instances': { path: at('/applications/:application/instances') },
  'GET /applications/:id/dependencies': { path: at('/applications/:application/dependencies') },
  'GET /applications/:id/events': { path: at('/applications/:application/events') },
  'GET /applications/:id/env': { path: at('/applications/:application/env'), masked: /sesame/ },
  'PUT /applications/:id/env': { path: at('/applications/:application/env'), body: () => ({ COLOUR: 'green' }) },
  'PATCH /applications/:id/env': { path: at('/applications/:application/env'), body: () => ({ COLOUR: 'green' }) },
  'POST /applications/:id/terminal': {
    path: at('/applications/:application/terminal'),
    body: () => ({ shell: '/bin/sh', cols: 80, rows: 24 }),
    before: oneRuns,
  },
  'GET /applications/:id/runtime-logs': { path: at('/applications/:application/runtime-logs'), before: noLogs },
  'GET /applications/:id/build-logs': { path: at('/applications/:application/build-logs'), before: noLogs },
  'GET /applications/:id/metrics': { path: at('/applications/:application/metrics'), before: noMetrics },
  'GET /applications/:appId/deployments': {
    path: at('/applications/:application/deployments'),
    item: ({ deployments }) => deployments.current,
  },
  'POST /applications/:appId/deployments/sync': {
    path: at('/applications/:application/deployments/sync'),
    status: 409, // it has an image and no repository
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
