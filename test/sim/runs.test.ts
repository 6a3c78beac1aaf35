import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

/** An application that is deployed, and whose image exits by itself with `exitCode` where it is run once. */
async function town(script: { runForMs?: number; exitCode?: number } = { runForMs: 3000 }) {
  const world = await World.create(23);
  world.startPlane();
  const machine = await world.addServer('one');
  let isServing = true;
  machine.engine.addImage('web:1', { runs: () => (isServing ? {} : script) });
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const body = { project_id: project.id, server_id: machine.server, name: 'web' };
  const { data: app } = await world.must('POST', '/applications', {
    ...body,
    source_type: 'image',
    image_url: 'web:1',
    env: { COLOUR: 'red' },
  });
  const path = `/applications/${app.id}`;
  await world.must('POST', `${path}/deploy?wait=120`);
  isServing = false;
  const containers = () => machine.engine.containers.filter((one) => one.mutable.labels['setpoint.type'] === 'run');
  const run = async (fields: object = {}) =>
    (await world.must('POST', `${path}/run`, { command: ['migrate', '--all'], ...fields })).data;
  const ended = async (id: string) => {
    await world.until('the command has ended', async () => {
      const { data } = await world.must('GET', `/runs/${id}`);
      return !['pending', 'running'].includes(data.status);
    });
    await world.rest();
    return (await world.must('GET', `/runs/${id}`)).data;
  };
  return {
    world,
    machine,
    app,
    path,
    containers,
    run,
    ended,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

test('a command runs in a container of its own, as the application is deployed, and leaves nothing', async () => {
  await using it = await town();
  const made = await it.run({ env: { ONLY: 'here', COLOUR: 'blue' } });
  expect(made).toMatchObject({ status: 'pending', command: ['migrate', '--all'], exit_code: null });
  await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
  const [container] = it.containers();
  expect(container?.mutable).toMatchObject({
    env: { COLOUR: 'blue', ONLY: 'here' },
    command: ['migrate', '--all'],
    restart: 'no',
  });
  expect(container?.networks.map(({ aliases }) => aliases)).toEqual([[]]);
  expect(await it.ended(made.id)).toMatchObject({ status: 'succeeded', exit_code: 0, error: null });
  expect(it.containers()).toEqual([]);
  expect((await it.world.must('GET', `${it.path}/runs`)).data).toMatchObject([{ id: made.id }]);
  expect((await it.world.must('GET', `${it.path}/instances`)).data).toHaveLength(1);
});

test('another exit code than 0 is a failure with that code', async () => {
  await using it = await town({ runForMs: 100, exitCode: 7 });
  expect(await it.ended((await it.run()).id)).toMatchObject({
    status: 'failed',
    exit_code: 7,
    error: { code: 'exited', message: 'The command ended with exit code 7: see its log' },
  });
});

test.each(['stop', 'remove'])(
  'a command that ended keeps its result when the engine fails to %s its container',
  async (verb) => {
    await using it = await town();
    const { id } = await it.run();
    await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
    it.machine.engine.failNext(verb, { code: 'runtime_unavailable', message: 'The engine is restarting' });
    expect(await it.ended(id)).toMatchObject({ status: 'succeeded', exit_code: 0, error: null });
    await it.world.until('its container is gone', () => it.containers().length === 0);
  },
);

test('a command that takes too long is ended', async () => {
  await using it = await town({});
  const { status, error, exit_code } = await it.ended((await it.run({ timeout_seconds: 5 })).id);
  expect({ status, error, exit_code }).toMatchObject({
    status: 'failed',
    error: { code: 'run_timeout' },
    exit_code: null,
  });
  expect(it.containers()).toEqual([]);
});

test('a command that is cancelled ends, and cancelling it again changes nothing', async () => {
  await using it = await town({});
  const { id } = await it.run();
  await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
  await it.world.must('POST', `/runs/${id}/cancel`);
  expect(await it.ended(id)).toMatchObject({ status: 'cancelled', exit_code: null });
  expect(it.containers()).toEqual([]);
  await it.world.must('POST', `/runs/${id}/cancel`);
});

test('a command that the end of its agent interrupts is lost, ended, and never begun again', async () => {
  await using it = await town({});
  const { id } = await it.run();
  await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
  const [before] = it.containers();
  it.world.killAgent(it.machine);
  it.world.startAgent(it.machine);
  expect(await it.ended(id)).toMatchObject({ status: 'lost', error: { code: 'interrupted' } });
  await it.world.until('its container is gone', () => it.containers().length === 0);
  expect(before?.summary().state).toBe('exited');
  await it.world.pass(60_000);
  expect(it.containers()).toEqual([]);
});

test('a change of the application does not touch a command that runs', async () => {
  await using it = await town({ runForMs: 30_000 });
  const { id } = await it.run();
  await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
  const [before] = it.containers();
  await it.world.must('PUT', it.path, { memory_limit: '64m', env: { COLOUR: 'green' } });
  await it.world.pass(5000);
  expect(it.containers()).toEqual([before]);
  expect(await it.ended(id)).toMatchObject({ status: 'succeeded' });
});

test('a deleted application takes its commands with it', async () => {
  await using it = await town({});
  const { id } = await it.run();
  await it.world.until('it runs', () => it.containers().some((one) => one.summary().state === 'running'));
  await it.world.must('DELETE', `${it.path}?wait=120`);
  await it.world.rest();
  expect((await it.world.call('GET', `/runs/${id}`)).status).toBe(404);
  expect(it.machine.engine.containers).toEqual([]);
});

test('a volume has one writer: a command waits for no instance, and is refused', async () => {
  await using it = await town();
  const { data: volume } = await it.world.must('POST', '/volumes', {
    project_id: it.app.project_id,
    server_id: it.machine.server,
    name: 'data',
  });
  const binding = { workload_type: 'application', workload_id: it.app.id, mount_path: '/data' };
  await it.world.must('POST', `/volumes/${volume.id}/bind`, binding);
  await it.world.rest();
  expect((await it.world.call('POST', `${it.path}/run`, { command: ['x'] })).status).toBe(409);
  const reader = await it.run({ read_only_volumes: true });
  await it.world.until('it runs', () => it.containers().length === 1);
  expect(it.containers()[0]?.mutable.mounts).toMatchObject([{ path: '/data', readOnly: true }]);
  await it.ended(reader.id);
  await it.world.must('POST', `${it.path}/stop?wait=120`);
  const writer = await it.run();
  await it.world.until('it runs', () => it.containers().length === 1);
  expect(it.containers()[0]?.mutable.mounts).toMatchObject([{ path: '/data', readOnly: false }]);
  expect(await it.ended(writer.id)).toMatchObject({ status: 'succeeded' });
});
