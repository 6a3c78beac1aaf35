import { expect, test } from 'vitest';
import { keys } from '../../store/keys.ts';
import { tenant, World } from '../harness/world.ts';

/** A control plane, a server whose agent never joined, and an application that was deployed there. */
async function waiting(more: object = {}) {
  const world = await World.create(11);
  world.startPlane();
  const { data: server } = await world.must('POST', '/servers', { name: 'empty' });
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: server.id,
    name: 'web',
    source_type: 'image',
    image_url: 'web:1',
    ...more,
  });
  const path = `/applications/${app.id}`;
  const { data: deployment } = await world.must('POST', `${path}/deploy`);
  await world.until('the deployment waits for its server', async () => {
    const it = await world.repo.get('deployment', deployment.id);
    return it?.observed !== undefined;
  });
  await world.rest();
  return { world, path, deployment, server, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const git = {
  source_type: 'git',
  image_url: undefined,
  repository_url: 'https://git.example.test/web.git',
  branch: 'main',
  dockerfile_path: 'Dockerfile',
};

test.each([
  ['stop', undefined],
  ['scale', { replicas: 0 }],
])('an application that no agent ever received is stopped after %s', async (verb, body) => {
  await using it = await waiting();
  const { data } = await it.world.must('POST', `${it.path}/${verb}?wait=60`, body);
  expect(data).toMatchObject({ status: 'stopped', ready_replicas: 0, current_deployment_id: null });
  expect((await it.world.must('GET', '/applications?status=running')).data).toEqual([]);
  expect((await it.world.must('GET', `${it.path}/instances`)).data).toEqual([]);
  expect((await it.world.must('GET', `/deployments/${it.deployment.id}`)).data.status).toBe('cancelled');
  await it.world.rest();
  const { entries } = await it.world.store.list({ prefix: keys.desired(tenant, 'assignment', '') });
  expect(entries).toEqual([]);
});

test.each([
  ['of an image', {}],
  ['of a repository', git],
])('an application %s that no agent ever received is gone after its deletion', async (_, source) => {
  await using it = await waiting(source);
  await it.world.must('DELETE', `${it.path}?wait=60`);
  expect((await it.world.call('GET', it.path)).status).toBe(404);
});
