import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { createClient } from '../../cli/client.ts';
import { resumed } from '../../cli/resume.ts';
import { untilEnded } from '../../cli/until-ended.ts';
import { Answering } from '../harness/answering.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { longTag } from '../layer-report.ts';

const servers: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

const tooMany = {
  status: 429,
  error: { code: 'TOO_MANY_REQUESTS', message: 'Too many requests', details: [] as object[] },
};
const unavailable = (reason: string) => ({
  status: 503,
  error: { code: 'SERVICE_UNAVAILABLE', message: 'The store does not answer', details: [{ reason, message: reason }] },
});

/** A server that refuses so many requests before it answers; counts what comes. */
async function busy(refusals: number, retryAfter: string, { status, error } = tooMany) {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests += 1;
    const refused = requests <= refusals;
    response.writeHead(refused ? status : 200, { 'content-type': 'application/json', 'retry-after': retryAfter });
    response.end(JSON.stringify(refused ? { success: false, error } : { success: true, data: { done: true } }));
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  return { client: createClient({ server: `http://127.0.0.1:${port}`, tenant: 'default' }), count: () => requests };
}

it('a request for which there is no room is sent again when there is', async () => {
  const { client, count } = await busy(2, '1');
  expect(await client.request('POST', '/api/v1/projects', {})).toEqual({ done: true });
  expect(count()).toBe(3);
});

it(
  'a request that wrote nothing as the store did not answer is sent again, for a while',
  { tags: [longTag] },
  async () => {
    const shortly = await busy(2, '1', unavailable('not_written'));
    expect(await shortly.client.request('POST', '/api/v1/projects', {})).toEqual({ done: true });
    expect(shortly.count()).toBe(3);
    const long = await busy(3, '6', unavailable('not_written'));
    await expect(long.client.request('POST', '/api/v1/projects', {})).rejects.toThrow('The store does not answer');
    expect(long.count()).toBe(2);
  },
);

it('a request that cannot succeed soon, as an agent is away, is not sent again', async () => {
  const error = { code: 'SERVICE_UNAVAILABLE', message: 'The agent is not connected' };
  const details = ['not_written', 'agent_away'].map((reason) => ({ reason, message: reason }));
  const { client, count } = await busy(1, '1', { status: 503, error: { ...error, details } });
  await expect(client.request('POST', '/api/v1/servers/one/ping', {})).rejects.toThrow('The agent is not connected');
  expect(count()).toBe(1);
});

it('a request that waits says what for, once', async () => {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const { client } = await busy(2, '3');
  await client.request('POST', '/api/v1/auth/send-code', {});
  expect(printed.mock.calls).toEqual([['… Too many requests: tries again in 3 s']]);
  printed.mockRestore();
});

it.each(['outcome_unknown', 'partly_written'])(
  'a request that may have written is not sent again: %s',
  async (reason) => {
    const { client, count } = await busy(1, '1', unavailable(reason));
    await expect(client.request('POST', '/api/v1/projects', {})).rejects.toThrow('The store does not answer');
    expect(count()).toBe(1);
  },
);

it('a wait that is too long is left to the user, who hears how long it is', async () => {
  const { client, count } = await busy(1, '900');
  await expect(client.request('POST', '/api/v1/auth/login', {})).rejects.toThrow(
    'Too many requests: try again in 900 s',
  );
  expect(count()).toBe(1);
});

it('a user who interrupts does not wait', async () => {
  const stop = new AbortController();
  const { client, count } = await busy(1, '30');
  const impatient = createClient(client.connection, stop.signal);
  const asking = impatient.request('GET', '/api/v1/projects');
  await expect.poll(count).toBe(1);
  stop.abort(new Error('Stopped'));
  await expect(asking).rejects.toThrow('Stopped');
});

it('an answer that is cut off is a lost connection, after which the user has to look what was done', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"success":true,', () => response.destroy());
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const client = createClient({ server: `http://127.0.0.1:${port}`, tenant: 'default' });
  await expect(client.request('POST', '/api/v1/projects', {})).rejects.toThrow(
    /^Lost the connection to http:\/\/127\.0\.0\.1:\d+ before all of its answer came: .+\. The request may have been carried out/,
  );
});

it.each([
  [413, /answered 413, .*: a proxy before it refuses a body of this size/],
  [502, /answered 502, .*: a proxy before it got no answer\. The request may have been carried out/],
  [504, /answered 504, .*: a proxy before it got no answer\. The request may have been carried out/],
  [404, /answered 404, but not as a Setpoint control plane does$/],
])('an answer %i of a proxy says what it means', async (status, message) => {
  const server = createServer((_request, response) => void response.writeHead(status).end('<html></html>'));
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const client = createClient({ server: `http://127.0.0.1:${port}`, tenant: 'default' });
  await expect(client.request('POST', '/api/v1/projects', {})).rejects.toThrow(message);
});

