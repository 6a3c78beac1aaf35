import '../../api/templates/change.ts'; // as the next one
import '../../api/templates/plan.ts'; // as the next one
import '../../api/templates/report.ts'; // as the next one
import '../../compose/parse.ts'; // a request loads it, which takes real time at the first one only
import { expect } from 'vitest';
import type { ImageScript } from '../../agent/runtime/mock/script.ts';
import { pgbouncer } from '../../databases/pgbouncer.ts';
import { keys } from '../../store/keys.ts';
import type { DeploymentPhase } from '../../store/kinds/application.ts';
import type { FunctionPhase } from '../../store/kinds/function.ts';
import type { DatabasePhase } from '../../store/kinds/database.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import type { DestinationPhase } from '../../store/kinds/backup-destination.ts';
import type { PreviewPhase } from '../../store/kinds/preview.ts';
import type { TemplateInstancePhase } from '../../store/kinds/template-instance.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { commit } from '../../store/unit.ts';
import { createTenant, requestTenantDeletion } from '../../store/tenants.ts';
import { tenant } from '../harness/world.ts';
import type { Machine, World } from '../harness/world.ts';

/** What a user does, from a world that was prepared for it to a world at rest. */
export interface Scenario {
  name: string;
  /** Not disturbed. */
  prepare(world: World): Promise<Place>;
  run(world: World, place: Place): Promise<void>;
  /** So many instances answer at every instant of the run. */
  answering?: number;
  /** So many instances of an application run at most at any instant. */
  running: number;
  /** Errors in the log that are right: what happens is one for whoever logs it. */
  errors?: RegExp;
}

/** Where a scenario happens. */
export interface Place {
  machine: Machine;
  project: string;
  /** The application, if one was made. */
  app: string;
  /** An environment beside the default one and what is in it, if they were made. */
  environment: string;
  apps: string[];
}

const images: Record<string, ImageScript> = {
  'web:1': { runs: { listenAfterMs: 2000 }, pullTakesMs: 1000 },
  'web:2': { runs: { listenAfterMs: 2000 }, pullTakesMs: 1000 },
  'web:slow': { runs: { listenAfterMs: 60_000 } },
  'postgres:17': {
    runs: { programs: ({ runningMs }) => ({ exitCode: runningMs < 3000 ? 2 : 0 }), stopsOn: 'SIGINT' },
    pullTakesMs: 1000,
  },
  [pgbouncer.image]: { runs: { stopsOn: 'SIGINT' }, pullTakesMs: 1000 },
  'web:crashes': { runs: { runForMs: 500, exitCode: 1, listenAfterMs: 1000 } },
};

async function place(world: World, isInstalled = false): Promise<Place> {
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machine = await world.addServer('one', { direct_ports_enabled: true }, isInstalled);
  for (const [name, script] of Object.entries(images)) machine.engine.addImage(name, script);
  const { data } = await world.must('POST', '/projects', { name: 'shop' });
  return { machine, project: data.id, app: '', environment: '', apps: [] };
}

/** With a database that serves, as the application of the place, and a bucket for its backups. */
async function withDatabase(world: World): Promise<Place> {
  const at = await place(world);
  const fields = { project_id: at.project, server_id: at.machine.server, name: 'orders', type: 'postgres' };
  const { data } = await world.must('POST', '/databases', fields);
  await addBucket(world);
  await world.rest();
  return { ...at, app: data.id };
}

/** The same with a backup of it, as the first of its applications. */
async function withBackup(world: World): Promise<Place> {
  const at = await withDatabase(world);
  return { ...at, apps: [await backedUp(world, `/databases/${at.app}/backups`)] };
}

/** With an application that mounts a volume, as the first of its applications, and a bucket for its backups. */
async function withVolume(world: World): Promise<Place> {
  const at = await place(world);
  const app = await create(world, at);
  await deployed(world, app);
  const fields = { project_id: at.project, server_id: at.machine.server, name: 'data' };
  const { data } = await world.must('POST', '/volumes', fields);
  const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
  await world.must('POST', `/volumes/${data.id}/bind`, binding);
  await addBucket(world);
  await world.rest();
  return { ...at, app, apps: [data.id] };
}

async function addBucket(world: World): Promise<void> {
  const keys = { access_key: 'AKIDEXAMPLE0', secret_key: 'sesame' };
  const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  await world.must('POST', '/settings/backup-destinations', { name: 'store', ...bucket, ...keys });
}

/** Resolves with the id of the backup that was asked for, once it is completed. */
async function backedUp(world: World, path: string): Promise<string> {
  const { data } = await world.must('POST', path);
  await completed(world, 'backup', data.id);
  return data.id;
}

/** Resolves with the id of the database that was restored. */
async function restored(world: World, path: string, body: object): Promise<string> {
  const { data } = await world.must('POST', path, body);
  await completed(world, 'restore', data.id);
  return data.database_id;
}

function completed(world: World, kind: 'backup' | 'restore', id: string): Promise<void> {
  return world.until(`the ${kind} is completed`, async () => {
    const it = await world.repo.get(kind, id);
    if (it?.observed?.phase === 'failed') throw new Error(JSON.stringify(it.observed));
    return it?.observed?.phase === 'completed';
  });
}

/** Once a backup is proven, and nothing is left of its trial. `ask`: for one; absent: its schedule does. */
async function proven(world: World, backup: string, ask?: () => Promise<unknown>): Promise<void> {
  await ask?.();
  await world.until('the backup is proven', async () => {
    const observed = (await world.repo.get('backup', backup))?.observed;
    if (observed?.verification?.status === 'not_proven') throw new Error(JSON.stringify(observed.verification));
    return observed?.verification?.status === 'proven';
  });
  const restores: { id: string; volume_id: string; is_drill: boolean }[] = (await world.must('GET', '/restores')).data;
  for (const { volume_id } of restores.filter(({ is_drill }) => is_drill)) await gone(world, 'volume', volume_id);
}

/** Resolves with the id of the volume that a backup became. One that its server lost is removed, and asked for again. */
async function clonedVolume(world: World, backup: string, bind: object): Promise<string> {
  const { data } = await world.must('POST', `/backups/volume/${backup}/clone`, { name: 'copy', ...bind });
  const seen = async () => (await world.repo.get('restore', data.id))?.observed;
  await world.until('the clone has ended', async () => hasRestoreEnded((await seen())?.phase));
  const { phase, error } = (await seen()) ?? {};
  if (phase === 'completed') return data.volume_id;
  expect(error?.code).toBe('interrupted');
  await gone(world, 'volume', data.volume_id);
  return clonedVolume(world, backup, bind);
}

async function create(world: World, { machine, project }: Place, fields: object = {}): Promise<string> {
  const { data } = await world.must('POST', '/applications', {
    project_id: project,
    server_id: machine.server,
    name: 'web',
    source_type: 'image',
    image_url: 'web:1',
    exposed_port: 8080,
    healthcheck_path: '/health',
    env: { COLOUR: 'red' },
    ...fields,
  });
  return data.id;
}

