import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { routeName } from '../../api/endpoint/endpoint.ts';
import type { AnyEndpoint } from '../../api/endpoint/endpoint.ts';
import { endpoints } from '../../api/routes/endpoints.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { ask, setStage } from '../harness/stage.ts';
import type { Stage } from '../harness/stage.ts';
import { examples } from './examples.ts';

let world: ApiWorld;
let stage: Stage;

beforeAll(async () => {
  world = await startApi({
    config: { rateLimit: { perMinute: 0, burst: 1 }, heavyRateLimit: { perMinute: 0, burst: 1 } },
  });
  stage = await setStage(world, 'superadmin');
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** Words of the library that parses, none of which is ours. */
const foreign = /Invalid|expected|received|Unrecognized|Too (big|small)|NaN|undefined|discriminator/;
/** A fault in a text has its place in front. */
const voices = /^(\S+|The (body|query)) (must|is|has) |^Unknown field |^(line \d+, column \d+: )?[A-Z]/;
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

const withBody = endpoints.filter(
  (one): one is Exclude<AnyEndpoint, { list: true }> =>
    !one.list && one.method !== 'GET' && one.upload === undefined && examples[routeName(one)]?.body !== undefined,
);
const send = (method: string, path: string, body?: unknown) => ask(world, { method, path, body }, stage.actor.by.token);

const wrongValues = [undefined, null, 17, -1, 1.5, 'a\u0000b', 'x'.repeat(5000), true, [], {}, [null], { a: {} }];

describe.each(withBody.map((one) => [routeName(one), one] as const))('%s', (name, endpoint) => {
  it('says in its own words what is wrong with each field', async () => {
    const example = examples[name]!;
    await example.before?.(stage);
    const right = example.body!(stage) as Record<string, unknown>;
    const bodies: unknown[] = [null, 17, 'text', [], { nonsense: 1 }, { 'a\u0000b': 1 }];
    for (const field of Object.keys(right)) for (const wrong of wrongValues) bodies.push({ ...right, [field]: wrong });
    let refused = 0;
    for (const body of bodies) {
      const answer = await send(endpoint.method, example.path(stage), body);
      if (answer.status !== 400) continue;
      refused += 1;
      const { message, details = [] } = answer.body.error!;
      for (const text of [message, ...details.map((one) => String((one as { message?: string }).message))]) {
        expect(text, JSON.stringify(body).slice(0, 200)).not.toMatch(foreign);
        expect(text).toMatch(voices);
        expect(text).not.toMatch(hidden);
      }
    }
    expect(refused).toBeGreaterThanOrEqual(5);
  });
});

describe('a message names the field and its rule', () => {
  it.each([
    ['POST', '/projects', {}, 'name', 'name is required'],
    ['POST', '/projects', { name: null }, 'name', 'name must not be null'],
    ['POST', '/projects', { name: 7 }, 'name', 'name must be text of 1 to 100 characters'],
    ['POST', '/projects', { name: 'x'.repeat(101) }, 'name', 'name must be text of 1 to 100 characters'],
    ['POST', '/projects', { name: ' x' }, 'name', 'name must be printable, without leading or trailing space'],
    ['POST', '/projects', { name: 'x', color: 'red' }, 'color', 'color must be a colour such as #1f6feb'],
    [
      'POST',
      '/projects',
      { name: 'x', single_server_mode: 1 },
      'single_server_mode',
      'single_server_mode must be true or false',
    ],
    [
      'POST',
      '/projects',
      { name: 'x', default_server_id: 'x' },
      'default_server_id',
      'default_server_id must be a UUID',
    ],
    ['POST', '/projects', { name: 'x', owner: 1 }, 'owner', 'Unknown field owner'],
    ['POST', '/projects', 'null', '', 'The body must be an object'],
    ['GET', '/projects?limit=501', undefined, 'limit', 'limit must be a number from 1 to 500'],
    ['GET', '/projects?limit=x', undefined, 'limit', 'limit must be a number from 1 to 500'],
    ['GET', '/projects?limit=1.5', undefined, 'limit', 'limit must be a whole number from 1 to 500'],
    [
      'GET',
      '/projects?status=x',
      undefined,
      'status.0',
      'status.0 must be one or several of active, deleting, separated by commas',
    ],
    [
      'GET',
      '/projects?sort=x',
      undefined,
      'sort',
      'sort must be one of created_at, -created_at, updated_at, -updated_at, name, -name',
    ],
    ['POST', '/applications/:app/scale', { replicas: 101 }, 'replicas', 'replicas must be a number from 0 to 100'],
    [
      'POST',
      '/applications/:app/scale',
      { replicas: 1.5 },
      'replicas',
      'replicas must be a whole number from 0 to 100',
    ],
    [
      'PUT',
      '/applications/:app',
      { env: { 'spring.a b': 'x' } },
      'env["spring.a b"]',
      'env["spring.a b"] must be a name of 1 to 256 printable characters, without = and white space',
    ],
    [
      'PUT',
      '/applications/:app',
      { env: { 'spring.datasource.url': 'x\0' } },
      'env["spring.datasource.url"]',
      'env["spring.datasource.url"] must be text without NUL',
    ],
    [
      'PUT',
      '/applications/:app',
      { build_args: { [`${'x'.repeat(257)}`]: 'x' } },
      `build_args.${'x'.repeat(257)}`,
      `build_args.${'x'.repeat(257)} must be a name of 1 to 256 printable characters, without = and white space`,
    ],
    [
      'PUT',
      '/applications/:app',
      { build_args: { 'my.arg': 7 } },
      'build_args["my.arg"]',
      'build_args["my.arg"] must be text',
    ],
    ['PUT', '/applications/:app', { 'env.A': 'x' }, '["env.A"]', 'Unknown field ["env.A"]'],
    ['PUT', '/applications/:app', { cpu_limit: 'x' }, 'cpu_limit', 'cpu_limit must be a number of CPUs such as 0.5'],
    [
      'POST',
      '/settings/service-keys',
      { name: 'x', expires_at: 'x' },
      'expires_at',
      'expires_at must be a time such as 2030-01-31T12:00:00Z',
    ],
    [
      'POST',
      '/settings/service-keys',
      { name: 'x', scopes: ['x'] },
      'scopes.0',
      'scopes.0 must be one of read, deploy, write, admin',
    ],
  ])('%s %s %j', async (method, path, body, field, message) => {
    const answer = await send(method, path.replace(':app', stage.application), body);
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details).toEqual([expect.objectContaining({ field, message })]);
    expect(answer.body.error?.message).toBe(message);
  });

  it('and never repeats control characters of what was sent', async () => {
    for (const path of [
      '/projects?sort=a%00b',
      '/projects?a%1bb=1',
      '/projects?labelSelector=%1b]0;x%07',
      `/applications/${stage.application}/runtime-logs?since=%1b[2J`,
      `/applications/${stage.application}/runtime-logs?cursor=%E2%80%AE`,
    ]) {
      const answer = await send('GET', path);
      expect(answer.status, path).toBe(400);
      const { message, details = [] } = answer.body.error!;
      for (const text of [message, ...details.flatMap((one) => Object.values(one))])
        expect(text, path).not.toMatch(hidden);
    }
  });
});
