import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ServerLogQuery } from '../../agent-protocol/logs.ts';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { LogStore } from '../../agent/logs/log-store.ts';
import type { Entry } from '../../agent/logs/record.ts';
import { keys } from '../../store/keys.ts';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';

let world: ApiWorld;
let owner: Client;
let project: string;
let server: string;
let folder: string;
/** The log store of the agent: a real one. */
let store: LogStore;
let asked: ServerLogQuery[];
let isAway: boolean;
let opened: Frames[];
const gone = crypto.randomUUID();

beforeEach(async () => {
  world = await startApi({ config: { streamsPerUser: 0 } });
  owner = await world.owner();
  ({ project, server } = await world.place(owner));
  folder = await mkdtemp(join(tmpdir(), 'setpoint-logs-'));
  store = await LogStore.open({
    folder,
    maxBytes: 20_000,
    segmentBytes: 2_000,
    retentionDays: 7,
    clock: systemClock,
    log: pino({ level: 'silent' }),
  });
  [asked, opened, isAway] = [[], [], false];
  world.agents.answer = async (_, params) => {
    if (isAway) throw new CallError('away', 'The agent is away');
    if (params.method !== 'logs.server') throw new CallError('unsupported', params.method);
    asked.push(params.query);
    return store.readServer(params.query, AbortSignal.timeout(5000));
  };
  await agentIsThere();
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
  expect(world.faults).toEqual([]);
});

async function agentIsThere(capabilities: readonly string[] = agentCapabilities): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm', capabilities });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  isAway = false;
  await world.settled();
}

async function anApplication(name: string): Promise<string> {
  const source = { source_type: 'image', image_url: 'example/web' };
  const made = await owner.post('/applications', { project_id: project, server_id: server, name, ...source });
  return made.data.id;
}

async function write(workload: string, ...messages: (string | (Partial<Entry> & { message: string }))[]) {
  const usual = { at: Date.now(), stream: 'stdout', level: 'info', instance: 'i' } as const;
  const entries = messages.map((it) => ({ ...usual, ...(typeof it === 'string' ? { message: it } : it) }));
  await store.append(workload, entries, new AbortController().signal);
  await store.flushed(workload);
}

async function open(query = '', by: Client = owner): Promise<Frames> {
  const base = `${world.url.replace('http', 'ws')}/default/ws/servers/${server}/logs`;
  const frames = await openFrames(`${base}?token=${by.token ?? ''}${query}`);
  opened.push(frames);
  await frames.next('ready');
  return frames;
}

const lines = (frames: Frames): string[] =>
  frames.all.filter(({ type }) => type === 'log').map(({ message }) => message as string);
const cursorOf = (frames: Frames): string => frames.all.findLast(({ type }) => type === 'cursor')?.['cursor'] as string;

async function shows(frames: Frames, expected: readonly string[]): Promise<void> {
  await expect.poll(() => lines(frames), { timeout: 8_000 }).toEqual(expected);
}

