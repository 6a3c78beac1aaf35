import { afterEach, expect, it } from 'vitest';
import { routeName } from '../../api/endpoint/endpoint.ts';
import { countLimits } from '../../api/rights/count-limits.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { desiredState, ofDatabase, templateText } from '../harness/states.ts';

/** Each number of what users make: one below it there is room for one more, at it and above there is none. */
let world: ApiWorld | undefined;

afterEach(async () => {
  await world?.[Symbol.asyncDispose]();
  expect(world?.faults ?? []).toEqual([]);
  world = undefined;
});

type Unit = ReturnType<ApiWorld['repo']['begin']>;

interface Scene {
  world: ApiWorld;
  owner: Client;
  user: Client & { id: string };
  place: { project: string; environment: string; server: string };
}

interface Row {
  /** The route that makes them. */
  route: string;
  cap: number;
  /** Who has so many, as the refusal says it. */
  where: string;
  /** How many there are before anything is made. */
  before: number;
  make(unit: Unit, scene: Scene, n: number): void;
  ask(scene: Scene, name: string): Promise<Answer>;
}

const soon = () => new Date(Date.now() + 3_600_000).toISOString();

function makeProject(unit: Unit, owner_id: string, n: number): void {
  unit.create(
    'project',
    crypto.randomUUID(),
    desiredState('project', {
      name: `p${n}`,
      owner_id,
      default_environment_id: crypto.randomUUID(),
    }),
  );
}

function makeInvite(
  unit: Unit,
  n: number,
  project_id: string | undefined,
  state: 'pending' | 'cancelled',
  by: string,
): void {
  unit.create('invite', crypto.randomUUID(), {
    ...(project_id !== undefined && { project_id }),
    email: `i${n}@example.test`,
    role: 'user',
    invited_by: by,
    expires_at: soon(),
    state,
  });
}

const someId = crypto.randomUUID();
const inviteTo = ({ owner, place }: Scene, name: string) =>
  owner.post(`/projects/${place.project}/invites`, { email: `${name}@example.test`, role: 'viewer' });

/** The database whose backups are counted, and where they go. */
const stored = crypto.randomUUID();
const bucket = crypto.randomUUID();

function makeData(unit: Unit, { project, environment, server }: Scene['place']): void {
  const place = { project_id: project, environment_id: environment, server_id: server };
  unit.create('database', stored, desiredState('database', place));
  unit.create('backup_destination', bucket, desiredState('backup_destination', {}));
}

/** The application whose commands are counted. */
const runner = crypto.randomUUID();
const runnable = crypto.randomUUID();
const shopTemplate = crypto.randomUUID();

/** What a preview is built of. */
const shown = {
  type: 'git',
  repository_url: 'https://git.example/shop.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
} as const;

const fork = { fork_url: 'https://git.example/anna.git', commit: 'a'.repeat(40) };

