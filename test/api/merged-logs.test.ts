import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { agentLogs } from '../harness/agent-log.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';

type Person = Client & { id: string };

let world: ApiWorld;
let root: Client;
let owner: Person;
let project: string;
let servers: [string, string];
let logs: ReturnType<typeof agentLogs>;
let opened: Frames[];
/** Times that no test waits for. */
let now: number;

beforeEach(async () => {
  world = await startApi({ config: { streamsPerUser: 0 } });
  root = await world.owner();
  owner = await world.user();
  const place = await world.place(owner);
  ({ project } = place);
  servers = [place.server, (await world.place(owner)).server];
  logs = agentLogs(world.agents);
  for (const server of servers) await agentIsThere(server);
  opened = [];
  now = Date.now() - 30_000;
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function agentIsThere(server: string): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm' });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  logs.away.delete(server);
  await world.settled();
}

async function agentLeaves(server: string, ...workloads: string[]): Promise<void> {
  logs.away.add(server);
  await world.store.txn({ if: [], then: [{ delete: keys.agent('default', server) }] });
  for (const workload of workloads) logs.of(workload).cut();
  await world.settled();
}

async function anApplication(name: string, server = servers[0], of = project): Promise<string> {
  const source = { source_type: 'image', image_url: 'example/web' };
  const made = await owner.post('/applications', { project_id: of, server_id: server, name, ...source });
  expect(made.status).toBe(201);
  return made.data.id;
}

async function open(query = '', by: Client = owner, replica = world.url): Promise<Frames> {
  const base = `${replica.replace('http', 'ws')}/default/ws/logs`;
  const frames = await openFrames(`${base}?token=${by.token ?? ''}${query}`);
  opened.push(frames);
  await frames.next('ready');
  return frames;
}

const lines = (frames: Frames): string[] =>
  frames.all.filter(({ type }) => type === 'log').map(({ message }) => message as string);
const states = (frames: Frames): string[] =>
  frames.all
    .filter(({ type }) => type === 'source')
    .map(({ state, source }) => `${(source as { name: string }).name} ${state as string}`);

async function shows(frames: Frames, expected: readonly string[]): Promise<void> {
  await expect.poll(() => lines(frames), { timeout: 8_000 }).toEqual(expected);
}

/** Resolves when the readers of a log get live lines. */
async function followed(...workloads: string[]): Promise<void> {
  for (const workload of workloads) await expect.poll(() => logs.of(workload).open).toBe(1);
}

describe('merged logs', () => {
  it('are those of several servers in the order of their times, the stored ones first and then live', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[1])];
    for (let n = 0; n < 6; n += 1) logs.of(n % 2 === 0 ? one : two).addAt(now + n, `line ${n}`);
    const frames = await open(`&projectId=${project}`);
    const { type, source, ...line } = await frames.next('log');
    expect([type, source]).toEqual(['log', { kind: 'application', id: one, name: 'one', instance_id: 'i' }]);
    expect(line).toEqual({
      message: 'line 0',
      timestamp: new Date(now).toISOString(),
      stream: 'stdout',
      level: 'info',
      seq: 1,
    });
    await shows(
      frames,
      Array.from({ length: 6 }, (_, n) => `line ${n}`),
    );
    await followed(one, two);
    logs.of(two).addAt(now + 101, 'later');
    logs.of(one).addAt(now + 100, 'earlier');
    await shows(frames, [...Array.from({ length: 6 }, (_, n) => `line ${n}`), 'earlier', 'later']);
    expect(states(frames)).toEqual(['one joined', 'two joined']);
  });

  it('are narrowed by ids, level, text and number of stored lines', async () => {
    const [one, two, three] = [await anApplication('one'), await anApplication('two'), await anApplication('three')];
    for (const id of [one, two, three])
      for (let n = 0; n < 4; n += 1) logs.of(id).addAt(now + n, `${id} ${n % 2 === 0 ? 'Even' : 'odd'} ${n}`);
    const frames = await open(
      `&ids=${one},${three}&search=EVEN&tail=1&kinds=application&level=info`.replace('EVEN', 'Even'),
    );
    await shows(frames, [`${one} Even 2`, `${three} Even 2`]);
    expect(states(frames)).toEqual(['one joined', 'three joined']);
    expect(logs.of(one).reads[0]).toMatchObject({
      search: 'Even',
      levels: ['info'],
      streams: ['stdout', 'stderr', 'system'],
    });
  });

  it('are those of databases and functions, too', async () => {
    const at = { project_id: project, server_id: servers[0] };
    const database = (await owner.post('/databases', { ...at, name: 'orders', type: 'redis' })).data.id;
    const code = 'export default () => new Response()';
    const greeter = (await owner.post('/functions', { ...at, name: 'greeter', runtime: 'node20', code })).data.id;
    logs.of(database).addAt(now, 'of a database');
    logs.of(greeter).addAt(now + 1, 'of a function');
    await shows(await open(), ['of a database', 'of a function']);
    await shows(await open('&kinds=database'), ['of a database']);
  });

  it('have no lines of builds, unless their reader names them', async () => {
    const one = await anApplication('one');
    logs.of(one).addAt(now, 'output');
    logs.of(one).addAt(now + 1, 'build');
    logs.of(one).lines[1]!.stream = 'build';
    await shows(await open(), ['output']);
    const builds = await open('&stream=build,stderr');
    await shows(builds, ['build']);
    await followed(one);
    logs.of(one).addAt(now + 2, 'more output');
    logs.of(one).addAt(now + 3, 'again');
    logs.of(one).lines[3]!.stream = 'build';
    await shows(builds, ['build', 'again']);
    await expect(open('&stream=loud')).rejects.toMatchObject({ status: 400 });
  });

  it('show each reader what its roles let it see, until it loses them', async () => {
    const other = (await owner.post('/projects', { name: 'other' })).data.id;
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[0], other)];
    const viewer = await world.user();
    const member = (await owner.post(`/projects/${project}/members`, { user_id: viewer.id, role: 'viewer' })).data;
    const frames = await open('', viewer);
    const stranger = await open('', await world.user());
    const admin = await open('', root);
    await followed(one, two);
    logs.of(two).addAt(now, 'of another project');
    logs.of(one).addAt(now + 1, 'seen');
    await shows(frames, ['seen']);
    await shows(admin, ['of another project', 'seen']);
    await owner.post(`/projects/${other}/members`, { user_id: viewer.id, role: 'viewer' });
    await expect.poll(() => states(frames)).toEqual(['one joined', 'two joined']);
    await expect.poll(() => logs.of(two).reads.length).toBeGreaterThan(1);
    logs.of(two).addAt(now + 2, 'seen, too');
    await shows(frames, ['seen', 'seen, too']);
    await owner.delete(`/projects/${project}/members/${member.user_id ?? viewer.id}`);
    await expect.poll(() => states(frames)).toEqual(['one joined', 'two joined', 'one left']);
    logs.of(one).addAt(now + 3, 'not seen');
    logs.of(two).addAt(now + 4, 'last');
    await shows(frames, ['seen', 'seen, too', 'last']);
    expect(lines(stranger)).toEqual([]);
    expect(states(stranger)).toEqual([]);
  });

  it('are joined by what is created later, from its first line, and left by what is deleted', async () => {
    const frames = await open(`&projectId=${project}`);
    const one = await anApplication('one');
    logs.of(one).addAt(now, 'first');
    await shows(frames, ['first']);
    await owner.put(`/applications/${one}`, { name: 'renamed' });
    await world.settled();
    await expect.poll(() => logs.of(one).open).toBe(1);
    logs.of(one).addAt(now + 1, 'second');
    await shows(frames, ['first', 'second']);
    expect(frames.all.findLast(({ type }) => type === 'log')).toMatchObject({ source: { name: 'renamed' } });
    await owner.delete(`/applications/${one}`);
    const unit = world.repo.begin();
    unit.release((await world.repo.get('application', one))!, 'application');
    await unit.commit();
    await expect.poll(() => states(frames)).toEqual(['one joined', 'renamed left']);
    await expect.poll(() => logs.of(one).open).toBe(0);
  });

  it('say that an agent is away, and have its lines once it is back, each once', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[1])];
    const frames = await open();
    await followed(one, two);
    logs.of(one).addAt(now, 'before');
    await shows(frames, ['before']);
    await agentLeaves(servers[0], one);
    await expect.poll(() => states(frames)).toEqual(['one joined', 'two joined', 'one away']);
    logs.of(one).addAt(now + 10, 'meanwhile');
    logs.of(two).addAt(now + 20, 'elsewhere');
    await shows(frames, ['before', 'elsewhere']);
    await agentIsThere(servers[0]);
    await shows(frames, ['before', 'elsewhere', 'meanwhile']);
    await followed(one);
    logs.of(one).addAt(now + 30, 'after');
    await shows(frames, ['before', 'elsewhere', 'meanwhile', 'after']);
    expect(states(frames).at(-1)).toBe('one back');
  });

  it('have all lines since the opening of an agent that was away then', async () => {
    const one = await anApplication('one');
    logs.of(one).addAt(Date.now() - 3_600_000, 'an hour ago');
    await agentLeaves(servers[0], one);
    const frames = await open('&tail=1');
    await expect.poll(() => states(frames)).toEqual(['one joined', 'one away']);
    for (let n = 0; n < 5; n += 1) logs.of(one).addAt(Date.now() + n, `line ${n}`);
    await agentIsThere(servers[0]);
    await shows(
      frames,
      Array.from({ length: 5 }, (_, n) => `line ${n}`),
    );
  });

  it('go on after a cursor without loss or repetition, with what was created meanwhile', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[1])];
    logs.of(one).addAt(now, 'a');
    logs.of(two).addAt(now + 1, 'b');
    const first = await open('&tail=10');
    await shows(first, ['a', 'b']);
    await first.next('cursor');
    const cursor = first.all.findLast(({ type }) => type === 'cursor')?.['cursor'] as string;
    await first[Symbol.asyncDispose]();
    const three = await anApplication('three');
    logs.of(three).addAt(now + 2, 'c');
    logs.of(two).addAt(now + 3, 'd');
    logs.of(one).addAt(now + 4, 'e');
    const again = await open(`&cursor=${cursor}`, owner, await world.replica());
    await shows(again, ['c', 'd', 'e']);
    expect(again.all[0]).toEqual({ type: 'ready', cursor });
    expect((await open(`&tail=1&cursor=start`)).all[0]).toMatchObject({ cursor: 'start' });
    await expect(open('&cursor=NOT')).rejects.toMatchObject({ status: 400 });
  });

  it('lose no line of a source whose agent was away over two resumptions', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[1])];
    logs.of(one).addAt(now, 'a');
    logs.of(two).addAt(now + 1, 'b');
    let frames = await open('&tail=10');
    const resumedAfter = async (expected: readonly string[]): Promise<void> => {
      await shows(frames, expected);
      await frames.next('cursor');
      const cursor = frames.all.findLast(({ type }) => type === 'cursor')?.['cursor'] as string;
      await frames[Symbol.asyncDispose]();
      frames = await open(`&cursor=${cursor}`);
    };
    await shows(frames, ['a', 'b']);
    await agentLeaves(servers[0], one);
    await resumedAfter(['a', 'b']);
    logs.of(two).addAt(now + 2, 'c');
    await resumedAfter(['c']);
    logs.of(one).addAt(Date.now() - 180_000, 'written while it was away');
    await agentIsThere(servers[0]);
    await shows(frames, ['written while it was away']);
  });

  it('go no further back with each resumption for a source without lines', async () => {
    const [quiet, busy] = [await anApplication('quiet'), await anApplication('busy', servers[1])];
    const since = () => logs.of(quiet).reads.flatMap((query) => (query.after_seq === 0 ? [query.since] : []));
    let frames = await open('&tail=10');
    for (let n = 0; n < 3; n += 1) {
      logs.of(busy).addAt(now + n, `line ${n}`);
      await frames.next('cursor');
      const cursor = frames.all.findLast(({ type }) => type === 'cursor')?.['cursor'] as string;
      await frames[Symbol.asyncDispose]();
      const before = since().length;
      frames = await open(`&cursor=${cursor}`);
      await expect.poll(() => since().length).toBeGreaterThan(before);
    }
    expect(new Set(since()).size).toBe(1);
  });

  it('have a bounded number of sources, say how many are left out, and take them when there is room', async () => {
    const names = Array.from({ length: 34 }, (_, n) => `app ${String(n).padStart(2, '0')}`);
    const ids: string[] = [];
    for (const name of names) ids.push(await anApplication(name));
    const frames = await open();
    expect(await frames.next('limit')).toEqual({ type: 'limit', sources: 32, left_out: 2 });
    // of 32 workloads on one server some are polled, so that streams are left for others
    await expect.poll(() => ids.filter((id) => logs.of(id).open === 1).length, { timeout: 5_000 }).toBe(24);
    for (const [n, id] of ids.entries()) logs.of(id).addAt(now + n, `line ${n}`);
    await expect.poll(() => lines(frames).length, { timeout: 9_000 }).toBe(32);
    expect(new Set(lines(frames)).size).toBe(32);
    await world.repo.change('application', ids[0]!, (draft) => void (draft.name = 'still there'));
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get('application', ids[0]!))!);
    unit.release((await world.repo.get('application', ids[0]!))!, 'application');
    await unit.commit();
    await expect.poll(() => states(frames).at(-1)).toBe('app 32 joined');
    expect(frames.all.findLast(({ type }) => type === 'limit')).toEqual({ type: 'limit', sources: 32, left_out: 1 });
  }, 30_000);

  it('come once and in order to a slow reader, which holds up no other', async () => {
    const [one, two] = [await anApplication('one'), await anApplication('two', servers[1])];
    const [quick, slow] = [await open('&tail=0'), await open('&tail=0')];
    await followed(one, two);
    await expect.poll(() => logs.of(one).reads.length + logs.of(two).reads.length).toBeGreaterThan(3);
    slow.socket.pause();
    const count = 8_000;
    for (let n = 0; n < count; n += 200) {
      for (let more = 0; more < 200; more += 1)
        logs.of((n + more) % 2 === 0 ? one : two).addAt(now + n + more, `${n + more} ${'x'.repeat(500)}`);
      await new Promise((resolve) => void setImmediate(resolve));
    }
    const ofSource = (frames: Frames, id: string) =>
      frames.all
        .filter(({ type, source }) => type === 'log' && (source as { id: string }).id === id)
        .map(({ seq }) => seq);
    const all = Array.from({ length: count / 2 }, (_, n) => n + 1);
    await expect.poll(() => lines(quick).length, { timeout: 20_000 }).toBe(count);
    slow.socket.resume();
    await expect.poll(() => lines(slow).length, { timeout: 20_000 }).toBe(count);
    for (const frames of [quick, slow]) {
      expect(ofSource(frames, one)).toEqual(all);
      expect(ofSource(frames, two)).toEqual(all);
      expect(frames.all.some(({ type }) => type === 'gap')).toBe(false);
    }
  }, 45_000);
});
