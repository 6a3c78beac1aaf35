import { afterAll, beforeAll, expect, it } from 'vitest';
import { createPasswords } from '../../api/auth/passwords.ts';
import { routeName } from '../../api/endpoint/endpoint.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { permissions } from '../../api/rights/permissions.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import { exampleOf, examples } from './examples.ts';

/**
 * The answer to a write is built from the transaction, a read from the mirror. Both must show the same object, also
 * where the mirror comes after the store.
 */
let world: ApiWorld;
let passwordHash: string;
const unlimited = { perMinute: 0, burst: 1 };

beforeAll(async () => {
  passwordHash = await createPasswords().hash(password);
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited } });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** The routes that read one object by its id, by the schema of their answer. */
const readers = new Map<unknown, AnyEndpoint>();
for (const one of endpoints)
  if (!one.list && one.method === 'GET' && !one.path.endsWith(':token') && examples[routeName(one)] !== undefined)
    readers.set(one.response, one);

const writes = endpoints.flatMap((one): [name: string, write: AnyEndpoint, reader: AnyEndpoint][] => {
  const reader = one.list || one.method === 'GET' ? undefined : readers.get(one.response);
  return reader === undefined ? [] : [[routeName(one), one, reader]];
});

it.each(writes)('%s answers with what a read shows after it', async (name, endpoint, reader) => {
  const column = permissions.get(name)?.grants.owner === '-' ? 'superadmin' : 'owner';
  const { before, path, body, withPassword } = exampleOf(endpoint);
  const stage = await setStage(world, column, withPassword === undefined ? {} : { passwordHash });
  await before?.(stage);
  const request = { method: endpoint.method, path: path(stage), body: body?.(stage) };
  const written = await ask(world, request, stage.actor.by.token);
  expect(written.status).toBeLessThan(300);
  const found = exampleOf(reader).path(stage);
  // A write may create the object, or answer with another one than its path names.
  const place = /\/:\w+$/.test(reader.path) ? found.replace(/[^/]*$/, written.data.id) : found;
  const read = await ask(world, { method: 'GET', path: place }, stage.actor.by.token);
  expect(read.data).toEqual(written.data);
});
