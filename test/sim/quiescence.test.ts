import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

const applications = 165;

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

    const transactions = world.store.transactions;
    world.leading?.replica?.controllers.resync();
    await world.pass(30_000);
    // Long enough for the resync of every object and every background sweep of the leader to come round by themselves.
    await world.pass(25 * 60_000);
    expect(world.store.transactions - transactions).toBe(0);
    expect(world.faults).toEqual([]);
  },
);