const rows: Record<string, Row> = {
  'projects of a tenant': {
    route: 'POST /projects',
    cap: countLimits.projectsPerTenant,
    where: 'The tenant',
    before: 1,
    make: (unit, _, n) => makeProject(unit, someId, n),
    ask: ({ owner }, name) => owner.post('/projects', { name }),
  },
  'projects of a plain user': {
    route: 'POST /projects',
    cap: countLimits.projectsPerUser,
    where: 'The user',
    before: 0,
    make: (unit, { user }, n) => makeProject(unit, user.id, n),
    ask: ({ user }, name) => user.post('/projects', { name }),
  },
  'servers of a tenant': {
    route: 'POST /servers',
    cap: countLimits.serversPerTenant,
    where: 'The tenant',
    before: 1,
    make: (unit, _, n) =>
      unit.create(
        'server',
        crypto.randomUUID(),
        desiredState('server', {
          name: `s${n}`,
        }),
      ),
    ask: ({ owner }, name) => owner.post('/servers', { name }),
  },
  'SSH keys of a tenant': {
    route: 'POST /settings/ssh-keys',
    cap: countLimits.sshKeysPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) => unit.create('ssh_key', crypto.randomUUID(), desiredState('ssh_key', { name: `k${n}` })),
    ask: ({ owner }, name) => owner.post('/settings/ssh-keys', { name, password: 'open sesame' }),
  },
  'git credentials of a tenant': {
    route: 'POST /settings/git-credentials',
    cap: countLimits.gitCredentialsPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) =>
      unit.create('git_credential', crypto.randomUUID(), desiredState('git_credential', { name: `g${n}` })),
    ask: ({ owner }, name) =>
      owner.post('/settings/git-credentials', { name, host: 'git.example.test', type: 'token', token: 'sesame' }),
  },
  'registries of a tenant': {
    route: 'POST /settings/registries',
    cap: countLimits.registriesPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) => unit.create('registry', crypto.randomUUID(), desiredState('registry', { name: `r${n}` })),
    ask: ({ owner }, name) =>
      owner.post('/settings/registries', {
        name,
        address: 'registry.example.test',
        username: 'reader',
        password: 'sesame',
      }),
  },
  'backup destinations of a tenant': {
    route: 'POST /settings/backup-destinations',
    cap: countLimits.backupDestinationsPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) =>
      unit.create('backup_destination', crypto.randomUUID(), desiredState('backup_destination', { name: `d${n}` })),
    ask: ({ owner }, name) =>
      owner.post('/settings/backup-destinations', {
        name,
        provider: 'custom',
        endpoint: 'https://s3.example.test',
        bucket: 'backups',
        access_key: 'AKIDEXAMPLE0',
        secret_key: 'sesame',
      }),
  },
  'environments of a project': {
    route: 'POST /projects/:projectId/environments',
    cap: countLimits.environmentsPerProject,
    where: 'The project',
    before: 1,
    make: (unit, { place }, n) =>
      unit.create('environment', crypto.randomUUID(), { project_id: place.project, name: `e${n}`, type: 'test' }),
    ask: ({ owner, place }, name) => owner.post(`/projects/${place.project}/environments`, { name }),
  },
  'members of a project': {
    route: 'POST /projects/:id/members',
    cap: countLimits.membersPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }) =>
      unit.create('member', crypto.randomUUID(), {
        project_id: place.project,
        user_id: crypto.randomUUID(),
        role: 'viewer',
      }),
    ask: async ({ world: its, owner, place }) => {
      const { id } = await its.user();
      return owner.post(`/projects/${place.project}/members`, { user_id: id, role: 'viewer' });
    },
  },
  'applications of an environment': {
    route: 'POST /applications',
    cap: countLimits.applicationsPerEnvironment,
    where: 'The environment',
    before: 0,
    make: (unit, { place }, n) =>
      unit.create(
        'application',
        crypto.randomUUID(),
        desiredState('application', {
          project_id: place.project,
          environment_id: place.environment,
          server_id: place.server,
          name: `a${n}`,
          internal_id: `a${n}-abcdef`,
          source: { type: 'image', image_url: 'example/web:1' },
          config: { env: {}, restart_policy: 'always' },
        }),
      ),
    ask: ({ owner, place: { project, environment, server } }, name) =>
      owner.post('/applications', {
        project_id: project,
        environment_id: environment,
        server_id: server,
        name,
        source_type: 'image',
        image_url: 'example/web:1',
      }),
  },
  'commands of an application that have not ended': {
    route: 'POST /applications/:id/run',
    cap: countLimits.activeRunsPerApplication,
    where: 'The application',
    before: 0,
    make: (unit, { place }, n) => {
      const { project: project_id, environment: environment_id, server: server_id } = place;
      const where = { project_id, server_id };
      if (n === 0) {
        unit.create('application', runner, desiredState('application', { ...where, environment_id }));
        const of = { ...where, environment_id, application_id: runner };
        unit.create('deployment', runnable, desiredState('deployment', of));
      }
      unit.create('run', crypto.randomUUID(), desiredState('run', { ...where, application_id: runner }));
    },
    ask: async ({ world, owner }) => {
      await world.observe('deployment', runnable, { phase: 'succeeded', image: 'web:1', image_digest: 'sha256:1' });
      return owner.post(`/applications/${runner}/run`, { command: ['x'] });
    },
  },
  'webhooks of a project': {
    route: 'POST /webhooks/git',
    cap: countLimits.webhooksPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) =>
      unit.create(
        'git_webhook',
        crypto.randomUUID(),
        desiredState('git_webhook', { project_id: place.project, name: `w${n}` }),
      ),
    ask: ({ owner, place: { project } }, name) =>
      owner.post('/webhooks/git', {
        project_id: project,
        name,
        provider: 'github',
        repository_url: 'https://git.example/shop.git',
      }),
  },
  'previews of a project': {
    route: 'POST /previews',
    cap: countLimits.previewsPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) => {
      if (n === 0) {
        const where = { project_id: place.project, environment_id: place.environment, server_id: place.server };
        unit.create('application', crypto.randomUUID(), desiredState('application', { ...where, source: shown }));
      }
      unit.create(
        'preview',
        crypto.randomUUID(),
        desiredState('preview', { project_id: place.project, name: `p${n}` }),
      );
    },
    ask: ({ owner, place: { project } }, name) => owner.post('/previews', { project_id: project, name, branch: 'one' }),
  },
  'previews of forks without an approval': {
    route: 'POST /previews',
    cap: countLimits.unapprovedPreviewsPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) => {
      if (n === 0) {
        const where = { project_id: place.project, environment_id: place.environment, server_id: place.server };
        unit.create('application', crypto.randomUUID(), desiredState('application', { ...where, source: shown }));
      }
      unit.create(
        'preview',
        crypto.randomUUID(),
        desiredState('preview', { project_id: place.project, name: `p${n}`, fork_url: fork.fork_url }),
      );
    },
    ask: ({ owner, place: { project } }, name) =>
      owner.post('/previews', { project_id: project, name, branch: 'one', ...fork }),
  },
  'templates of a tenant': {
    route: 'POST /templates',
    cap: countLimits.templatesPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) => unit.create('template', crypto.randomUUID(), desiredState('template', { name: `t${n}` })),
    ask: ({ owner }, name) => owner.post('/templates', { name, content: templateText }),
  },
  'template instances of a project': {
    route: 'POST /templates/:id/instantiate',
    cap: countLimits.templateInstancesPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) => {
      if (n === 0) unit.create('template', shopTemplate, desiredState('template', { name: 'shop' }));
      const at = { project_id: place.project, environment_id: place.environment, server_id: place.server };
      unit.create(
        'template_instance',
        crypto.randomUUID(),
        desiredState('template_instance', { ...at, name: `i${n}` }),
      );
    },
    ask: ({ owner, place: { project, environment, server } }, name) =>
      owner.post(`/templates/${shopTemplate}/instantiate`, {
        project_id: project,
        environment_id: environment,
        server_id: server,
        name,
      }),
  },
  'syncs of a project': {
    route: 'POST /syncs',
    cap: countLimits.syncsPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place: { project } }, n) =>
      unit.create('sync', crypto.randomUUID(), desiredState('sync', { project_id: project, name: `s${n}` })),
    ask: ({ owner, place: { project, server } }, name) =>
      owner.post('/syncs', {
        project_id: project,
        server_id: server,
        name,
        repository_url: 'https://git.example.test/shop.git',
        branch: 'main',
      }),
  },
  'volumes of a project': {
    route: 'POST /volumes',
    cap: countLimits.volumesPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) =>
      unit.create(
        'volume',
        crypto.randomUUID(),
        desiredState('volume', {
          project_id: place.project,
          environment_id: place.environment,
          server_id: place.server,
          name: `v${n}`,
        }),
      ),
    ask: ({ owner, place: { project, environment, server } }, name) =>
      owner.post('/volumes', { project_id: project, environment_id: environment, server_id: server, name }),
  },
  'backups of a database that have not ended': {
    route: 'POST /databases/:id/backups',
    cap: countLimits.activeBackupsPerObject,
    where: 'The database',
    before: 0,
    make: (unit, { place }, n) => {
      if (n === 0) makeData(unit, place);
      const of = { project_id: place.project, of: ofDatabase(stored), destination_id: bucket };
      unit.create('backup', crypto.randomUUID(), desiredState('backup', of));
    },
    ask: ({ owner }) => owner.post(`/databases/${stored}/backups`, {}),
  },
  'backup schedules of a database': {
    route: 'POST /backup-schedules',
    cap: countLimits.schedulesPerObject,
    where: 'The database',
    before: 0,
    make: (unit, { place }, n) => {
      if (n === 0) makeData(unit, place);
      const of = { project_id: place.project, of: { kind: 'database' as const, id: stored }, destination_id: bucket };
      unit.create('backup_schedule', crypto.randomUUID(), desiredState('backup_schedule', of));
    },
    ask: ({ owner }) => owner.post('/backup-schedules', { database_id: stored, cron_expression: '@daily' }),
  },
  'databases of a project': {
    route: 'POST /databases',
    cap: countLimits.databasesPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) =>
      unit.create(
        'database',
        crypto.randomUUID(),
        desiredState('database', {
          project_id: place.project,
          environment_id: place.environment,
          server_id: place.server,
          name: `d${n}`,
        }),
      ),
    ask: ({ owner, place: { project, environment, server } }, name) =>
      owner.post('/databases', {
        project_id: project,
        environment_id: environment,
        server_id: server,
        name,
        type: 'redis',
      }),
  },
  'functions of a project': {
    route: 'POST /functions',
    cap: countLimits.functionsPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) =>
      unit.create(
        'function',
        crypto.randomUUID(),
        desiredState('function', {
          project_id: place.project,
          environment_id: place.environment,
          server_id: place.server,
          name: `f${n}`,
        }),
      ),
    ask: ({ owner, place: { project, environment, server } }, name) =>
      owner.post('/functions', {
        project_id: project,
        environment_id: environment,
        server_id: server,
        name,
        runtime: 'node20',
        code: 'export default () => new Response()',
      }),
  },
  'invites of a project, whatever became of them': {
    route: 'POST /projects/:id/invites',
    cap: countLimits.invitesPerProject,
    where: 'The project',
    before: 0,
    make: (unit, { place }, n) => makeInvite(unit, n, place.project, 'cancelled', someId),
    ask: inviteTo,
  },
  'invites to a tenant': {
    route: 'POST /users/invites',
    cap: countLimits.invitesPerTenant,
    where: 'The tenant',
    before: 0,
    make: (unit, _, n) => makeInvite(unit, n, undefined, 'cancelled', someId),
    ask: ({ owner }, name) => owner.post('/users/invites', { email: `${name}@example.test` }),
  },
};