async function deploy(world: World, app: string): Promise<string> {
  const { data } = await world.must('POST', `/applications/${app}/deploy`);
  return data.id;
}

async function ended(world: World, deployment: string, phase: DeploymentPhase): Promise<void> {
  await world.until(`deployment is ${phase}`, async () => {
    const it = await world.repo.get('deployment', deployment);
    return it?.observed?.phase === phase;
  });
}

async function deployed(world: World, app: string): Promise<void> {
  await ended(world, await deploy(world, app), 'succeeded');
}

async function ready(world: World, app: string, replicas: number): Promise<void> {
  await world.until(`${replicas} instances are ready`, async () => {
    const it = await world.repo.get('application', app);
    return it?.observed?.ready_replicas === replicas && it.observed.phase === (replicas > 0 ? 'running' : 'stopped');
  });
}

async function gone(world: World, kind: KindName, id: string): Promise<void> {
  await world.until(`${kind} is gone`, async () => (await world.repo.get(kind, id)) === undefined);
}

const isCurrent = (it: { generation: number; observed_generation: number }): boolean =>
  it.generation === it.observed_generation;

/** An application that runs, with so many replicas. */
function running(replicas: number, isInstalled = false): Scenario['prepare'] {
  return async (world) => {
    const at = await place(world, isInstalled);
    const app = await create(world, at, { replicas });
    await deployed(world, app);
    await world.rest();
    return { ...at, app };
  };
}

/** An environment beside the default one, with so many applications that are not deployed. */
function shopOf(count: number): Scenario['prepare'] {
  return async (world) => {
    const at = await place(world);
    const { data } = await world.must('POST', `/projects/${at.project}/environments`, { name: 'shop' });
    const apps: string[] = [];
    for (let n = 0; n < count; n += 1)
      apps.push(await create(world, at, { environment_id: data.id, name: n === 0 ? 'web' : `web-${n}` }));
    await world.rest();
    return { ...at, environment: data.id, apps };
  };
}

async function clone(world: World, at: Place): Promise<string> {
  const path = `/projects/${at.project}/environments/${at.environment}/clone`;
  const { data } = await world.must('POST', path, { name: 'copy' });
  return data.id;
}

async function cloned(world: World, id: string): Promise<void> {
  await world.until('the clone is complete', async () => {
    const it = await world.repo.get('environment', id);
    return it?.desired.clone_of?.complete === true && it.observed?.observedGeneration === it.meta.generation;
  });
}