describe('the lines of a server', () => {
  it('are the last ones of its agent and all workloads, then live ones, with what wrote them', async () => {
    const app = await anApplication('web');
    const began = Date.now() - 1000;
    await write(app, { message: 'old', at: began }, { message: 'hi', at: began + 1 });
    await write('agent', { message: 'started', at: began + 2 });
    await write(gone, { message: 'last words', at: began + 3 });
    const frames = await open('&tail=3');
    await shows(frames, ['hi', 'started', 'last words']);
    await frames.next('cursor');
    const now = Date.now();
    await write(app, { message: 'live', at: now - 2 }, { message: '\u001b[31mred\u0007', at: now });
    await write('agent', { message: 'between', at: now - 1 });
    await shows(frames, ['hi', 'started', 'last words', 'live', 'between', '\u001b[31mred']);
    const sources = frames.all.filter(({ type }) => type === 'log').map(({ source }) => source);
    expect(sources.slice(0, 3)).toEqual([
      { kind: 'application', id: app, name: 'web', instance_id: 'i' },
      { kind: 'agent', id: server, name: expect.stringContaining('server-'), instance_id: 'i' },
      { kind: 'deleted', id: gone, name: null, instance_id: 'i' },
    ]);
    expect(frames.all.find(({ type }) => type === 'log')).toEqual({
      type: 'log',
      message: 'hi',
      timestamp: expect.stringMatching(/Z$/),
      stream: 'stdout',
      level: 'info',
      seq: 2,
      source: sources[0],
    });
  });

  it('go on after a cursor without loss or repetition, and tell what retention removed meanwhile', async () => {
    const app = await anApplication('web');
    await write(app, 'a');
    const first = await open();
    await shows(first, ['a']);
    await first.next('cursor');
    const cursor = cursorOf(first);
    await first[Symbol.asyncDispose]();
    const now = Date.now();
    await write(app, { message: 'b', at: now - 1 });
    await write('agent', { message: 'c', at: now });
    const again = await open(`&cursor=${cursor}`);
    await shows(again, ['b', 'c']);
    expect(again.all.some(({ type }) => type === 'gap')).toBe(false);
    await again[Symbol.asyncDispose]();

    for (let n = 0; n < 60; n += 1) await write(app, `${n} ${'x'.repeat(500)}`);
    await store.prune();
    const late = await open(`&cursor=${cursor}`);
    expect(await late.next('gap')).toEqual({ type: 'gap', dropped: 1 });
    await expect.poll(() => lines(late).at(-1)).toMatch(/^59 /);
    const live = lines(late).length;
    await write(app, 'live');
    await expect.poll(() => lines(late).length, { timeout: 8_000 }).toBe(live + 1);
    expect(late.all.filter(({ type }) => type === 'gap')).toHaveLength(1);
  });

  it('that are gone are told once, while no later line moves the cursor', async () => {
    world.agents.answer = (_, params) => {
      if (params.method !== 'logs.server') throw new CallError('unsupported', params.method);
      asked.push(params.query);
      return { lines: [], cursor: '5-5-agent', more: false, truncated: true };
    };
    const frames = await open('&cursor=5-5-agent');
    await expect.poll(() => asked.length, { timeout: 8_000 }).toBe(3);
    expect(frames.all.filter(({ type }) => type === 'gap')).toHaveLength(1);
  });

  it('of one source stay in their order, also where their times do not', async () => {
    const app = await anApplication('web');
    const now = Date.now();
    await write(app, { message: 'one', at: now }, { message: 'two', at: now - 5000 }, { message: 'three', at: now });
    await write('agent', { message: 'between', at: now - 2000 });
    const frames = await open();
    await shows(frames, ['between', 'one', 'two', 'three']);
  });

  it('are narrowed by source, kind, level and text; what is created later joins', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two')];
    await write(one, 'Good 1', 'bad 1');
    await write(two, 'Good 2', { message: 'Good 3', level: 'error' });
    await write('agent', 'Good 4');
    const [ofOne, ofKind, ofLevel] = [
      await open(`&source=${one}&search=Good`),
      await open('&kind=application&search=Good'),
      await open('&level=error,warn'),
    ];
    await shows(ofOne, ['Good 1']);
    await shows(ofKind, ['Good 1', 'Good 2', 'Good 3']);
    await shows(ofLevel, ['Good 3']);
    const three = await anApplication('three');
    await write(three, 'Good 5');
    await shows(ofKind, ['Good 1', 'Good 2', 'Good 3', 'Good 5']);
    expect(lines(ofOne)).toEqual(['Good 1']);
  });

  it('of a kind that the server has nothing of yet are those since the opening', async () => {
    await write('agent', 'not of this kind');
    const frames = await open('&kind=application&search=first');
    await frames.next('cursor');
    // It looks for no line that matches: it needs only the place of the newest one.
    expect(asked[0]).toEqual({ tail: 1 });
    await write(await anApplication('late'), 'its first line');
    await shows(frames, ['its first line']);
    const bare = await open('&tail=0&search=text');
    await bare.next('cursor');
    expect(lines(bare)).toEqual([]);
  });

  it('come once the agent is back, each once, and the reader is told', async () => {
    const app = await anApplication('web');
    await write(app, 'before');
    const frames = await open();
    await shows(frames, ['before']);
    isAway = true;
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', server) }] });
    expect(await frames.next('source')).toMatchObject({ state: 'away', source: { kind: 'agent', id: server } });
    await write(app, 'meanwhile');
    await agentIsThere();
    expect(await frames.next('source')).toMatchObject({ state: 'back' });
    await shows(frames, ['before', 'meanwhile']);
  });

  it('wait on the server for a reader that does not take them, and come to others', async () => {
    const page = Array.from({ length: 1000 }, (_, n) => ({
      seq: n + 1,
      timestamp: '2026-01-01T00:00:00.000Z',
      stream: 'stdout',
      level: 'info',
      message: 'x'.repeat(500),
      instance_id: 'i',
      workload_id: gone,
    }));
    let pages = 0;
    let answers = 0;
    world.agents.answer = (_, params) => {
      if (params.method !== 'logs.server') throw new CallError('unsupported', params.method);
      if (params.query.search === undefined) pages += 1;
      answers += 1;
      return { lines: page, cursor: `${answers}-1-${gone}`, more: true, truncated: false, lost: false };
    };
    const slow = await open();
    slow.socket.pause();
    let before = -1;
    const hasStopped = (): boolean => {
      const isSame = pages === before;
      before = pages;
      return isSame;
    };
    await expect.poll(hasStopped, { interval: 500, timeout: 30_000 }).toBe(true);
    expect(pages).toBeLessThan(60);
    const other = await open('&search=x');
    await expect.poll(() => lines(other).length, { timeout: 8_000 }).toBeGreaterThan(5000);
    expect(pages).toBe(before);
  });

  it('need an agent that merges them, and are for admins', async () => {
    const user = await world.user();
    await expect(open('', user)).rejects.toMatchObject({ status: 403 });
    await expect(open('&cursor=x')).rejects.toMatchObject({ status: 400 });
    await expect(open('&since=x')).rejects.toMatchObject({ status: 400 });
    const frames = await open();
    const earlier = agentCapabilities.filter((it) => it !== 'logs.server');
    await agentIsThere(earlier);
    expect(await frames.next('end')).toEqual({ type: 'end', reason: 'the agent is of an earlier release' });
    await expect(open()).rejects.toMatchObject({ status: 409 });
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', server) }] });
    await world.settled();
    await expect(open()).rejects.toMatchObject({ status: 503 });
  });
});
