import { describe, expect, test } from 'vitest';
import { CallError } from '../../../agent-protocol/call-error.ts';
import type { CallParams } from '../../../agent-protocol/messages.ts';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { operationController } from '../../../controllers/operation/reconcile.ts';
import { branchCondition } from '../../../controllers/polling/look.ts';
import { pace, polling } from '../../../controllers/polling/polling.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { noInstallation, noMachines } from '../../harness/no-machines.ts';
import { seeded } from '../../harness/seeded.ts';
import { desiredState } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig, RigOptions } from '../runtime/rig.ts';

const serves = 'a'.repeat(40);
const newer = 'b'.repeat(40);
const minute = 60_000;
const interval = 5 * minute;

const git = {
  type: 'git',
  repository_url: 'https://git.test/shop.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
  build_context: '.',
  build_args: {},
} as const;

type Answer = string | Error | Promise<never>;

/** A leader that polls, and an agent that answers each question with what `head` has, or throws it. */
async function openWorld(options: Pick<RigOptions, 'wrap' | 'random'> = {}) {
  const asked: { params: CallParams; atMs: number; server: string }[] = [];
  const agent: { head: Answer; underWay: number; most: number } = { head: serves, underWay: 0, most: 0 };
  let rig: Rig | undefined;
  const agents = {
    async call(_tenant: string, server: string, params: CallParams) {
      // the comparison asks what differs, too
      if (params.method !== 'git.head') throw new Error(`Not expected: ${params.method}`);
      if (params.since === undefined) asked.push({ params, atMs: rig?.clock.monotonic() ?? 0, server });
      agent.underWay += 1;
      agent.most = Math.max(agent.most, agent.underWay);
      try {
        const head = await agent.head;
        if (head instanceof Error) throw head;
        return { commit: head };
      } finally {
        agent.underWay -= 1;
      }
    },
  };
  rig = await openRig({
    random: seeded(1).uniform,
    controllers: [
      operationController({ agents, machines: noMachines, installation: noInstallation }),
      applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 }),
    ],
    background: [polling(agents)],
    ...options,
  });
  return Object.assign(rig, { asked, agent });
}
type World = Awaited<ReturnType<typeof openWorld>>;

async function addServer(world: World, phase: 'active' | 'offline' = 'active', name: string = phase): Promise<string> {
  const server = aServer({ name });
  const unit = world.repo.begin();
  unit.create('server', server.meta.id, server.desired);
  await commit(unit);
  const stored = (await world.repo.get('server', server.meta.id))!;
  await world.repo.observe(stored, { phase, observedGeneration: 1, conditions: [] }, []);
  await world.rest();
  return server.meta.id;
}

/** An application that follows its branch and serves a commit of it. */
async function add(
  world: World,
  server: string,
  fields: Partial<DesiredOf<'application'>> = {},
  commitOf = serves,
): Promise<string> {
  const app = anApplication({ server_id: server, source: git, autodeploy: true, ...fields });
  const deployment = aDeployment(app, { number: 1 });
  const unit = world.repo.begin();
  const deployed = { ...app.desired, deployment_id: deployment.meta.id, next_deployment_number: 2 };
  unit.create('application', app.meta.id, 'deployment_id' in fields ? app.desired : deployed);
  unit.create('deployment', deployment.meta.id, deployment.desired);
  await commit(unit);
  const stored = (await world.repo.get('deployment', deployment.meta.id))!;
  const observed = { phase: 'succeeded', commit: commitOf, observedGeneration: 1, conditions: [] } as const;
  await world.repo.observe(stored, { ...observed, conditions: [] }, []);
  await world.rest();
  return app.meta.id;
}

async function pass(world: World, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= minute) {
    await world.clock.advance(Math.min(left, minute));
    await world.rest();
  }
}

const deploymentsOf = (world: World, app: string) =>
  world.mirror
    .tenant(tenant)
    .by('deployment', 'application', app)
    .map(({ desired }) => [desired.trigger, desired.commit, desired.triggered_by]);
const comparisons = (world: World) => world.mirror.tenant(tenant).list('operation');
const conditionOf = (world: World, app: string) =>
  world.mirror
    .tenant(tenant)
    .get('application', app)
    ?.observed?.conditions.find(({ type }) => type === branchCondition);

test('a head that is what serves is asked for at each interval, and nothing is written', async () => {
  await using world = await openWorld();
  await add(world, await addServer(world));
  // the application itself is in error soon, as it has no instance
  await pass(world, 11 * minute);
  world.asked.length = 0;
  const written = world.store.committed;
  await pass(world, 10 * interval);
  expect(world.asked.length).toBeGreaterThanOrEqual(9);
  expect(world.asked.length).toBeLessThanOrEqual(11);
  const gaps = world.asked.slice(1).map(({ atMs }, n) => atMs - world.asked[n]!.atMs);
  for (const gap of gaps) {
    expect(gap).toBeGreaterThanOrEqual(interval * (1 - pace.jitter));
    expect(gap).toBeLessThanOrEqual(interval * (1 + pace.jitter));
  }
  expect(new Set(gaps).size).toBeGreaterThan(1);
  expect(world.asked[0]?.params).toEqual({ method: 'git.head', repository_url: git.repository_url, branch: 'main' });
  expect(world.store.committed).toBe(written);
});