it('a change whose connection is lost before an answer may have been carried out, and a read has done nothing', async () => {
  await using plane = await Answering.start({
    'POST /api/v1/projects': (_, response) => response.destroy(),
    'GET /api/v1/projects': (_, response) => response.destroy(),
    'POST /api/v1/databases/import': (_, response) => response.destroy(),
  });
  const client = createClient({ server: plane.url, tenant: 'default' });
  const lost = /^Lost the connection to \S+ before all of its answer came: .+\. The request may have been carried out/;
  await expect(client.request('POST', '/api/v1/projects', {})).rejects.toThrow(lost);
  await expect(client.upload('/api/v1/databases/import', import.meta.filename)).rejects.toThrow(lost);
  await expect(client.request('GET', '/api/v1/projects')).rejects.toThrow(/^Cannot reach \S+: other side closed\./);
});

it('what is waited for until it has ended is read again after an answer that did not come', async () => {
  using printed = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  let reads = 0;
  await using plane = await Answering.start({
    'GET /api/v1/backups/b': (_, response) => {
      reads += 1;
      return reads === 1 ? response.destroy() : { id: 'b', status: 'completed' };
    },
  });
  const client = createClient({ server: plane.url, tenant: 'default' });
  expect(await untilEnded(client, 'backups', { id: 'b', status: 'running' })).toMatchObject({ status: 'completed' });
  expect(printed.mock.calls).toEqual([[expect.stringMatching(/^… Cannot reach .*: tries again$/)]]);
});

it('an answer that redirects is refused with the address, which gets neither the change nor the key', async () => {
  await using other = await Answering.start({});
  await using plane = await Answering.start({
    'POST /api/v1/databases': (_, response) =>
      response.writeHead(301, { location: `${other.url}/default/api/v1/databases` }).end(),
    'POST /api/v1/databases/import': (_, response) =>
      response.writeHead(308, { location: `${other.url}/default/api/v1/databases/import` }).end(),
  });
  const client = createClient({ server: plane.url, tenant: 'default', token: 'sp_key' });
  const redirects = `${plane.url} redirects to ${other.url}, and nothing was done: use that address in --server or SETPOINT_URL, or log in there`;
  await expect(client.request('POST', '/api/v1/databases', { name: 'orders' })).rejects.toThrow(redirects);
  await expect(client.upload('/api/v1/databases/import', import.meta.filename)).rejects.toThrow(redirects);
  expect(plane.requests).toHaveLength(2);
  expect(other.requests).toEqual([]);
});

it('a stream that falls silent, as its connection is dead, is opened again after its last cursor', async () => {
  using told = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const server = createServer();
  servers.push(server);
  const asked: string[] = [];
  new WebSocketServer({ server }).on('connection', (socket, { url }) => {
    asked.push(url ?? '');
    socket.send(JSON.stringify({ type: 'ready', cursor: 'a-1' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const clock = new FakeClock();
  const client = createClient({ server: `http://127.0.0.1:${port}`, tenant: 'default' }, undefined, clock);
  const stop = new AbortController();
  let frames = 0;
  const reading = (async () => {
    for await (const _ of resumed(client, '/ws/watch', {}, {}, stop.signal)) frames += 1;
  })();
  await expect.poll(() => frames).toBe(1);
  await clock.advance(70_000);
  expect(asked).toHaveLength(1);
  await clock.advance(10_000);
  await expect.poll(() => frames, { timeout: 5000 }).toBe(2);
  expect(asked[1]).toBe('/default/ws/watch?cursor=a-1');
  expect(told).toHaveBeenCalledWith('… Nothing was heard for 75 s: connecting again');
  stop.abort();
  await reading;
});

it('a terminal or a tunnel that falls silent is closed, unless it is not read', async () => {
  await using plane = await Answering.start({}, (socket) => socket.on('error', () => undefined));
  const clock = new FakeClock();
  const client = createClient({ server: plane.url, tenant: 'default' }, undefined, clock);
  const socket = await client.socket('/ws/terminal/t', {});
  await clock.advance(100_000);
  socket.resume();
  await clock.advance(75_000);
  expect(socket.readyState).toBe(socket.OPEN);
  const closed = once(socket, 'close');
  await clock.advance(10_000);
  expect((await closed)[0]).toBe(1006);
});
