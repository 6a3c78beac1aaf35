import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createClient } from '../../cli/client.ts';
import { ports } from '../../cli/verbs/ports.ts';
import { sync } from '../../cli/verbs/sync.ts';
import { Answering } from '../harness/answering.ts';

const { signal } = new AbortController();
beforeEach(() => void vi.spyOn(console, 'log').mockImplementation(() => undefined));
afterEach(() => vi.restoreAllMocks());

/** A control plane whose object is changed by another request right after it was read for the first time. */
async function changing(path: string, before: object, after: object): Promise<Answering> {
  const [old, now] = [
    { ...before, resource_version: '1' },
    { ...after, resource_version: '2' },
  ];
  const mismatch = {
    code: 'CONFLICT',
    message: 'The object is not at the version of If-Match: it is at 2',
    details: [{ field: 'If-Match', reason: 'mismatch', message: 'Current version is 2' }],
  };
  const refuse = (response: ServerResponse): void => {
    response.writeHead(409, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ success: false, error: mismatch }));
  };
  return Answering.start({
    [`GET ${path}`]: () => [old],
    [`GET ${path}/x`]: () => now,
    [`PUT ${path}/x`]: ({ headers }, response) => {
      const version = headers['if-match'];
      return version === undefined || version === '2' ? now : refuse(response);
    },
    'GET /api/v1/projects': () => [{ id: 'p', name: 'shop' }],
  });
}

const ofSync = {
  id: 'x',
  name: 'shop',
  status: 'in_sync',
  commit_wanted: null,
  commit_applied: null,
  message: null,
  differs: [],
  needs_force: [],
  generation: 1,
  secret_names: ['KEY'],
};

it('a variable of a sync is set beside one that another request has set meanwhile', async () => {
  const variables = { WEB_TAG: '1', API_TAG: '6' };
  const others = { WEB_TAG: '1', API_TAG: '7' };
  await using plane = await changing('/api/v1/syncs', { ...ofSync, variables }, { ...ofSync, variables: others });
  const client = createClient({ server: plane.url, tenant: 'default' });
  await sync(client, 'set', 'shop', { set: { WEB_TAG: '2' }, wait: false }, signal);
  expect(plane.requests.at(-1)?.body).toEqual({ variables: { WEB_TAG: '2', API_TAG: '7' } });
  await sync(client, 'set', 'shop', { branch: 'next', wait: false }, signal);
  expect(plane.requests.at(-1)?.body).toEqual({ branch: 'next' });
});

it('a port is bound beside what another request has reserved meanwhile', async () => {
  const server = (reserved: number[]): object => ({
    id: 'x',
    name: 'one',
    direct_ports_enabled: true,
    direct_ports: { from: 1024, to: 65535, reserved, bindings: [] },
  });
  await using plane = await changing('/api/v1/servers', server([8500]), server([8500, 9000]));
  const client = createClient({ server: plane.url, tenant: 'default' });
  await ports(client, 'one', { bind: [{ port: 80, project: 'shop' }] });
  const put = plane.requests.findLast(({ method }) => method === 'PUT');
  expect(put?.body).toEqual({
    direct_ports: { reserved: [8500, 9000], bindings: [{ port: 80, project_id: 'p' }] },
  });
});

it.each([
  ['set', { drift: 'correct', prune: true }, '--drift is not an option of sync set: it has --branch, --tag-pattern, '],
  ['set', { prune: false }, '--no-prune is not an option of sync set: '],
  ['pause', { force: ['volumes.files'], prune: true }, '--force is not an option of sync pause: it has none'],
])('an option that sync %s would leave out of account is refused: %j', async (action, options, message) => {
  const client = createClient({ server: 'http://127.0.0.1:1', tenant: 'default' });
  await expect(sync(client, action, 'shop', options, signal)).rejects.toThrow(message);
});