/** Routes that make something and are no rows of this table, and what bounds them. */
const elsewhere: Record<string, string> = {
  'POST /templates/import': 'countLimits.templatesPerTenant',
  'POST /templates/from-workloads': 'countLimits.templatesPerTenant',
  'POST /auth/register': 'It makes the first account alone',
  'POST /auth/stream-tickets': 'A ticket is used once and ends after seconds; requests have a rate',
  'POST /settings/service-keys': 'countLimits.serviceKeysPerUser',
  'POST /projects/:projectId/environments/:envId/clone': 'countLimits.environmentsPerProject',
  'POST /applications/:id/terminal': 'countLimits.terminalsPerUser',
  'POST /databases/:id/terminal': 'countLimits.terminalsPerUser',
  'POST /databases/:id/restore': 'A database has one restore at a time, and few that have ended are kept',
  'POST /databases/:id/import': 'as above',
  'POST /databases/:id/restore-from-path': 'as above',
  'POST /databases/:id/pitr': 'as above',
  'POST /databases/:id/pitr-clone': 'countLimits.databasesPerProject',
  'POST /backups/database/:id/restore': 'countLimits.databasesPerProject, and one restore of a database at a time',
  'POST /backups/:id/verify': 'A backup has one trial at a time, and few that have ended are kept',
  'POST /backup-schedules/:id/run': 'countLimits.activeBackupsPerObject',
  'POST /volumes/:id/backup': 'countLimits.activeBackupsPerObject',
  'POST /applications/:id/volume-backups': 'countLimits.activeBackupsPerObject of each volume',
  'POST /backups/volume/:id/restore': 'A volume has one restore at a time, and few that have ended are kept',
  'POST /backups/volume/:id/clone': 'countLimits.volumesPerProject',
  'POST /servers/:id/terminal': 'countLimits.terminalsPerUser',
};

