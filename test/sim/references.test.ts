import { expect, test } from 'vitest';
import { World } from '../harness/world.ts';

/** A control plane with a server and an application `api` that listens on port 8080. */
async function town() {
  const world = await World.create(11);
  world.startPlane();
  const machine = await world.addServer('one');
  machine.engine.addImage('web:1');
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const create = async (name: string, fields: object = {}) => {
    const body = { project_id: project.id, server_id: machine.server, name, source_type: 'image', image_url: 'web:1' };
    return (await world.must('POST', '/applications', { ...body, ...fields })).data;
  };
  const api = await create('My api', { exposed_port: 8080 });
  return { world, machine, project, create, api, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const url = '${applications."My api".url}';

test('a process gets what its variables refer to, and the API shows them as they were written', async () => {
  await using it = await town();
  const env = { API: `${url}/v1`, HOST: '${applications."my API".host}', PLAIN: '${HOME} $${applications.x}' };
  const web = await it.create('web', { env });
  await it.world.must('POST', `/applications/${web.id}/deploy?wait=120`);
  expect(it.machine.engine.containers.map((one) => one.mutable.env)).toMatchObject([
    { API: `http://${it.api.internal_id}:8080/v1`, HOST: it.api.internal_id, PLAIN: '${HOME} ${applications.x}' },
  ]);
  expect((await it.world.must('GET', `/applications/${web.id}/env`)).data.env).toEqual(env);
  const uses = (await it.world.must('GET', `/applications/${web.id}/dependencies`)).data;
  expect(uses).toMatchObject({ applications: [{ id: it.api.id, name: 'My api' }], referenced_by: [] });
  const used = (await it.world.must('GET', `/applications/${it.api.id}/dependencies`)).data;
  expect(used).toMatchObject({ applications: [], referenced_by: [{ id: web.id, name: 'web' }] });
});

test('a rollback resolves its references anew, as the other application may have moved since', async () => {
  await using it = await town();
  const web = await it.create('web', { env: { API: url } });
  const path = `/applications/${web.id}`;
  await it.world.must('POST', `${path}/deploy?wait=120`);
  await it.world.must('PUT', `${path}/env?wait=120`, { API: 'none' });
  await it.world.until('the second deployment serves', async () => {
    const { data } = await it.world.must('GET', path);
    return data.status === 'running' && data.current_deployment_id === data.deployment_id;
  });
  await it.world.must('PUT', `/applications/${it.api.id}`, { exposed_port: 9090 });
  await it.world.must('POST', `${path}/rollback?wait=120`);
  const running = it.machine.engine.containers.filter((one) => one.summary().state === 'running');
  expect(running.map((one) => one.mutable.env)).toMatchObject([{ API: `http://${it.api.internal_id}:9090` }]);
});

test('a deployment whose reference stands for nothing any more fails and names it', async () => {
  await using it = await town();
  const web = await it.create('web', { env: { API: url } });
  await it.world.must('PUT', `/applications/${it.api.id}`, { name: 'backend' });
  const { data } = await it.world.must('POST', `/applications/${web.id}/deploy?wait=120`);
  expect(data).toMatchObject({ status: 'failed', error: { code: 'reference_unresolved' } });
  expect(data.error.message).toBe(
    'Cannot resolve ${applications."My api".url} as its environment has no application named My api: create it, or ' +
      'change the variable. Then deploy again',
  );
  expect(it.machine.engine.containers).toEqual([]);
});

test('a deployment waits for the certificate of a database that was just made', async () => {
  await using it = await town();
  it.machine.engine.addImage('postgres:17');
  const body = { project_id: it.project.id, server_id: it.machine.server, name: 'orders', type: 'postgres' };
  const { data: database } = await it.world.must('POST', '/databases', body);
  const web = await it.create('web', { env: { CA: '${databases.orders.ca}' } });
  await it.world.must('POST', `/applications/${web.id}/deploy?wait=120`);
  const { data: shown } = await it.world.must('GET', `/databases/${database.id}/credentials`);
  expect(shown.ca).toContain('BEGIN CERTIFICATE');
  const all = it.machine.engine.containers.map((one) => one.mutable.env['CA']);
  expect(all).toContain(shown.ca);
});

test('a clone of the environment refers to its own applications', async () => {
  await using it = await town();
  await it.create('web', { env: { API: url } });
  const environments = `/projects/${it.project.id}/environments`;
  const { data: copy } = await it.world.must('POST', `${environments}/${it.api.environment_id}/clone?wait=120`, {
    name: 'copy',
  });
  const { data: apps } = await it.world.must('GET', `/applications?environmentId=${copy.id}`);
  const named = (name: string) => apps.find((one: { name: string }) => one.name === name);
  await it.world.must('POST', `/applications/${named('web').id}/deploy?wait=120`);
  expect(it.machine.engine.containers.map((one) => one.mutable.env)).toMatchObject([
    { API: `http://${named('My api').internal_id}:8080` },
  ]);
});
