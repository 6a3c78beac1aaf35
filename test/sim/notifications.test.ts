import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

/** Kinds of the notifications of the user, oldest first. */
async function notificationsOf(world: World): Promise<string[]> {
  const { data } = await world.must('GET', '/notifications?sort=created_at');
  return (data as { kind: string }[]).map(({ kind }) => kind);
}

test('who may see an application hears when it stops serving, and of a server that goes and comes back, once each', async () => {
  await using world = await World.create(1);
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machine = await world.addServer('one');
  let isBroken = false;
  machine.engine.addImage('web:1', { runs: () => (isBroken ? { runForMs: 100, exitCode: 1 } : {}) });
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'image',
    image_url: 'web:1',
    exposed_port: 8080,
    healthcheck_path: '/health',
  });
  await world.must('POST', `/applications/${app.id}/deploy`);
  const hears = (kind: string, times: number): Promise<void> =>
    world.until(
      `${kind} is notified`,
      async () => (await notificationsOf(world)).filter((it) => it === kind).length === times,
      3_600_000,
    );
  await hears('deployment_succeeded', 1);
  isBroken = true;
  const [container] = machine.engine.containers;
  machine.engine.killByHand(container!.id);
  await hears('application_error', 1);
  isBroken = false;
  await hears('application_recovered', 1);
  const before = (await notificationsOf(world)).length;

  world.killAgent(machine);
  await hears('server_offline', 1);
  world.startAgent(machine);
  await hears('server_online', 1);
  await world.rest();
  expect((await notificationsOf(world)).slice(before)).toEqual(['server_offline', 'server_online']);
});
