import { expect } from 'vitest';
import type { ImageScript } from '../../agent/runtime/mock/script.ts';
import { keys } from '../../store/keys.ts';
import type { DeploymentPhase } from '../../store/kinds/application.ts';
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
      // A leader that does not reach the agent at the other replica, to which the world has no way, goes on without it.
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
