import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openNameSocket } from '../../../agent/ingress/name-socket.ts';

let folder: string;
let path: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-name-socket-'));
  path = join(folder, 'names.sock');
});
afterEach(() => rm(folder, { recursive: true }));

/** A question for the instances of `a.host.setpoint`. */
const question = Buffer.concat([
  Buffer.from([0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
  ...['a', 'host', 'setpoint', ''].map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
  Buffer.from([0, 33, 0, 1]),
]);

/** All that comes back until the agent ends the connection. */
async function asked(query: Buffer): Promise<Buffer> {
  const socket = connect(path);
  const parts: Buffer[] = [];
  socket.on('data', (part: Buffer) => parts.push(part));
  socket.write(query);
  await once(socket, 'close');
  return Buffer.concat(parts);
}

const backends = (name: string) => (name === 'a.host.setpoint' ? [{ address: '172.18.0.3', port: 8080 }] : undefined);

it('answers one question of each connection, also where a killed agent left its socket', async () => {
  await writeFile(path, '');
  await using _socket = await openNameSocket(path, backends);
  for (let round = 0; round < 3; round++) {
    const answer = await asked(question);
    expect(answer.readUInt16BE(0)).toBe(0x1234);
    expect(answer.readUInt16BE(6)).toBe(1);
    expect(answer.toString('latin1')).toContain('i-172-18-0-3');
  }
});

it('ends what is no question, and goes on', async () => {
  await using _socket = await openNameSocket(path, backends);
  for (const junk of ['x', '\0'.repeat(12)]) expect(await asked(Buffer.from(junk, 'latin1'))).toHaveLength(0);
  expect((await asked(question)).length).toBeGreaterThan(0);
});

it('is closed with its connections', async () => {
  const socket = await openNameSocket(path, backends);
  const open = connect(path);
  await once(open, 'connect');
  const ended = once(open, 'close');
  await socket[Symbol.asyncDispose]();
  await ended;
  await expect(asked(question)).rejects.toThrow(/ENOENT|ECONNREFUSED/);
});