export const scenarios: readonly Scenario[] = [
  {
    name: 'create and deploy',
    running: 1,
    prepare: place,
    async run(world, at) {
      await deployed(world, await create(world, at));
    },
  },
  {
    name: 'build and deploy',
    running: 1,
    prepare: place,
    async run(world, at) {
      const app = await create(world, at, {
        source_type: 'git',
        image_url: undefined,
        repository_url: 'https://git.test/shop.git',
        branch: 'main',
        dockerfile_path: 'Dockerfile',
      });
      await deployed(world, app);
    },
  },
  {
    name: 'deploy what a git host announces',
    running: 2,
    async prepare(world) {
      const at = await place(world);
      const repository_url = 'https://git.test/shop.git';
      const source = { source_type: 'git', image_url: undefined, repository_url, branch: 'main' };
      const follows = { autodeploy: true, autodeploy_interval: 0 };
      const app = await create(world, at, { ...source, dockerfile_path: 'Dockerfile', ...follows });
      await deployed(world, app);
      await world.rest();
      return { ...at, app };
    },
    async run(world, { machine, project, app }) {
      const url = 'https://git.test/shop.git';
      const secret = 'a-secret-of-sixteen-or-more';
      const fields = { project_id: project, name: 'shop', provider: 'gitlab', repository_url: url, secret };
      const { data: hook } = await world.must('POST', '/webhooks/git', fields);
      machine.head = 'd'.repeat(40);
      const push = { ref: 'refs/heads/main', after: machine.head, project: { git_http_url: url } };
      const called = await world.call('POST', `/webhooks/git/${hook.id}`, push, {
        'x-gitlab-event': 'Push Hook',
        'idempotency-key': 'one',
        'x-gitlab-token': secret,
      });
      expect(called.status).toBe(200);
      const delivery: string = called.data.delivery_id;
      await world.until('the delivery is decided', async () => {
        const it = await world.repo.get('webhook_delivery', delivery);
        return it?.observed?.phase === 'decided';
      });
      const [decided] = (await world.repo.get('webhook_delivery', delivery))?.observed?.applications ?? [];
      expect(decided).toMatchObject({ id: app, decision: 'deployed', commit: machine.head });
      await ended(world, decided?.deployment_id ?? '', 'succeeded');
      const { data: all } = await world.must('GET', `/applications/${app}/deployments`);
      expect(all.map((it: { commit: string }) => it.commit)).toEqual([machine.head, 'c'.repeat(40)]);
    },
  },
  {
    name: 'deploy what a look at the branch finds',
    running: 2,
    answering: 1,
    async prepare(world) {
      const at = await place(world);
      const source = { source_type: 'git', image_url: undefined, repository_url: 'https://git.test/shop.git' };
      const follows = { branch: 'main', autodeploy: true, autodeploy_interval: 60 };
      const app = await create(world, at, { ...source, dockerfile_path: 'Dockerfile', ...follows });
      await deployed(world, app);
      await world.rest();
      return { ...at, app };
    },
    async run(world, { machine, app }) {
      machine.head = 'd'.repeat(40);
      const all = async (): Promise<{ commit: string; status: string; trigger: string }[]> =>
        (await world.must('GET', `/applications/${app}/deployments`)).data;
      await world.until('the head is deployed', async () => (await all())[0]?.commit === machine.head);
      await world.until('it serves', async () => (await all())[0]?.status === 'succeeded');
      // looks that find what serves deploy nothing
      await world.pass(200_000);
      expect((await all()).map(({ commit, trigger }) => [commit, trigger])).toEqual([
        [machine.head, 'webhook'],
        ['c'.repeat(40), 'manual'],
      ]);
    },
  },
  {
    name: 'show a branch in a preview, then that of a fork, and delete both',
    running: 3,
    answering: 1,
    async prepare(world) {
      const at = await place(world);
      const source = { source_type: 'git', image_url: undefined, repository_url: 'https://git.test/shop.git' };
      const app = await create(world, at, { ...source, branch: 'main', dockerfile_path: 'Dockerfile' });
      await deployed(world, app);
      await world.rest();
      return { ...at, app };
    },
    async run(world, { machine, project }) {
      const is = async (id: string, phase: PreviewPhase): Promise<void> =>
        world.until(
          `the preview is ${phase}`,
          async () => (await world.repo.get('preview', id))?.observed?.phase === phase,
        );
      const { data } = await world.must('POST', '/previews', { project_id: project, name: 'one', branch: 'feature' });
      await is(data.id, 'ready');
      const commit = 'd'.repeat(40);
      const fork = { fork_url: 'https://git.test/fork.git', commit };
      const body = { project_id: project, name: 'two', branch: 'theirs', ...fork };
      const { data: other } = await world.must('POST', '/previews', body);
      await is(other.id, 'awaiting_approval');
      await world.pass(20_000);
      expect((await world.must('GET', `/projects/${project}/environments`)).data).toHaveLength(2);
      await world.must('POST', `/previews/${other.id}/approve`, { commit });
      await is(other.id, 'ready');
      const { data: all } = await world.must('GET', `/applications?projectId=${project}`);
      const serves = all.map((it: { branch: string; current_commit: string }) => [it.branch, it.current_commit]);
      expect(Object.fromEntries(serves)).toEqual({ main: machine.head, feature: machine.head, theirs: commit });
      for (const id of [data.id, other.id]) await world.must('DELETE', `/previews/${id}`);
      for (const id of [data.id, other.id]) await gone(world, 'preview', id);
      expect((await world.must('GET', `/projects/${project}/environments`)).data).toHaveLength(1);
      expect(machine.engine.containers).toHaveLength(1);
    },
  },
  {
    name: 'instantiate a template in three waves, one of which has to be mended, and delete it but for its data',
    running: 3,
    prepare: place,
    async run(world, at) {
      const content = `apiVersion: setpoint/v1
kind: Template
metadata: {name: notes}
variables: [{name: TOKEN, type: secret, generate: true}, {name: IMAGE, default: "web:1"}]
databases: [{name: db, type: postgres, version: "17"}]
volumes: [{name: files}]
applications:
  - name: web
    image_url: \${IMAGE}
    exposed_port: 8080
    healthcheck_path: /health
    env: {DATABASE_URL: "\${databases.db.url}", TOKEN: "\${TOKEN}"}
    volumes: [{volume: files, path: /files}]
`;
      const { data: template } = await world.must('POST', '/templates', { content });
      const body = { project_id: at.project, server_id: at.machine.server, name: 'notes' };
      const { data } = await world.must('POST', `/templates/${template.id}/instantiate`, {
        ...body,
        variables: { IMAGE: 'web:gone' },
      });
      const is = (phase: TemplateInstancePhase): Promise<void> =>
        world.until(
          `the instance is ${phase}`,
          async () => (await world.repo.get('template_instance', data.id))?.observed?.phase === phase,
        );
      await is('failed');
      const childOf = async (key: string): Promise<{ id: string; state: string }> =>
        (await world.must('GET', `/template-instances/${data.id}`)).data.children.find(
          (it: { key: string }) => it.key === key,
        );
      const [files, db, web] = [await childOf('files'), await childOf('db'), await childOf('web')];
      expect([files.state, db.state, web.state]).toEqual(['up', 'up', 'failed']);
      await world.must('PUT', `/applications/${web.id}`, { image_url: 'web:1' });
      await deployed(world, web.id);
      await is('running');
      const { data: deployments } = await world.must('GET', `/applications/${web.id}/deployments`);
      expect(deployments.at(-1)).toMatchObject({ trigger: 'template', number: 1 });
      await world.must('DELETE', `/template-instances/${data.id}?keep_data=true`);
      await gone(world, 'template_instance', data.id);
      await gone(world, 'application', web.id);
      expect((await world.repo.get('volume', files.id))?.meta.deletionRequestedAt).toBeUndefined();
      expect((await world.repo.get('database', db.id))?.desired.template_instance_id).toBeUndefined();
      const { data: other } = await world.must('POST', `/templates/${template.id}/instantiate`, {
        ...body,
        name: 'two',
      });
      await world.must('DELETE', `/template-instances/${other.id}`);
      await gone(world, 'template_instance', other.id);
      expect((await world.must('GET', '/volumes')).data).toHaveLength(2);
    },
  },
  {
    name: 'upgrade a template instance in waves, correct what is changed by hand, and roll it back',
    running: 3,
    prepare: place,
    async run(world, at) {
      const text = (image: string, volumes: string): string => `apiVersion: setpoint/v1
kind: Template
metadata: {name: notes}
variables: [{name: TOKEN, type: secret, generate: true}]
volumes: [${volumes}]
applications:
  - name: web
    image_url: ${image}
    exposed_port: 8080
    healthcheck_path: /health
    env: {TOKEN: "\${TOKEN}"}
    volumes: [{volume: files, path: /files}]
functions: [{name: hello, runtime: node20, code: "${image}"}]
`;
      const { data: template } = await world.must('POST', '/templates', { content: text('web:1', '{name: files}') });
      const { data } = await world.must('POST', `/templates/${template.id}/instantiate`, {
        project_id: at.project,
        server_id: at.machine.server,
        name: 'notes',
      });
      const path = `/template-instances/${data.id}`;
      const reached = (revision: number): Promise<void> =>
        world.until(`revision ${revision} is reached`, async () => {
          const it = await world.repo.get('template_instance', data.id);
          const { phase, completed_revision: completed = 1, drift = [] } = it?.observed ?? {};
          return phase === 'running' && completed === revision && drift.length === 0;
        });
      await reached(1);
      const idOf = (key: string): string => data.children.find((it: { key: string }) => it.key === key).id;
      const [web, hello] = [idOf('web'), idOf('hello')];
      const { data: before } = await world.must('GET', `/applications/${web}/env`);
      await world.must('PUT', `/templates/${template.id}`, {
        content: text('web:2', '{name: files}, {name: more}'),
      });
      await world.must('PUT', path, { template_id: template.id, drift: 'correct' });
      await reached(2);
      const imageIs = async (image: string): Promise<void> =>
        world.until(`the image is ${image}`, async () => {
          const it = (await world.repo.get('application', web))?.desired.source;
          return it?.type === 'image' && it.image_url === image;
        });
      await imageIs('web:2');
      const codeIs = (code: string): Promise<void> =>
        world.until(
          `the code is ${code}`,
          async () => (await world.repo.get('function', hello))?.desired.code === code,
        );
      await codeIs('web:2');
      await world.must('PUT', `/applications/${web}`, { image_url: 'web:1' });
      await world.must('PUT', `/functions/${hello}`, { code: 'by hand' });
      await imageIs('web:2');
      await codeIs('web:2');
      await reached(2);
      await world.must('POST', `${path}/rollback`, { force: ['volumes.more'] });
      await reached(3);
      expect((await world.must('GET', '/volumes')).data).toHaveLength(1);
      await imageIs('web:1');
      await codeIs('web:1');
      expect((await world.must('GET', `/applications/${web}/env`)).data.env).toEqual(before.env);
      await world.must('DELETE', path);
      await gone(world, 'template_instance', data.id);
    },
  },
  {
    name: 'keep a project as the files of a repository declare it, and leave it to itself',
    running: 2,
    prepare: place,
    async run(world, { machine, project }) {
      const declare = (commit: string, image: string, more: string): void => {
        const spec = `{image_url: "${image}", exposed_port: 8080, healthcheck_path: /health, server: one}`;
        const web = `apiVersion: setpoint/v1\nkind: Application\nmetadata: {name: web}\nspec: ${spec}\n`;
        machine.head = commit.repeat(40);
        machine.manifests.set(machine.head, `${web}${more}`);
      };
      const environment = '---\napiVersion: setpoint/v1\nkind: Environment\nmetadata: {name: next}\nspec: {}\n';
      declare('a', 'web:1', environment);
      const { data } = await world.must('POST', '/syncs', {
        project_id: project,
        server_id: machine.server,
        name: 'shop',
        repository_url: 'https://git.test/shop.git',
        branch: 'main',
        interval_seconds: 30,
      });
      const applied = (): Promise<void> =>
        world.until('the head is applied', async () => {
          const it = (await world.repo.get('sync', data.id))?.observed;
          return it?.phase === 'in_sync' && it.commit_applied === machine.head;
        });
      await applied();
      const environments = `/projects/${project}/environments`;
      expect((await world.must('GET', environments)).data).toHaveLength(2);
      const [web] = (await world.must('GET', '/applications')).data;
      await ready(world, web.id, 1);
      // whether a deployment ends before the next one supersedes it is no part of what is declared
      const isDeployed = (): Promise<void> =>
        world.until('its newest deployment has succeeded', async () => {
          const { data: all } = await world.must('GET', `/applications/${web.id}/deployments`);
          return all[0].status === 'succeeded';
        });
      await isDeployed();
      declare('b', 'web:2', '');
      await applied();
      await isDeployed();
      expect((await world.must('GET', `/applications/${web.id}`)).data.image_url).toBe('web:2');
      await world.until('what is not declared is gone', async () => {
        const { data: left } = await world.must('GET', environments);
        return left.length === 1;
      });
      await world.must('PUT', `/applications/${web.id}`, { exposed_port: 9090 });
      await world.until('the change by hand is told', async () => {
        const it = await world.repo.get('sync', data.id);
        return it?.observed?.phase === 'drifted' && it.observed.differs[0] === 'applications.web';
      });
      await isDeployed();
      await world.must('POST', `/syncs/${data.id}/sync`, { force: ['applications.web'] });
      await applied();
      await isDeployed();
      await world.must('DELETE', `/syncs/${data.id}`);
      await gone(world, 'sync', data.id);
      const { data: after } = await world.must('GET', `/applications/${web.id}`);
      expect([after.exposed_port, after.image_url]).toEqual([8080, 'web:2']);
    },
  },
  {
    name: 'show what a git host announces of a request, until it is closed',
    running: 2,
    answering: 1,
    async prepare(world) {
      const at = await place(world);
      const source = { source_type: 'git', image_url: undefined, repository_url: 'https://git.test/shop.git' };
      const app = await create(world, at, { ...source, branch: 'main', dockerfile_path: 'Dockerfile' });
      await deployed(world, app);
      await world.rest();
      return { ...at, app };
    },
    async run(world, { machine, project }) {
      const url = 'https://git.test/shop.git';
      const secret = 'a-secret-of-sixteen-or-more';
      const environments = `/projects/${project}/environments`;
      const [{ id: environment_id }] = (await world.must('GET', environments)).data;
      const previews = { environment_id };
      const fields = { project_id: project, name: 'shop', provider: 'gitlab', repository_url: url, secret, previews };
      const { data: hook } = await world.must('POST', '/webhooks/git', fields);
      const tell = async (action: string): Promise<void> => {
        const of = { iid: 7, action, source_branch: 'feature', source: { git_http_url: url } };
        const body = { object_attributes: of, project: { git_http_url: url } };
        const headers = { 'x-gitlab-event': 'Merge Request Hook', 'idempotency-key': action, 'x-gitlab-token': secret };
        const { data } = await world.call('POST', `/webhooks/git/${hook.id}`, body, headers);
        await world.until('the delivery is decided', async () => {
          const it = await world.repo.get('webhook_delivery', data.delivery_id);
          return it?.observed?.phase === 'decided';
        });
      };
      await tell('open');
      const [{ id }] = (await world.must('GET', '/previews')).data;
      // how far it has come by now is left to chance
      await tell('merge');
      await gone(world, 'preview', id);
      expect((await world.must('GET', environments)).data).toHaveLength(1);
      expect(machine.engine.containers).toHaveLength(1);
    },
  },
  {
    name: 'deploy what crashes and return',
    running: 3,
    answering: 2,
    prepare: running(2),
    async run(world, { app }) {
      await world.must('PUT', `/applications/${app}`, { image_url: 'web:crashes' });
      await ended(world, await deploy(world, app), 'failed');
      await ready(world, app, 2);
    },
  },
  {
    name: 'deploy what is nowhere and return',
    running: 2,
    answering: 1,
    prepare: running(1),
    async run(world, { app }) {
      await world.must('PUT', `/applications/${app}`, { image_url: 'web:nowhere' });
      await ended(world, await deploy(world, app), 'failed');
      await ready(world, app, 1);
    },
  },
  {
    name: 'deploy anew and roll back',
    running: 3,
    answering: 2,
    prepare: running(2),
    async run(world, { app }) {
      await world.must('PUT', `/applications/${app}`, { image_url: 'web:2' });
      await deployed(world, app);
      const { data } = await world.must('POST', `/applications/${app}/rollback`);
      await ended(world, data.id, 'succeeded');
      await ready(world, app, 2);
    },
  },
  {
    name: 'deploy a compose file, then another one, return, and delete it with its volume',
    running: 3,
    prepare: place,
    async run(world, at) {
      const file = (image: string): string => `services:
  db: {image: 'web:1', restart: always, volumes: ['data:/data']}
  web: {image: '${image}', restart: always, depends_on: {db: {condition: service_healthy}}}
volumes: {data: {}}
`;
      const source = { source_type: 'compose', image_url: undefined, compose_service: 'web' };
      const app = await create(world, at, { ...source, compose_file: file('web:1') });
      await deployed(world, app);
      await world.must('PUT', `/applications/${app}`, { compose_file: file('web:2') });
      await deployed(world, app);
      const { data } = await world.must('POST', `/applications/${app}/rollback`);
      await ended(world, data.id, 'succeeded');
      await ready(world, app, 1);
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
      expect(at.machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'scale up and down',
    running: 4,
    answering: 1,
    prepare: running(1),
    async run(world, { app }) {
      await world.must('POST', `/applications/${app}/scale`, { replicas: 3 });
      await ready(world, app, 3);
      await world.must('POST', `/applications/${app}/scale`, { replicas: 2 });
      await ready(world, app, 2);
    },
  },
  {
    name: 'stop and start',
    running: 2,
    prepare: running(2),
    async run(world, { app }) {
      await world.must('POST', `/applications/${app}/stop`);
      await ready(world, app, 0);
      await world.must('POST', `/applications/${app}/start`);
      await ready(world, app, 2);
    },
  },
  {
    name: 'restart',
    running: 3,
    answering: 1,
    prepare: running(2),
    async run(world, { app, machine }) {
      const before = new Set(machine.engine.containers.map(startedAt));
      await world.must('POST', `/applications/${app}/restart`);
      await world.until('both were restarted', () =>
        machine.engine.containers.every((it) => !before.has(startedAt(it))),
      );
      await ready(world, app, 2);
    },
  },
  {
    name: 'change the environment',
    running: 3,
    answering: 2,
    prepare: running(2),
    async run(world, { app }) {
      await world.must('PUT', `/applications/${app}/env`, { env: { COLOUR: 'blue' } });
      await world.until('the change was rolled out', async () => {
        const it = await world.repo.get('application', app);
        return it?.observed?.current_deployment_id === it?.desired.deployment_id;
      });
      await ready(world, app, 2);
    },
  },
  {
    name: 'deploy twice at once',
    running: 2,
    answering: 1,
    prepare: running(1),
    async run(world, { app }) {
      await world.must('PUT', `/applications/${app}`, { image_url: 'web:slow' });
      await deploy(world, app);
      await world.must('PUT', `/applications/${app}`, { image_url: 'web:2' });
      await deployed(world, app);
      await ready(world, app, 1);
    },
  },
  {
    name: 'run a command, cancel it, delete its application',
    running: 2,
    prepare: running(1),
    async run(world, { app }) {
      const { data } = await world.must('POST', `/applications/${app}/run`, { command: ['migrate'] });
      const phase = async () => (await world.repo.get('run', data.id))?.observed?.phase ?? 'pending';
      await world.until('the command runs, or was lost', async () => (await phase()) !== 'pending');
      await world.must('POST', `/runs/${data.id}/cancel`);
      await world.until('the command has ended', async () => (await phase()) !== 'running');
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
      await gone(world, 'run', data.id);
    },
  },
  {
    name: 'mount a volume, deploy anew, delete both',
    running: 1,
    prepare: running(1),
    async run(world, { machine, project, app }) {
      const { data } = await world.must('POST', '/volumes', {
        project_id: project,
        server_id: machine.server,
        name: 'data',
      });
      const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
      await world.must('POST', `/volumes/${data.id}/bind`, binding);
      const mounted = () =>
        machine.engine.containers.filter(
          (one) => one.state === 'running' && one.mutable.mounts.some(({ path }) => path === '/data'),
        );
      await world.until('it is mounted', () => mounted().length === 1);
      mounted()[0]?.files.write('/data/note', 'kept');
      await deployed(world, app);
      await world.until('it is mounted by the next one', () => mounted()[0]?.files.read('/data/note') === 'kept');
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
      await world.must('DELETE', `/volumes/${data.id}`);
      await gone(world, 'volume', data.id);
      expect(machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'create a database that an application refers to, pool its connections, restart it, give it more memory and another password, stop, start and delete it',
    running: 2,
    prepare: place,
    async run(world, { machine, project, ...at }) {
      const fields = { project_id: project, server_id: machine.server, name: 'orders', type: 'postgres' };
      const { data } = await world.must('POST', '/databases', fields);
      const is = async (phase: DatabasePhase): Promise<void> =>
        world.until(`the database is ${phase}`, async () => {
          const it = await world.repo.get('database', data.id);
          const isSeen = it?.observed?.observedGeneration === it?.meta.generation;
          const isSettled = it?.observed?.conditions.every(
            ({ type, status }) => type !== 'Reconciling' || status === 'false',
          );
          return isSeen && isSettled === true && it?.observed?.phase === phase;
        });
      await is('running');
      const pooler = () => machine.engine.containers.filter(({ name }) => name.includes('-pooler-'));
      await world.must('PUT', `/databases/${data.id}`, { connection_pooling: true });
      await is('running');
      expect(pooler()).toHaveLength(1);
      const env = { DATABASE_URL: '${databases.orders.pooled_url}', DIRECT_URL: '${databases.orders.url}' };
      const app = await create(world, { ...at, machine, project }, { env });
      await deployed(world, app);
      await world.must('POST', `/databases/${data.id}/restart`);
      await is('running');
      await world.must('PUT', `/databases/${data.id}`, { memory_limit: '512m' });
      await is('running');
      await world.must('POST', `/databases/${data.id}/rotate-password`, { password: 'another one' });
      await is('running');
      const shown = await world.must('GET', `/databases/${data.id}/credentials`);
      expect(shown.data).toMatchObject({ password: 'another one', password_pending: false });
      await world.must('POST', `/databases/${data.id}/stop`);
      await is('stopped');
      expect(pooler()).toEqual([]);
      await world.must('POST', `/databases/${data.id}/start`);
      await is('running');
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
      await world.must('PUT', `/databases/${data.id}`, { connection_pooling: false });
      await is('running');
      await world.until('its pooler is gone', () => pooler().length === 0);
      await world.must('DELETE', `/databases/${data.id}`);
      await gone(world, 'database', data.id);
      expect(machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'deploy a function, mount a volume in it, deploy it anew, let a schedule call it, stop and delete it',
    running: 2,
    prepare: place,
    async run(world, { machine, project }) {
      const fields = { project_id: project, server_id: machine.server, name: 'hello', runtime: 'node20' };
      const code = 'export default () => new Response("Hello")';
      const { data } = await world.must('POST', '/functions', { ...fields, code });
      const seen = async () => (await world.repo.get('function', data.id))?.observed;
      const is = async (phase: FunctionPhase): Promise<void> =>
        world.until(`the function is ${phase}`, async () => {
          const it = await world.repo.get('function', data.id);
          const isServed = phase !== 'running' || it?.observed?.active_version_id === it?.desired.version_id;
          return isServed && it?.observed?.observedGeneration === it?.meta.generation && it?.observed?.phase === phase;
        });
      await world.must('POST', `/functions/${data.id}/deploy`);
      await is('running');
      const first = (await seen())?.active_version_id;
      const place = { project_id: project, server_id: machine.server };
      const { data: volume } = await world.must('POST', '/volumes', { ...place, name: 'notes' });
      const bind = { workload_type: 'function', workload_id: data.id, mount_path: '/data' };
      await world.must('POST', `/volumes/${volume.id}/bind`, bind);
      await is('running');
      await world.must('PUT', `/functions/${data.id}`, { code: `${code} // again` });
      await world.must('POST', `/functions/${data.id}/deploy`);
      await is('running');
      await world.must('POST', `/functions/${data.id}/versions/${first}/deploy`);
      await is('running');
      await world.must('PUT', `/functions/${data.id}`, { trigger_type: 'cron', schedule: '* * * * *' });
      await world.until('it was called, and that has ended', async () => {
        const { last_run_at, firing } = (await seen()) ?? {};
        return last_run_at !== undefined && firing === undefined;
      });
      await world.must('POST', `/functions/${data.id}/stop`);
      await is('stopped');
      const { data: versions } = await world.must('GET', `/functions/${data.id}/versions`);
      expect(versions).toHaveLength(2);
      await world.must('DELETE', `/functions/${data.id}`);
      await gone(world, 'function', data.id);
      for (const version of versions) await gone(world, 'function_version', version.id);
      expect(machine.engine.containers).toEqual([]);
      await world.must('DELETE', `/volumes/${volume.id}`);
      await gone(world, 'volume', volume.id);
    },
  },
  {
    name: 'copy a Docker volume once its container has stopped, and deploy with it',
    running: 1,
    async prepare(world) {
      const at = await place(world);
      const app = await create(world, at);
      at.machine.engine.volumes.ensure('blog_data', {});
      const old = await at.machine.engine.foreign({
        name: 'blog',
        image: 'blog:1',
        labels: {},
        env: {},
        networks: [{ name: 'theirs', aliases: [] }],
        mounts: [{ type: 'volume', volume: 'blog_data', path: '/data', readOnly: false }],
        restart: 'no',
      });
      old.files.write('/data/rows', 'of the blog');
      await world.rest();
      return { ...at, app };
    },
    async run(world, { machine, app }) {
      const { desired } = (await world.repo.get('application', app)) ?? {};
      if (desired === undefined) throw new Error('There is no application');
      const { project_id, environment_id, server_id } = desired;
      const from = { docker_volume: 'blog_data', containers: ['blog'] };
      const id = world.random.id();
      const unit = world.repo.begin();
      unit.create('volume', id, { project_id, environment_id, server_id, name: 'rows', copy_from: from });
      await commit(unit);
      const binding = { workload_type: 'application', workload_id: app, mount_path: '/data' };
      await world.until('it can be bound', async () => (await world.call('GET', `/volumes/${id}`)).status === 200);
      await world.must('POST', `/volumes/${id}/bind`, binding);
      const deployment = await deploy(world, app);
      const old = machine.engine.byName('blog');
      await world.until('the deployment waits for it', async () => {
        const { observed } = (await world.repo.get('deployment', deployment)) ?? {};
        const shown = observed?.conditions.find(({ reason }) => reason === 'WaitingForVolume');
        return shown?.message.includes('Stop blog') === true;
      });
      old.files.write('/data/rows', 'the last of the blog');
      old.exit(0, { asked: true });
      await ended(world, deployment, 'succeeded');
      const [one] = machine.engine.containers.filter((it) => it.state === 'running');
      expect(one?.files.read('/data/rows')).toBe('the last of the blog');
      expect(old.files.read('/data/rows')).toBe('the last of the blog');
      expect(machine.engine.volumes.list({}).map(({ name }) => name)).toEqual(['blog_data', `sp-vol-${id}`]);
      machine.engine.removeByHand(old.id);
    },
  },
  {
    name: 'let a server use an SSH key, rotate it, delete the one before',
    running: 1,
    prepare: running(1),
    async run(world, { machine }) {
      const key = async (name: string): Promise<string> => {
        const { data } = await world.must('POST', '/settings/ssh-keys', { name, password: `sesame of ${name}` });
        return data.id;
      };
      const [first, second] = [await key('first'), await key('second')];
      const server = `/servers/${machine.server}`;
      await world.must('PUT', server, { ssh_key_id: first });
      expect((await world.call('DELETE', `/settings/ssh-keys/${first}`)).status).toBe(409);
      await world.must('PUT', `/settings/ssh-keys/${first}`, { password: 'another sesame' });
      await world.must('PUT', server, { ssh_key_id: second });
      await world.must('DELETE', `/settings/ssh-keys/${first}`);
      expect((await world.must('GET', `/settings/ssh-keys/${second}`)).data.server_ids).toEqual([machine.server]);
    },
  },
  {
    name: 'read a repository with a git credential, rotate it, and take it away',
    running: 2,
    answering: 1,
    prepare: running(1),
    async run(world, { app }) {
      const path = '/settings/git-credentials';
      const body = { name: 'reader', host: 'git.example.test', type: 'token', token: 'sesame' };
      const { data } = await world.must('POST', path, body);
      const source = {
        source_type: 'git',
        repository_url: 'https://git.example.test/web.git',
        branch: 'main',
        dockerfile_path: 'Dockerfile',
      };
      await world.must('PUT', `/applications/${app}`, { ...source, git_credential_id: data.id });
      expect((await world.call('DELETE', `${path}/${data.id}`)).status).toBe(409);
      await world.must('PUT', `${path}/${data.id}`, { token: 'another sesame' });
      const deployment = await deploy(world, app);
      await ended(world, deployment, 'succeeded');
      await world.must('PUT', `/applications/${app}`, { git_credential_id: null });
      await world.must('DELETE', `${path}/${data.id}`);
      await ready(world, app, 1);
    },
  },
  {
    name: 'pull with a registry, rotate its password, and take it away',
    running: 2,
    answering: 1,
    prepare: running(1),
    async run(world, { app }) {
      const path = '/settings/registries';
      const body = { address: 'docker.io', username: 'reader', password: 'sesame', untested: true };
      const { data } = await world.must('POST', path, { name: 'hub', ...body });
      await world.must('PUT', `/applications/${app}`, { registry_id: data.id });
      expect((await world.call('DELETE', `${path}/${data.id}`)).status).toBe(409);
      await world.must('PUT', `${path}/${data.id}`, { password: 'another sesame', untested: true });
      const deployment = await deploy(world, app);
      await ended(world, deployment, 'succeeded');
      await world.must('PUT', `/applications/${app}`, { registry_id: null });
      await world.must('DELETE', `${path}/${data.id}`);
      await ready(world, app, 1);
    },
  },
  {
    name: 'keep a bucket for backups, lose it, have it back, and delete it',
    running: 0,
    async prepare(world) {
      const at = await place(world);
      await world.rest();
      return at;
    },
    async run(world) {
      const path = '/settings/backup-destinations';
      const keys = { access_key: 'AKIDEXAMPLE0', secret_key: 'sesame' };
      const at = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
      const { data } = await world.must('POST', path, { name: 'store', ...at, ...keys });
      const is = (phase: DestinationPhase): Promise<void> =>
        world.until(`the destination is ${phase}`, async () => {
          const it = await world.repo.get('backup_destination', data.id);
          return it?.observed?.phase === phase;
        });
      await is('reachable');
      const message = 'Endpoint s3.example.test has no bucket backups: make it there, or correct bucket';
      world.troubles.set('backups', { code: 'no_bucket', message, isPassing: false });
      expect((await world.call('PUT', `${path}/${data.id}`, keys)).status).toBe(400);
      // what is changed is probed at once
      await world.must('PUT', `${path}/${data.id}`, { name: 'nightly' });
      await is('unreachable');
      world.troubles.clear();
      await world.must('PUT', `${path}/${data.id}`, { secret_key: 'another-sesame' });
      await is('reachable');
      await world.must('DELETE', `${path}/${data.id}`);
    },
  },
  {
    name: 'back up a database by hand and by a schedule, and delete all',
    running: 1,
    prepare: withDatabase,
    async run(world, { app: database }) {
      const times = { database_id: database, cron_expression: '30 3 * * *', retention_count: 1 };
      const schedule = await world.must('POST', '/backup-schedules', times);
      const first = await backedUp(world, `/databases/${database}/backups`);
      const second = await backedUp(world, `/backup-schedules/${schedule.data.id}/run`);
      await world.must('DELETE', `/databases/${database}`);
      await gone(world, 'database', database);
      for (const id of [first, second]) {
        await world.must('DELETE', `/backups/${id}`);
        await gone(world, 'backup', id);
      }
      expect([...world.bucket.objects.keys(), ...world.bucket.uploads.keys()]).toEqual([]);
    },
  },
  {
    name: 'restore a backup into its database, and delete that with its former data',
    // the one that serves, and the one that the backup is read into
    running: 2,
    prepare: withBackup,
    async run(world, { machine, app: database, apps: [backup = ''] }) {
      await restored(world, `/databases/${database}/restore`, { backup_id: backup });
      await world.must('DELETE', `/databases/${database}`);
      await gone(world, 'database', database);
      expect(machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'try backups of a database by hand and by its schedule, and delete it',
    // the one that serves, and the one that a backup is tried in
    running: 2,
    prepare: withBackup,
    async run(world, { machine, app: database, apps: [backup = ''] }) {
      await proven(world, backup, () => world.must('POST', `/backups/${backup}/verify`));
      const times = { database_id: database, cron_expression: '30 3 * * *', verify_every: '7d' };
      const schedule = (await world.must('POST', '/backup-schedules', times)).data.id;
      const second = await backedUp(world, `/backup-schedules/${schedule}/run`);
      await proven(world, second);
      expect(machine.engine.volumes.list({})).toHaveLength(1);
      await world.must('DELETE', `/backups/${second}`);
      await gone(world, 'backup', second);
      await world.must('DELETE', `/databases/${database}`);
      await gone(world, 'database', database);
      expect(machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'clone an environment with the data of its database, and delete the clone',
    // the one that serves, and the one that the data of its copy is read into
    running: 2,
    prepare: withDatabase,
    async run(world, { machine, project, app: database }) {
      const { environment_id: source } = (await world.must('GET', `/databases/${database}`)).data;
      const base = `/projects/${project}/environments`;
      const asked = { name: 'copy', include_data: true };
      const { data } = await world.must('POST', `${base}/${source}/clone`, asked);
      await world.until('its data is copied', async () => {
        const of = (await world.repo.get('environment', data.id))?.desired.clone_of;
        expect(of?.data?.failed ?? []).toEqual([]);
        return of?.complete === true && of.data?.left?.length === 0;
      });
      await world.must('DELETE', `${base}/${data.id}?force=true`);
      await gone(world, 'environment', data.id);
      expect(machine.engine.volumes.list({})).toHaveLength(1);
      await world.until('its backup is gone', () => world.bucket.objects.size === 0);
    },
  },
  {
    name: 'import a dump into a database by its address, and delete that with its former data',
    running: 2,
    prepare: withDatabase,
    async run(world, { machine, app: database }) {
      await restored(world, `/databases/${database}/import`, { url: 'https://dumps.example.test/orders.sql' });
      await world.must('DELETE', `/databases/${database}`);
      await gone(world, 'database', database);
      expect(machine.engine.volumes.list({})).toEqual([]);
    },
  },
  {
    name: 'restore a backup into a database that is made for it, and delete that',
    running: 1,
    prepare: withBackup,
    async run(world, { apps: [backup = ''] }) {
      const made = await restored(world, `/backups/database/${backup}/restore`, { new_name: 'copy' });
      await world.must('DELETE', `/databases/${made}`);
      await gone(world, 'database', made);
    },
  },
  {
    name: 'archive a database, bring it to an instant, let it serve that, and delete all',
    // the one that serves, and the one that recovers
    running: 2,
    prepare: withDatabase,
    async run(world, { app: database }) {
      await world.must('PUT', `/databases/${database}`, { backup_mode: 'pitr' });
      const latest = async (): Promise<string> => {
        const { data } = await world.must('GET', `/databases/${database}/recovery-window`);
        return data['latest_time'] ?? '';
      };
      await world.until('there is a window', async () => (await latest()) !== '');
      const target = await latest();
      const { data } = await world.must('POST', `/databases/${database}/pitr`, { target_time: target });
      await world.until('the recovery is ready', async () => {
        const it = await world.repo.get('restore', data.id);
        if (it?.observed?.phase === 'failed') throw new Error(JSON.stringify(it.observed));
        return it?.observed?.phase === 'ready_to_switch';
      });
      await world.must('POST', `/databases/${database}/switch`);
      await completed(world, 'restore', data.id);
      // the volume that it serves now has an archive of its own
      await world.until('another window has begun', async () => (await latest()) > target);
      await world.must('DELETE', `/databases/${database}`);
      await gone(world, 'database', database);
      const backups: { id: string }[] = (await world.must('GET', '/backups')).data;
      for (const { id } of backups) {
        await world.must('DELETE', `/backups/${id}`);
        await gone(world, 'backup', id);
      }
      await world.until('nothing is in the bucket', async () => world.bucket.objects.size === 0);
    },
  },
  {
    name: 'back up a volume that an application mounts, restore it in place, clone it for another one, and delete all',
    // the one that mounts what was there before, until it is replaced
    running: 1,
    prepare: withVolume,
    async run(world, { machine, project, app, apps: [volume = ''], ...at }) {
      const times = { volume_id: volume, cron_expression: '30 3 * * *', retention_count: 1 };
      await world.must('POST', '/backup-schedules', times);
      const backup = await backedUp(world, `/volumes/${volume}/backup`);
      const { data: restore } = await world.must('POST', `/backups/volume/${backup}/restore`);
      await completed(world, 'restore', restore.id);
      const { former_volume_id: former = '' } = (await world.repo.get('restore', restore.id))?.observed ?? {};
      const mounted = (id: string | undefined, path: string) =>
        world.until(`volume ${id} is mounted at ${path}`, () =>
          machine.engine.containers.some(
            (it) =>
              it.state === 'running' &&
              it.mutable.mounts.some(
                (one) => one.type === 'volume' && one.source === `sp-vol-${id}` && one.path === path,
              ),
          ),
        );
      const data = (await world.repo.get('volume', volume))?.desired.data_id;
      expect(data).toBe(former);
      await mounted(data, '/data');
      const without = { name: 'other', exposed_port: undefined, healthcheck_path: undefined };
      const other = await create(world, { ...at, machine, project, app, apps: [] }, without);
      await deployed(world, other);
      const bind = { workload_type: 'application', workload_id: other, mount_path: '/copy' };
      const clone = await clonedVolume(world, backup, bind);
      await mounted(clone, '/copy');
      for (const id of [app, other]) {
        await world.must('DELETE', `/applications/${id}`);
        await gone(world, 'application', id);
      }
      const left = new Set([volume, data, clone].map((id) => `sp-vol-${id}`));
      const removed = [
        [former, volume],
        [volume, data],
        [clone, clone],
      ] as const;
      for (const [id, of] of removed) {
        await world.must('DELETE', `/volumes/${id}`);
        await gone(world, 'volume', id);
        left.delete(`sp-vol-${of}`);
        expect(new Set(machine.engine.volumes.list({}).map(({ name }) => name))).toEqual(left);
      }
      await world.must('DELETE', `/backups/${backup}`);
      await gone(world, 'backup', backup);
      expect([...world.bucket.objects.keys(), ...world.bucket.uploads.keys()]).toEqual([]);
      await world.must('DELETE', `/projects/${project}`);
      await gone(world, 'project', project);
    },
  },
  {
    name: 'lead a domain to an application, then another one, and delete it',
    running: 2,
    async prepare(world) {
      const at = await place(world);
      const ingress = { wildcard_domain: 'apps.example.test' };
      await world.must('PUT', `/servers/${at.machine.server}`, { direct_ports_enabled: false, ingress });
      return at;
    },
    async run(world, at) {
      const routed = (host: string) =>
        world.until(`${host} leads to it`, async () => {
          const { data } = await world.must('GET', `/applications/${app}`);
          const condition = data.conditions.find((one: { type: string }) => one.type === 'RoutesReady');
          return condition?.status === 'true' && data.domains[0]?.host === host && isCurrent(data);
        });
      const app = await create(world, at, { domains: [{ host: 'one.example.test', tls: 'internal' }] });
      await deployed(world, app);
      await routed('one.example.test');
      await world.must('PUT', `/applications/${app}`, { domains: [{ host: 'two.example.test', tls: 'off' }] });
      await routed('two.example.test');
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
    },
  },
  {
    name: 'delete an application',
    running: 2,
    prepare: running(2),
    async run(world, { app }) {
      await world.must('DELETE', `/applications/${app}`);
      await gone(world, 'application', app);
    },
  },
  {
    name: 'delete a project with what is in it',
    running: 2,
    async prepare(world) {
      const at = await running(2)(world);
      const other = await create(world, at, { name: 'jobs', exposed_port: undefined, healthcheck_path: undefined });
      await deployed(world, other);
      await world.rest();
      return at;
    },
    async run(world, { project }) {
      await world.must('DELETE', `/projects/${project}`);
      await gone(world, 'project', project);
    },
  },
  {
    name: 'clone an environment',
    running: 1,
    prepare: shopOf(10),
    async run(world, at) {
      await cloned(world, await clone(world, at));
    },
  },
  {
    name: 'clone an environment that changes',
    running: 1,
    prepare: shopOf(10),
    async run(world, at) {
      const id = await clone(world, at);
      await world.must('PUT', `/applications/${at.apps[0]}`, { name: 'other', env: { COLOUR: 'blue' } });
      await world.must('PUT', `/applications/${at.apps[9]}`, { name: 'web' });
      await world.must('DELETE', `/applications/${at.apps[1]}`);
      await cloned(world, id);
      await gone(world, 'application', at.apps[1] ?? '');
      // Whether the clone was complete before each of the changes is left to chance: the one that is made now was not.
      await world.must('DELETE', `/projects/${at.project}/environments/${id}?force=true`);
      await gone(world, 'environment', id);
      await cloned(world, await clone(world, at));
    },
  },
  {
    name: 'delete the source of a clone',
    running: 1,
    prepare: shopOf(10),
    async run(world, at) {
      const id = await clone(world, at);
      await world.must('DELETE', `/projects/${at.project}/environments/${at.environment}?force=true`);
      await gone(world, 'environment', at.environment);
      if ((await world.repo.get('environment', id)) !== undefined) {
        await world.must('DELETE', `/projects/${at.project}/environments/${id}?force=true`);
        await gone(world, 'environment', id);
      }
    },
  },
  {
    name: 'delete a server with what runs on it',
    running: 2,
    errors: /control plane refuses this agent/,
    prepare: running(2, true),
    async run(world, { machine }) {
      await world.must('DELETE', `/servers/${machine.server}?force=true`);
      await gone(world, 'server', machine.server);
      // A leader that does not reach the agent goes on without it.
      await world.pass(60_000);
      expect(machine.engine.containers).toEqual([]);
      expect([...machine.engine.networks.keys()]).toEqual([]);
    },
  },
  {
    name: 'delete a tenant',
    running: 2,
    errors: /control plane refuses this agent/,
    async prepare(world) {
      const at = await running(2)(world);
      await createTenant(world.store, 'another', world.clock);
      return at;
    },
    async run(world, { machine }) {
      await world.until('the deletion is stored', () =>
        world.drive(requestTenantDeletion(world.store, tenant, world.clock)).then(
          (answer) => answer === 'requested',
          () => false,
        ),
      );
      const left = async () => {
        const [record, below] = await Promise.all([
          world.store.get(keys.tenant(tenant)),
          world.store.list(keys.ofTenant(tenant)),
        ]);
        return { record, below: below.entries };
      };
      await world.until('the tenant is gone', async () => (await left()).record === undefined);
      // nothing that was under way comes after it
      await world.pass(60_000);
      expect((await left()).below).toEqual([]);
      expect(machine.engine.containers).toEqual([]);
      expect([...machine.engine.networks.keys()]).toEqual([]);
    },
  },
  {
    name: 'lose a server and get it back',
    running: 2,
    answering: 1,
    prepare: running(1),
    async run(world, { app, machine }) {
      world.killAgent(machine);
      await world.until('its application is in error', async () => {
        const it = await world.repo.get('application', app);
        return it?.observed?.phase === 'error';
      });
      await world.must('POST', `/applications/${app}/scale`, { replicas: 2 });
      await world.pass(5000);
      world.startAgent(machine);
      await ready(world, app, 2);
    },
  },
];

function startedAt(container: { detail(): { startedAt: string } }): string {
  return container.detail().startedAt;
}
