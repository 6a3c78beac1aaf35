import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { CallError } from '../../agent-protocol/call-error.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { agentIsThere, instanceOf } from '../harness/running-instance.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';

/** A connection to a database through the agent: bytes as they are, for whom may have its credentials. */
let world: ApiWorld;
let clock: FakeClock;
let owner: Client & { id: string };
let place: { project: string; environment: string; server: string };
let database: string;
let instance: string;
let open: WebSocket[];
/** Tunnels that the agent has. */
let led: number;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
  await world.owner();
  owner = await world.user();
  place = await world.place(owner);
  database = crypto.randomUUID();
  const where = { project_id: place.project, environment_id: place.environment, server_id: place.server };
  const password = world.keyring.seal('sesame', {
    tenant: 'default',
    kind: 'database',
    id: database,
    path: 'password',
  });
  await world.create('database', database, desiredState('database', { ...where, password }));
  await world.observe('database', database, { phase: 'running' });
  instance = await instanceOf(world.repo, { ...place, application: database }, { kind: 'database' });
  await agentIsThere(world.store, place);
  await world.settled();
  open = [];
  led = 0;
  world.agents.tunnel = echo;
});
afterEach(async () => {
  for (const socket of open) socket.terminate();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** An engine that sends back what it gets, and ends after that. */
async function* echo(_: unknown, incoming: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  led++;
  const input = incoming[Symbol.asyncIterator]();
  const left = Promise.withResolvers<never>();
  left.promise.catch(() => undefined);
  signal.addEventListener('abort', () => left.reject(new CallError('stopped', 'The reader left')), { once: true });
  try {
    for (;;) {
      const next = await Promise.race([input.next(), left.promise]);
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    led--;
  }
}

interface Tunnel {
  socket: WebSocket;
  frames: unknown[];
  bytes(): Buffer;
  closed: Promise<{ code: number; reason: string }>;
}

function tunnel(by: Client = owner): Tunnel {
  const address = `${world.url.replace('http', 'ws')}/default/ws/databases/${database}/tunnel?token=${by.token ?? ''}`;
  const socket = new WebSocket(address);
  open.push(socket);
  const [frames, chunks]: [unknown[], Buffer[]] = [[], []];
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) chunks.push(data);
    else frames.push(JSON.parse(data.toString()));
  });
  socket.on('error', () => undefined);
  const closed = once(socket, 'close').then(([code, reason]) => ({ code: Number(code), reason: String(reason) }));
  return { socket, frames, bytes: () => Buffer.concat(chunks), closed };
}

async function ready(): Promise<Tunnel> {
  const it = tunnel();
  await until('it is ready', async () => it.frames.length === 1);
  expect(it.frames).toEqual([{ type: 'ready', cursor: expect.any(String), instance_id: instance }]);
  return it;
}

const audited = async (): Promise<unknown[]> =>
  (await owner.get(`/audit?projectId=${place.project}`)).data
    .filter((one: { terminal: unknown }) => one.terminal !== null)
    .map((one: { terminal: { event: string } }) => one.terminal.event);

describe('a tunnel to a database', () => {
  it('passes any bytes both ways, ends when the database does, and is in the audit log', async () => {
    const it = await ready();
    const bytes = Buffer.from(Array.from({ length: 60_000 }, (_, n) => (n * 7) % 256));
    for (let n = 0; n < 10; n++) it.socket.send(bytes);
    await until('all came back', async () => it.bytes().length === 10 * bytes.length);
    expect(it.bytes().subarray(-bytes.length).equals(bytes)).toBe(true);
    it.socket.send(JSON.stringify({ type: 'end' }));
    expect(await it.closed).toEqual({ code: 1000, reason: 'ended' });
    await until('it is recorded', async () => (await audited()).length === 2);
    expect(await audited()).toEqual(['closed', 'opened']);
  });

  it('ends at the agent when the client leaves', async () => {
    const it = await ready();
    expect(led).toBe(1);
    it.socket.terminate();
    await until('it is over there', async () => led === 0);
  });

  it('ends after 12 hours, and at what is no message of it', async () => {
    const [it, wrong] = [await ready(), await ready()];
    wrong.socket.send('{"type":"resize"}');
    expect((await wrong.closed).code).toBe(1007);
    await clock.advance(12 * 3_600_000);
    expect(await it.closed).toEqual({ code: 1000, reason: 'open for 12 hours' });
  });

  it('says why it is not: a database that is stopped, an agent of an earlier release, a failure there', async () => {
    world.agents.tunnel = () => {
      throw new CallError('not_reachable', 'The instance takes no connections at the moment');
    };
    const failed = tunnel();
    await failed.closed;
    expect(failed.frames).toContainEqual({
      type: 'error',
      code: 'not_reachable',
      message: 'The instance takes no connections at the moment',
    });
    await world.repo.change('database', database, (draft) => void (draft.run = 'stopped'));
    await world.repo.change('assignment', instance, (draft) => void (draft.run = 'stopped'));
    await world.settled();
    const stopped = tunnel();
    await stopped.closed;
    expect(stopped.frames[0]).toEqual({
      type: 'error',
      code: 'CONFLICT',
      message: 'The database is stopped: start it, then connect again',
    });
    await agentIsThere(world.store, place, { capabilities: ['streams.duplex'] });
    await world.settled();
    const old = tunnel();
    await old.closed;
    expect(old.frames[0]).toMatchObject({ message: expect.stringContaining('earlier release') });
  });
});
