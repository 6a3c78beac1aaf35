import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

type Listed = { is_current: boolean; number: number };

/** A control plane, an agent and an application of two instances that runs. */
async function town() {
  const world = await World.create(7);
  world.startPlane();
  const machine = await world.addServer('one');
  machine.engine.addImage('web:1');
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'image',
    image_url: 'web:1',
    exposed_port: 8080,
    healthcheck_path: '/',
    replicas: 2,
  });
  const path = `/applications/${app.id}`;
  const { data: deployed } = await world.must('POST', `${path}/deploy?wait=120`);
  expect(deployed.status).toBe('succeeded');
  const instances = async () => (await world.must('GET', `${path}/instances`)).data as { ready: boolean; id: string }[];
  const processes = () =>
    machine.engine.containers.filter((it) => it.summary().state === 'running').map((it) => it.summary().id);
  return {
    world,
    machine,
    path,
    project,
    instances,
    processes,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

test('a restart that is waited for is answered when the last instance was restarted', async () => {
  await using it = await town();
  const startsBefore = it.machine.engine.containers.map((one) => one.detail().startedAt ?? '').toSorted();
  const { data } = await it.world.must('POST', `${it.path}/restart?wait=120`);
  expect(data).toMatchObject({ status: 'running', ready_replicas: 2 });
  const startsAfter = it.machine.engine.containers.map((one) => one.detail().startedAt ?? '').toSorted();
  expect(startsAfter.some((start) => startsBefore.includes(start))).toBe(false);
});

test('a scale that is waited for is answered when as many run, and no more', async () => {
  await using it = await town();
  expect((await it.world.must('POST', `${it.path}/scale?wait=120`, { replicas: 4 })).data.ready_replicas).toBe(4);
  expect(it.processes()).toHaveLength(4);
  expect((await it.world.must('POST', `${it.path}/scale?wait=120`, { replicas: 1 })).data.ready_replicas).toBe(1);
  expect(it.processes()).toHaveLength(1);
});

test('a changed configuration that is waited for is answered when what serves has it', async () => {
  await using it = await town();
  const { data } = await it.world.must('PUT', `${it.path}?wait=120`, { env: { GREETING: 'hi' } });
  expect(data).toMatchObject({ status: 'running', ready_replicas: 2 });
  expect(data.current_deployment_id).toBe(data.deployment_id);
  expect(it.processes()).toHaveLength(2);
  const { data: scaled } = await it.world.must('PUT', `${it.path}?wait=120`, { replicas: 3 });
  expect(scaled.ready_replicas).toBe(3);
});

test('a stop, a start and a deletion that are waited for are answered when that is so', async () => {
  await using it = await town();
  expect((await it.world.must('POST', `${it.path}/stop?wait=120`)).data.status).toBe('stopped');
  expect(it.processes()).toEqual([]);
  expect((await it.world.must('POST', `${it.path}/start?wait=120`)).data).toMatchObject({
    status: 'running',
    ready_replicas: 2,
  });
  await it.world.must('DELETE', `${it.path}?wait=120`);
  expect((await it.world.call('GET', it.path)).status).toBe(404);
  expect(it.machine.engine.containers).toEqual([]);
});

test('whoever waited for a deployment reads its outcome in the application and in the list', async () => {
  await using it = await town();
  const read = async () => ({
    app: (await it.world.must('GET', it.path)).data,
    current: (await it.world.must('GET', `${it.path}/deployments`)).data.find((one: Listed) => one.is_current)?.number,
  });
  expect(await read()).toMatchObject({ app: { status: 'running' }, current: 1 });
  const { data: second } = await it.world.must('POST', `${it.path}/deploy?wait=120`);
  expect(second).toMatchObject({ status: 'succeeded', is_current: true });
  expect(await read()).toMatchObject({ app: { status: 'running', current_deployment_id: second.id }, current: 2 });

  await it.world.must('PUT', it.path, { image_url: 'web:none' });
  const { data: third } = await it.world.must('POST', `${it.path}/deploy?wait=120`);
  expect(third.status).toBe('failed');
  expect(await read()).toMatchObject({
    app: { status: 'running', current_deployment_id: second.id, consecutive_failures: 1 },
    current: 2,
  });

  await it.world.must('PUT', it.path, { image_url: 'web:1' });
  const { data: fourth } = await it.world.must('POST', `${it.path}/deploy`);
  const { data: cancelled } = await it.world.must('POST', `/deployments/${fourth.id}/cancel?wait=120`);
  expect(cancelled.status).toBe('cancelled');
  expect(await read()).toMatchObject({ app: { status: 'running', current_deployment_id: second.id }, current: 2 });
});

test('a deployment that fails answers whoever waits for it, with its reason', async () => {
  await using it = await town();
  await it.world.must('PUT', it.path, { image_url: 'web:none' });
  const { data } = await it.world.must('POST', `${it.path}/deploy?wait=120`);
  expect(data).toMatchObject({ status: 'failed', error: { code: 'image_not_found' } });
});
