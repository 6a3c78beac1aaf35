import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineKind } from '../../store/kinds/define.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { resources } from '../../api/resources/resources.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

/** A kind that the product does not know: all that it says of its places is in its declaration. */
const crate = defineKind({
  kind: 'crate',
  version: 1,
  desired: z.object({ name: z.string(), server: z.string(), environment: z.string() }),
  observed: z.object({}),
  indexes: { on: (d) => d.server, in: (d) => d.environment },
  populates: { server: 'on', environment: 'in' },
  clone: { never: 'A test does not copy it' },
  keep: { untilDeleted: 'A test deletes it' },
});
Object.assign(kinds, { crate, data_crate: { ...crate, kind: 'data_crate' } });
Object.assign(resources, { crate: { never: 'A test' }, data_crate: { never: 'A test' } });

// what knows all kinds learns of them when it is imported
const { startApi } = await import('../harness/api.ts');

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;

async function put(
  kind: 'crate' | 'data_crate',
  desired: Omit<z.input<typeof crate.desired>, 'name'>,
): Promise<string> {
  const id = `00000000-0000-4000-8000-${String((count += 1)).padStart(12, '0')}`;
  const unit = world.repo.begin();
  unit.create(kind as KindName, id, { ...desired, name: `${kind}-${count}` } as never); // no kind of the product
  expect(await unit.commit()).toMatchObject({ committed: true });
  return id;
}

/** A project with an environment that is not its default, and a server. */
async function place() {
  const { project, server } = await world.place(owner);
  const { data } = await owner.post(`/projects/${project}/environments`, { name: `stage-${(count += 1)}` });
  return { project, environment: data.id, server };
}

it('keeps a server on which an object of a new kind lies', async () => {
  const { project, environment, server } = await place();
  const names = { project_id: project, environment_id: environment, server_id: server };
  await owner.post('/applications', { ...names, name: 'web', source_type: 'image', image_url: 'ghcr.io/a/web:1' });
  await put('crate', { server, environment });
  await put('crate', { server, environment });
  await put('data_crate', { server, environment });
  const refused = await owner.delete(`/servers/${server}`);
  expect([refused.status, refused.body.error?.message]).toEqual([
    409,
    'The server has workloads (1 application, 2 crates, 1 data crate): delete them or send force=true',
  ]);
  expect((await owner.delete(`/servers/${server}?force=true`)).status).toBe(200);
});

it('keeps an environment that holds an object of a new kind', async () => {
  const { project, environment, server } = await place();
  await put('crate', { server, environment });
  const path = `/projects/${project}/environments/${environment}`;
  const refused = await owner.delete(path);
  expect([refused.status, refused.body.error?.message]).toEqual([
    409,
    'The environment has resources (1 crate): delete them or send force=true',
  ]);
  expect((await owner.delete(`${path}?force=true`)).status).toBe(200);
});

it('counts objects of a new kind in single-server mode', async () => {
  const { project, environment, server } = await place();
  const other = (await world.place(owner)).server;
  await put('crate', { server, environment });
  await put('crate', { server: other, environment });
  const refused = await owner.put(`/projects/${project}`, { single_server_mode: true, default_server_id: server });
  expect(refused.status).toBe(409);
  expect(refused.body.error?.details).toEqual([
    expect.objectContaining({ message: expect.stringMatching(`crate crate-.* is on server ${other}`) }),
  ]);
});
