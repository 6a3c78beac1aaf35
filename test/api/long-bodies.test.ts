import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

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

const chunk = Buffer.alloc(64 * 1024, 'x');

/** Sends a body to its end before it reads anything, as simple clients do. */
async function sendAll(path: string, bytes: number, headers: readonly string[] = []): Promise<string> {
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  socket.pause();
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  socket.on('error', failed.reject);
  const head = [`POST /default/api/v1${path} HTTP/1.1`, 'host: x', 'content-type: application/json', ...headers];
  socket.write(`${[...head, `content-length: ${bytes}`].join('\r\n')}\r\n\r\n`);
  for (let sent = 0; sent < bytes; sent += chunk.length)
    if (!socket.write(chunk.subarray(0, Math.min(chunk.length, bytes - sent))))
      await Promise.race([once(socket, 'drain'), failed.promise]);
  const parts: Buffer[] = [];
  socket.on('data', (part: Buffer) => parts.push(part)).resume();
  await Promise.race([once(socket, 'end'), failed.promise]);
  socket.destroy();
  return Buffer.concat(parts).toString();
}

const mine = () => [`authorization: Bearer ${owner.token}`];

it.each([
  ['a body that is too long', '/projects', () => mine(), 400],
  ['a body of somebody unknown', '/projects', () => [], 401],
  ['a body for what is not there', '/nowhere', () => mine(), 404],
])('the sender of %s reads the answer', async (_, path, headers, status) => {
  const answers = await Promise.all(Array.from({ length: 4 }, () => sendAll(path, 6 * 1024 * 1024, headers())));
  for (const answer of answers) {
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(answer).toContain('"success":false');
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
  }
});

it('a body without an end is not read for ever', async () => {
  await expect(sendAll('/projects', 256 * 1024 * 1024, mine())).rejects.toThrow(/ECONNRESET|EPIPE/);
});