test('a new head is deployed once, by a comparison', async () => {
  await using world = await openWorld();
  const app = await add(world, await addServer(world));
  world.agent.head = newer;
  await pass(world, 5 * interval);
  expect(deploymentsOf(world, app)).toEqual([
    ['manual', undefined, undefined],
    ['webhook', newer, undefined],
  ]);
  expect(comparisons(world).map(({ observed }) => observed?.result?.['decision'])).toEqual(['deployed']);
});

test('a head whose deployment failed is judged once more, and never deployed again', async () => {
  await using world = await openWorld();
  const app = await add(world, await addServer(world));
  world.agent.head = newer;
  await pass(world, 2 * interval);
  const made = world.mirror.tenant(tenant).get('application', app)?.desired.deployment_id ?? '';
  const stored = (await world.repo.get('deployment', made))!;
  await world.repo.observe(stored, { phase: 'failed', observedGeneration: 1, conditions: [] }, []);
  await pass(world, 10 * interval);
  expect(deploymentsOf(world, app)).toHaveLength(2);
  const decisions = comparisons(world).map(({ observed }) => observed?.result?.['decision']);
  expect(new Set(decisions)).toEqual(new Set(['already_tried', 'deployed']));
  expect(decisions).toHaveLength(2);
});

test('a head whose server is refused is judged again an hour later', async () => {
  await using world = await openWorld();
  const server = await addServer(world);
  const change = async (allowed: string[] | undefined): Promise<void> => {
    const unit = world.repo.begin();
    unit.change(
      (await world.repo.get('server', server))!,
      (draft) => void Object.assign(draft, { allowed_projects: allowed }),
    );
    await commit(unit);
    await world.rest();
  };
  await change([id('another')]);
  const app = await add(world, server);
  world.agent.head = newer;
  await pass(world, 2 * interval);
  expect(comparisons(world).map(({ observed }) => observed?.result?.['decision'])).toEqual(['refused']);
  const project = world.mirror.tenant(tenant).get('application', app)?.desired.project_id ?? '';
  await change([project]);
  await pass(world, 4 * interval);
  expect(comparisons(world)).toHaveLength(1);
  await pass(world, 12 * interval);
  expect(deploymentsOf(world, app)).toHaveLength(2);
});

test('what a person asked for is not overtaken while its commit is not known', async () => {
  await using world = await openWorld();
  const app = await add(world, await addServer(world));
  const manual = aDeployment(anApplication({}, { id: app }), { number: 2, source: git });
  const unit = world.repo.begin();
  unit.create('deployment', manual.meta.id, manual.desired);
  unit.change((await world.repo.get('application', app))!, (draft) => {
    draft.deployment_id = manual.meta.id;
  });
  await commit(unit);
  world.agent.head = newer;
  await pass(world, 3 * interval);
  expect(world.asked.length).toBeGreaterThan(0);
  expect(comparisons(world)).toEqual([]);
});

test.each<[name: string, fields: Partial<DesiredOf<'application'>>]>([
  ['autodeploy is off', { autodeploy: false }],
  ['the interval is 0', { autodeploy_interval: 0 }],
  ['it is stopped', { run: 'stopped' }],
  ['it has no replicas', { replicas: 0 }],
  ['it is an image', { source: { type: 'image', image_url: 'web:1' } }],
  ['it was never deployed', { deployment_id: undefined }],
])('nobody looks: %s', async (_, fields) => {
  await using world = await openWorld();
  await add(world, await addServer(world), fields);
  world.agent.head = newer;
  await pass(world, 3 * interval);
  expect(world.asked).toEqual([]);
  expect(comparisons(world)).toEqual([]);
});

test('an application that begins to follow is looked at, and one that stops is not any more', async () => {
  await using world = await openWorld();
  const app = await add(world, await addServer(world), { autodeploy: false });
  const follow = async (fields: Partial<DesiredOf<'application'>>): Promise<void> => {
    const unit = world.repo.begin();
    unit.change((await world.repo.get('application', app))!, (draft) => void Object.assign(draft, fields));
    await commit(unit);
    await world.rest();
    world.asked.length = 0;
    await pass(world, 20 * minute);
  };
  await follow({ autodeploy: true, autodeploy_interval: 60 });
  expect(world.asked.length).toBeGreaterThanOrEqual(17);
  await follow({ autodeploy_interval: 600 });
  expect(world.asked.length).toBeLessThanOrEqual(3);
  await follow({ autodeploy: false });
  expect(world.asked).toEqual([]);
});

