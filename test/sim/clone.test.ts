import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

async function shop(world: World) {
  world.startPlane();
  await world.until('somebody leads', () => world.leading !== undefined);
  const machine = await world.addServer('one');
  machine.engine.addImage('web:1', { runs: { listenAfterMs: 500 } });
  const { data } = await world.must('POST', '/projects', { name: 'shop' });
  const base = `/projects/${data.id}/environments/${data.default_environment_id}`;
  const create = async (name: string, fields: object = {}): Promise<string> => {
    const body = { project_id: data.id, server_id: machine.server, name, source_type: 'image', image_url: 'web:1' };
    return (await world.must('POST', '/applications', { ...body, ...fields })).data.id;
  };
  return { machine, project: data.id as string, base, create };
}

test('whoever waits for a clone of 150 applications is answered when it is ready, and can deploy its copies', async () => {
  await using world = await World.create(1);
  const { machine, base, create } = await shop(world);
  const env = { TOKEN: 'ünïcode "quoted"\n\tlines', EMPTY: '' };
  const web = await create('web', { env, labels: { tier: 'front' } });
  for (let n = 1; n < 150; n += 1) await create(`web-${n}`);
  await world.must('POST', `/applications/${web}/deploy`);
  await world.until('it runs', () => machine.engine.containers.length === 1);

  const { data: clone } = await world.must('POST', `${base}/clone?wait=120`, { name: 'staging', type: 'staging' });
  expect(clone).toMatchObject({ name: 'staging', type: 'staging', clone_of: { complete: true } });
  expect(clone.conditions).toEqual([expect.objectContaining({ type: 'Ready', status: 'true', reason: 'Active' })]);
  const { data: copies } = await world.must('GET', `/applications?environmentId=${clone.id}&limit=500`);
  expect(copies).toHaveLength(150);
  expect(new Set(copies.map((copy: { status: string }) => copy.status))).toEqual(new Set(['stopped']));
  const copy = copies.find(({ name }: { name: string }) => name === 'web');
  expect(copy).toMatchObject({ labels: { tier: 'front' }, deployment_id: null, current_deployment_id: null });
  expect((await world.must('GET', `/applications/${copy.id}/env`)).data.env).toEqual(env);
  expect((await world.must('GET', `/applications/${copy.id}/deployments`)).data).toEqual([]);
  expect(machine.engine.containers).toHaveLength(1);

  await world.must('POST', `/applications/${copy.id}/deploy`);
  await world.until('both run', () => machine.engine.containers.length === 2);
  const [one, two] = machine.engine.containers;
  expect(one?.networks[0].name).not.toBe(two?.networks[0].name);
  expect(machine.engine.containers.map(({ mutable }) => mutable.env['TOKEN'])).toEqual([env.TOKEN, env.TOKEN]);
  expect(world.faults).toEqual([]);
});

test('a project whose server is away is deleting, says what it waits for, and goes when the server is back', async () => {
  await using world = await World.create(1);
  const { machine, project, create } = await shop(world);
  await world.must('POST', `/applications/${await create('web')}/deploy`);
  await world.until('it runs', () => machine.engine.containers.length === 1);
  await world.rest();
  world.killAgent(machine);
  await world.until('the server is offline', async () => {
    const it = await world.repo.get('server', machine.server);
    return it?.observed?.phase === 'offline';
  });
  await world.must('DELETE', `/projects/${project}`);
  const waits = 'Waits for 1 environment, 1 application, 1 assignment to go';
  const { data } = await world.must('GET', `/projects/${project}`);
  expect(data.status).toBe('deleting');
  await world.until('it shows the server', async () => {
    const { data: now } = await world.must('GET', `/projects/${project}`);
    const ready = now.conditions.find(({ type }: { type: string }) => type === 'Ready');
    return ready?.message === `${waits}; 1 of the assignments are on servers that are away: one`;
  });
  expect(machine.engine.containers).toHaveLength(1);
  world.startAgent(machine);
  await world.until('it is gone', async () => (await world.call('GET', `/projects/${project}`)).status === 404);
  expect(machine.engine.containers).toHaveLength(0);
  expect(world.faults).toEqual([]);
});
