import { afterAll, beforeAll, expect, it } from 'vitest';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from '../../cli/client.ts';
import { listObjects } from '../../cli/objects.ts';

const of = (id: string) => ({ id, created_at: '2026-01-01T00:00:00.000Z' });

/** One of two places was deleted after the list of places was read. */
const answers: Readonly<Record<string, unknown>> = {
  '/api/v1/projects': [of('here'), of('gone')],
  '/api/v1/projects/here/environments': [of('production')],
  '/api/v1/applications': [of('here'), of('gone')],
  '/api/v1/applications/here/deployments': [of('first')],
};
const server = createServer((request, response) => {
  const data = answers[new URL(request.url ?? '', 'http://localhost').pathname.replace('/default', '')];
  const error = { code: 'NOT_FOUND', message: 'Not found' };
  response.writeHead(data === undefined ? 404 : 200, { 'content-type': 'application/json' });
  const meta = { next_cursor: null };
  response.end(JSON.stringify(data === undefined ? { success: false, error } : { success: true, data, meta }));
});

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(() => void server.close());

it.each([
  ['environments', 'production'],
  ['deployments', 'first'],
] as const)('%s are listed without those of a place that was deleted meanwhile', async (kind, only) => {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const client = createClient({ server: `http://127.0.0.1:${port}`, tenant: 'default' });
  expect((await listObjects(client, kind)).map(({ id }) => id)).toEqual([only]);
});