describe('a branch that cannot be read', () => {
  const gone = new CallError(
    'repository_unreachable',
    'Repository https://git.test/shop.git cannot be read: it is gone',
  );

  test('is told in a condition, is asked for less and less often, and is looked at again', async () => {
    await using world = await openWorld();
    const app = await add(world, await addServer(world));
    world.agent.head = gone;
    await pass(world, 24 * interval);
    // the comparison asks once more, by a question that says what serves
    expect(world.asked.length).toBeGreaterThanOrEqual(4);
    expect(world.asked.length).toBeLessThanOrEqual(6);
    expect(comparisons(world)).toHaveLength(1);
    expect(conditionOf(world, app)).toMatchObject({
      status: 'false',
      reason: 'Unreadable',
      message: expect.stringContaining('cannot be read: it is gone'),
    });
    world.agent.head = serves;
    await pass(world, 24 * interval);
    expect(conditionOf(world, app)).toMatchObject({ status: 'true' });
    expect(deploymentsOf(world, app)).toHaveLength(1);
    world.asked.length = 0;
    await pass(world, 4 * interval);
    expect(world.asked.length).toBeGreaterThanOrEqual(3);
  });

  test('is told with the reason of now, once for each', async () => {
    await using world = await openWorld();
    const app = await add(world, await addServer(world));
    world.agent.head = gone;
    await pass(world, 3 * interval);
    expect(conditionOf(world, app)).toMatchObject({ reason: 'Unreadable' });
    world.agent.head = new CallError('branch_not_found', 'There is no branch main');
    await pass(world, 48 * interval);
    expect(conditionOf(world, app)).toMatchObject({
      status: 'false',
      reason: 'BranchNotFound',
      message: expect.stringContaining('There is no branch main'),
    });
    expect(comparisons(world)).toHaveLength(2);
    const unit = world.repo.begin();
    unit.change((await world.repo.get('application', app))!, (draft) => {
      draft.source = { ...git, branch: 'other' };
    });
    await commit(unit);
    world.agent.head = new CallError('branch_not_found', 'There is no branch other');
    await pass(world, 24 * interval);
    expect(conditionOf(world, app)?.message).toContain('There is no branch other');
    expect(comparisons(world)).toHaveLength(3);
  });

  test('is told also after its comparison was forgotten', async () => {
    await using world = await openWorld();
    const app = await add(world, await addServer(world));
    world.agent.head = gone;
    await pass(world, 2 * interval);
    const unit = world.repo.begin();
    for (const { meta } of comparisons(world)) unit.requestDelete((await world.repo.get('operation', meta.id))!);
    await commit(unit);
    await world.rest();
    expect(comparisons(world)).toEqual([]);
    expect(conditionOf(world, app)).toMatchObject({ status: 'false' });
  });

  test('is no fault of a repository whose server is away', async () => {
    await using world = await openWorld();
    const app = await add(world, await addServer(world));
    await add(world, await addServer(world, 'offline'));
    world.agent.head = new CallError('away', 'The agent of the server is not connected');
    await pass(world, 10 * interval);
    expect(world.asked.length).toBeGreaterThanOrEqual(9);
    expect(new Set(world.asked.map(({ server }) => server)).size).toBe(1);
    expect(comparisons(world)).toEqual([]);
    expect(conditionOf(world, app)).toBeUndefined();
  });

  test('is not asked for with a credential of another project', async () => {
    await using world = await openWorld();
    const unit = world.repo.begin();
    const foreign = desiredState('git_credential', { allowed_projects: [id('another')] });
    unit.create('git_credential', id('reader'), foreign);
    await commit(unit);
    const app = await add(world, await addServer(world), { source: { ...git, git_credential_id: id('reader') } });
    await pass(world, 3 * interval);
    expect(world.asked).toEqual([]);
    expect(conditionOf(world, app)?.message).toContain('is not for this project any more');
  });
});

test('many applications are looked at at different times, and few at once', async () => {
  await using world = await openWorld();
  const servers = [await addServer(world), await addServer(world, 'active', 'another')];
  for (let n = 0; n < 20; n += 1)
    await add(world, servers[n % 2] ?? '', { name: `web-${n}`, internal_id: `web-${n}`, environment_id: id('e') });
  await pass(world, interval);
  expect(world.asked).toHaveLength(20);
  expect(new Set(world.asked.map(({ atMs }) => atMs)).size).toBeGreaterThan(15);

  const hanging = Promise.withResolvers<never>();
  world.agent.head = hanging.promise;
  world.agent.most = 0;
  // the looks under way do not rest, and are ended after a minute
  for (let left = 2 * interval; left > 0 && world.agent.most < 2 * pace.perServer; left -= 1000)
    await world.clock.advance(1000);
  await world.clock.advance(20_000);
  expect(world.agent.underWay).toBe(2 * pace.perServer);
  expect(world.agent.most).toBe(2 * pace.perServer);
  world.agent.head = serves;
  hanging.reject(new CallError('away', 'gone'));
  await world.rest();
});

test('a look that the store did not take is made good by the next one', async () => {
  let faulty: FaultyStore | undefined;
  await using world = await openWorld({ wrap: (store) => (faulty = new FaultyStore(store)) });
  const app = await add(world, await addServer(world));
  world.agent.head = newer;
  faulty?.at(faulty.transactions + 1, 'fail-before-commit');
  await pass(world, interval);
  expect(comparisons(world)).toEqual([]);
  await pass(world, 2 * interval);
  expect(deploymentsOf(world, app).map(([, of]) => of)).toEqual([undefined, newer]);
});
