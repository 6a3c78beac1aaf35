import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';

/** A hundred requests at once for what only one can have. */
let world: ApiWorld;
let stage: Stage;

beforeAll(async () => {
  world = await startApi();
  stage = await setStage(world, 'superadmin');
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const forms: Record<string, (it: Stage) => { path: string; body: object }> = {
  project: () => ({ path: '/projects', body: { name: 'Shop' } }),
  server: () => ({ path: '/servers', body: { name: 'one' } }),
  environment: ({ project }) => ({ path: `/projects/${project}/environments`, body: { name: 'preview' } }),
  application: ({ project, environment, server }) => ({
    path: '/applications',
    body: {
      project_id: project,
      environment_id: environment,
      server_id: server,
      name: 'api',
      source_type: 'image',
      image_url: 'example/api:1',
    },
  }),
};

it.each(Object.entries(forms))('a name of a %s is given once', async (_, form) => {
  const { path, body } = form(stage);
  // the same name in the eyes of the store, written in many ways
  const nameOf = (n: number) => {
    const { name } = body as { name: string };
    return n % 3 === 0 ? name.toUpperCase() : n % 3 === 1 ? name : name.normalize('NFKD');
  };
  const before = (await ask(world, { method: 'GET', path: `${path}?limit=500` }, stage.actor.by.token)).data.length;
  const answers = await Promise.all(
    Array.from({ length: 100 }, (__, n) =>
      ask(world, { method: 'POST', path, body: { ...body, name: nameOf(n) } }, stage.actor.by.token),
    ),
  );
  const refused = answers.filter(({ status }) => status !== 201);
  expect(refused).toHaveLength(99);
  for (const { status, body: why } of refused)
    expect([status, why.error?.details?.map(({ field }) => field)]).toEqual([409, ['name']]);
  const after = await ask(world, { method: 'GET', path: `${path}?limit=500` }, stage.actor.by.token);
  expect(after.data).toHaveLength(before + 1);
});

it('a host is given to one of two projects', async () => {
  const { token } = stage.actor.by;
  const send = (method: 'POST' | 'PUT', path: string, body: object) => ask(world, { method, path, body }, token);
  const { project, environment, server } = stage;
  const other = (await send('POST', '/projects', { name: 'Other' })).data.id;
  const others = (await send('POST', `/projects/${other}/environments`, { name: 'live' })).data.id;
  const made = async (project_id: string, environment_id: string): Promise<string> => {
    const place = { project_id, environment_id, server_id: server, name: 'host' };
    return (await send('POST', '/applications', { ...place, source_type: 'image', image_url: 'example/api:1' })).data
      .id;
  };
  const [mine, theirs] = [await made(project, environment), await made(other, others)];
  for (let n = 0; n < 20; n++) {
    const host = `raced-${n}.example.test`;
    const answers = await Promise.all([
      send('PUT', `/applications/${mine}`, { domains: [{ host }] }),
      send('PUT', `/applications/${theirs}`, { domains: [{ host, path: '/assets' }] }),
    ]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
  }
});
