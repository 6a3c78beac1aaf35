import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

const url = 'https://git.test/shop.git';

/** An application of a branch that serves, and a preview of another branch that is up. */
async function town() {
  const world = await World.create(31);
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machine = await world.addServer('one');
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'git',
    repository_url: url,
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
  await world.must('POST', `/applications/${app.id}/deploy?wait=120`);
  const { data: preview } = await world.must('POST', '/previews', {
    project_id: project.id,
    name: 'one',
    branch: 'feature',
    ttl_seconds: 3600,
  });
  const at = `/previews/${preview.id}`;
  await world.until('the preview is up', async () => (await world.must('GET', at)).data.status === 'ready');
  await world.rest();
  const ended = async () => {
    const { data } = await world.must('GET', '/notifications');
    return (data as { kind: string; message: string }[]).filter(({ kind }) => kind === 'preview_ended');
  };
  return { world, machine, project, preview, at, ended, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

test('a preview ends with its time, with all that is in it, and its users are notified once', async () => {
  await using it = await town();
  const { world, machine, project, at, ended } = it;
  expect(machine.engine.containers).toHaveLength(2);
  const isGone = async () => (await world.call('GET', at)).status === 404;
  await world.until('its time is over', isGone, 2 * 3_600_000);
  expect(world.clock.now().getTime()).toBeGreaterThan(Date.parse(it.preview.expires_at));
  await world.rest();
  expect((await world.must('GET', `/projects/${project.id}/environments`)).data).toHaveLength(1);
  expect(machine.engine.containers).toHaveLength(1);
  expect(await ended()).toMatchObject([{ message: expect.stringContaining('as its time was over') }]);
});

test('a branch that is deleted takes its preview along without a webhook, and not while it cannot be read', async () => {
  await using it = await town();
  const { world, machine, project, at } = it;
  await world.must('PUT', at, { ttl_seconds: 30 * 86_400 });
  machine.gone.add('main');
  await world.pass(3_600_000);
  expect((await world.must('GET', at)).data.status).toBe('ready');
  machine.gone.add('feature');
  await world.until('it is gone', async () => (await world.call('GET', at)).status === 404, 3_600_000);
  await world.rest();
  expect(machine.engine.containers).toHaveLength(1);
  expect((await world.must('GET', `/projects/${project.id}/environments`)).data).toHaveLength(1);
  const { data } = await world.must('GET', '/notifications');
  expect((data as { kind: string }[]).filter(({ kind }) => kind === 'preview_removed')).toMatchObject([
    { message: 'Preview one is removed, as its branch feature was deleted' },
  ]);
});

test('one that a user deletes before its time is over ends without a notification', async () => {
  await using it = await town();
  const { world, at, ended } = it;
  await world.must('DELETE', at);
  await world.until('it is gone', async () => (await world.call('GET', at)).status === 404);
  await world.rest();
  expect(await ended()).toEqual([]);
});
