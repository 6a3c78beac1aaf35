import { afterAll, beforeAll, expect, it } from 'vitest';
import { createClient, dataOf, Refused, watch } from '../../client/client.ts';
import type { Access } from '../../client/client.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

let world: ApiWorld;
let access: Access;

beforeAll(async () => {
  world = await startApi();
  const { token = '' } = await world.owner();
  access = { server: `${world.url}/`, tenant: 'default', token };
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

it('makes, reads and lists an object by the types of the document, and watches its changes', async () => {
  const client = createClient(access);
  const enough = new AbortController();
  const frames = watch(access, { kinds: ['project'], signal: enough.signal });
  expect((await frames.next()).value).toMatchObject({ type: 'ready' });
  const made = dataOf(await client.POST('/api/v1/projects', { body: { name: 'typed' } }));
  const params = { path: { id: made.id } };
  expect(dataOf(await client.GET('/api/v1/projects/{id}', { params }))).toMatchObject({ id: made.id, name: 'typed' });
  const { data: listed } = await client.GET('/api/v1/projects', { params: { query: { q: 'typed', limit: 5 } } });
  expect(listed?.data.map(({ id }) => id)).toEqual([made.id]);
  expect(listed?.meta.total).toBe(1);
  expect((await frames.next()).value).toMatchObject({ type: 'change', op: 'put', kind: 'project', id: made.id });
  enough.abort();
  expect((await frames.next()).done).toBe(true);
});

it('says why the server has refused a request', async () => {
  const client = createClient(access);
  const params = { path: { id: '3f2b0000-0000-4000-8000-000000000000' } };
  const asked = await client.GET('/api/v1/projects/{id}', { params });
  expect(() => dataOf(asked)).toThrow(Refused);
  expect(() => dataOf(asked)).toThrow('not found');
  const other = watch({ ...access, token: 'wrong' }, { kinds: ['project'], signal: new AbortController().signal });
  await expect(other.next()).rejects.toMatchObject({ status: 401, error: { code: 'UNAUTHORIZED' } });
});
