import { expect, test } from 'vitest';
import type { ImageScript } from '../../agent/runtime/mock/script.ts';
import { World } from '../harness/world.ts';
import { longTag } from '../layer-report.ts';

const applications = 165;
/** It answers once it has started. */
const postgres: ImageScript = {
  runs: { programs: ({ runningMs }) => ({ exitCode: runningMs < 3000 ? 2 : 0 }), stopsOn: 'SIGINT' },
};
/** How many of them rest. */
const towns = [
  { databases: 10, tags: [] },
  { databases: 200, tags: [longTag] },
];

/** Asserts that nothing is written in a world at rest, whatever comes round by itself. */
async function restsNow(world: World): Promise<void> {
  const transactions = world.store.transactions;
  world.leading?.replica?.controllers.resync();
  await world.pass(30_000);
  // Long enough for the resync of every object and every background sweep of the leader to come round by themselves.
  await world.pass(25 * 60_000);
  expect(world.store.transactions - transactions).toBe(0);
  expect(world.faults).toEqual([]);
}

test(
  'a world at rest writes nothing, though everything is looked at again and again',
  { timeout: 60_000 },
  async () => {
    await using world = await World.create(1);
    world.startPlane();
    await world.until('somebody leads', () => world.leading !== undefined);
    const machine = await world.addServer('one');
    machine.engine.addImage('web:1');
    const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
    for (let n = 1; n <= applications; n += 1) {
      const fields = { project_id: project.id, server_id: machine.server, source_type: 'image', image_url: 'web:1' };
      const { data } = await world.must('POST', '/applications', { ...fields, name: `web-${n}` });
      await world.must('POST', `/applications/${data.id}/deploy`);
    }
    await world.until('all run', () => machine.engine.containers.length === applications);
    await world.rest(60_000);
    const view = world.leading?.replica?.mirror.tenant('default');
    const all = (['application', 'deployment', 'assignment'] as const).flatMap((kind) => view?.list(kind) ?? []);
    expect(all).toHaveLength(3 * applications);
    expect(view?.list('application').every((it) => it.observed?.phase === 'running')).toBe(true);

    await restsNow(world);
  },
);

for (const { databases, tags } of towns)
  test(`${databases} databases at rest write nothing`, { tags, timeout: 300_000 }, () => rest(databases));

async function rest(databases: number): Promise<void> {
  await using world = await World.create(2);
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machines = [await world.addServer('one'), await world.addServer('two')];
  for (const { engine } of machines) engine.addImage('postgres:17', postgres);
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  for (let n = 0; n < databases; n += 1) {
    const server_id = machines[n % machines.length]?.server;
    const fields = { project_id: project.id, server_id, name: `orders-${n}`, type: 'postgres' };
    await world.must('POST', '/databases', fields);
  }
  const running = () => world.leading?.replica?.mirror.tenant('default').list('database') ?? [];
  await world.until('all run', () => running().filter((it) => it.observed?.phase === 'running').length === databases);
  await world.rest(60_000);
  expect(machines.flatMap(({ engine }) => engine.containers)).toHaveLength(databases);
  expect(machines.flatMap(({ engine }) => engine.volumes.list({}))).toHaveLength(databases);
  await restsNow(world);
}