it('every route that makes an object is bounded', () => {
  const makes = endpoints.filter((one) => one.method === 'POST' && !one.list && one.status === 201).map(routeName);
  const known = [...Object.values(rows).map(({ route }) => route), ...Object.keys(elsewhere)];
  expect(
    makes.filter((route) => !known.includes(route)),
    'Bound how many there are by `requireRoom`, and add a row to this table',
  ).toEqual([]);
});

/** Puts so many objects into the store, several in a transaction. */
async function fill(scene: Scene, count: number, row: Row, from: number): Promise<void> {
  for (let n = 0; n < count;) {
    const unit = scene.world.repo.begin();
    for (let m = 0; m < 10 && n < count; m++, n++) row.make(unit, scene, from + n);
    expect((await unit.commit()).committed).toBe(true);
  }
  await scene.world.settled();
}

it.each(Object.entries(rows))('%s are bounded', async (_, row) => {
  world = await startApi();
  const owner = await world.owner();
  const scene: Scene = { world, owner, user: await world.user(), place: await world.place(owner) };
  await fill(scene, row.cap - row.before - 1, row, 0);
  expect((await row.ask(scene, 'below')).status).toBe(201);
  const refuses = async (name: string, count: number): Promise<void> => {
    const refused = await row.ask(scene, name);
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([409, 'limit']);
    expect(refused.body.error?.message).toContain(`${row.where} has ${count} `);
    expect(refused.body.error?.message).toContain(`at most ${row.cap} are allowed`);
  };
  await refuses('at', row.cap);
  await fill(scene, 1, row, row.cap);
  await refuses('above', row.cap + 1);
});
