import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { keys } from '../../store/keys.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { agentLog } from '../harness/agent-log.ts';
import type { AgentLog } from '../harness/agent-log.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames, Refusal } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';
import { buildSpec } from '../harness/wire-items.ts';

let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };
let app: string;
let opened: Frames[];

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
  place = await world.place(owner);
  const body = {
    project_id: place.project,
    server_id: place.server,
    name: 'web',
    source_type: 'image',
    image_url: 'example/web',
  };
  app = (await owner.post('/applications', body)).data.id;
  opened = [];
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function open(path: string, client: Client = owner, query = ''): Promise<Frames> {
  const base = `${world.url.replace('http', 'ws')}/default/ws${path}`;
  const frames = await openFrames(`${base}?token=${client.token ?? ''}${query}`);
  opened.push(frames);
  return frames;
}

async function refusal(path: string, client?: Client, headers: Record<string, string> = {}): Promise<Refusal> {
  const token = client?.token === undefined ? '' : `?token=${client.token}`;
  const error = await openFrames(`${world.url.replace('http', 'ws')}${path}${token}`, headers).then(
    async (frames) => {
      await frames[Symbol.asyncDispose]();
      return undefined;
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof Refusal)) throw new Error(`Not refused: ${path}`);
  return error;
}

async function agentIsThere(): Promise<void> {
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm' });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', place.server), value }] });
  await world.settled();
}

describe('a stream', () => {
  it('is refused before the upgrade, in the envelope, to whoever may not read it', async () => {
    const user = await world.user();
    const cases = [
      [`/default/ws/applications/${app}/logs`, undefined, 401],
      [`/default/ws/applications/${app}/logs`, world.client('forged'), 401],
      [`/default/ws/applications/${app}/logs`, user, 403],
      [`/default/ws/applications/${crypto.randomUUID()}/logs`, owner, 404],
      [`/default/ws/applications/x/logs`, owner, 400],
      [`/default/ws/nothing`, owner, 404],
      [`/nobody/ws/watch`, owner, 404],
      [`/default/ws/applications/${app}/logs`, owner, 503],
    ] as const;
    for (const [path, client, status] of cases) {
      const refused = await refusal(path, client);
      expect(refused.status, path).toBe(status);
      expect(refused.body).toMatchObject({ success: false, error: { code: expect.any(String) } });
      expect(refused.headers['x-service-version']).toBe('1.2.3');
      expect(refused.headers['x-request-id']).toBeDefined();
    }
    const { data } = await owner.get('/audit?result=refused');
    expect(data).toMatchObject([
      { route: 'WS /ws/applications/:id/logs', objects: [{ kind: 'application', id: app }] },
    ]);
  });

  it('is refused to pages of other origins, and takes credentials from headers', async () => {
    const path = '/default/ws/watch';
    expect((await refusal(path, owner, { origin: 'https://evil.example' })).status).toBe(403);
    const address = `${world.url.replace('http', 'ws')}${path}`;
    const headers = { authorization: `Bearer ${owner.token}`, origin: 'http://setpoint.test' };
    const frames = await openFrames(address, headers);
    opened.push(frames);
    expect(await frames.next('ready')).toMatchObject({ cursor: expect.any(String) });
  });

  it('ends within moments of the logout of its reader', async () => {
    const frames = await open('/watch');
    await frames.next('ready');
    await owner.post('/auth/logout');
    expect(await frames.closed).toMatchObject({ code: 4401 });
    expect(frames.all.at(-1)).toMatchObject({ type: 'end' });
  });

  it('ends when its reader is disabled, loses the role, or what it is of goes', async () => {
    agentLog(world.agents);
    await agentIsThere();
    const admin = await world.user('admin');
    const other = await world.user('admin');
    const demoted = await open(`/applications/${app}/logs`, admin);
    const disabled = await open('/notifications', other);
    await world.repo.change('user', admin.id, (draft) => void (draft.role = 'user'));
    await world.repo.change('user', other.id, (draft) => void (draft.disabled = true));
    expect(await demoted.closed).toMatchObject({ code: 4403 });
    expect(await disabled.closed).toMatchObject({ code: 4401 });
    const gone = await open(`/applications/${app}/logs`);
    await owner.delete(`/applications/${app}`);
    const unit = world.repo.begin();
    unit.release((await world.repo.get('application', app))!, 'application');
    await unit.commit();
    expect(await gone.closed).toMatchObject({ code: 4404 });
  });

  it('ends when its key is revoked, or its user is disabled or deleted', async () => {
    const address = `${world.url.replace('http', 'ws')}/default/ws/watch`;
    const losses: ((user: string, key: string) => Promise<unknown>)[] = [
      (_, key) => owner.delete(`/settings/service-keys/${key}`),
      (user) => owner.put(`/users/${user}`, { disabled: true }),
      (user) => owner.delete(`/users/${user}`),
    ];
    for (const lose of losses) {
      const user = await world.user();
      const { id, key } = (await user.post('/settings/service-keys', { name: 'ci' })).data;
      await using frames = await openFrames(address, { 'x-service-key': key });
      await frames.next('ready');
      await lose(user.id, id);
      expect(await frames.closed).toMatchObject({ code: 4401 });
      expect((await world.client().get('/auth/me', { 'x-service-key': key })).status).toBe(401);
    }
  });

  it('ends with the time of the key or the session by which it was opened', async () => {
    const clock = new FakeClock();
    await world[Symbol.asyncDispose]();
    world = await startApi({ clock });
    const by = await world.owner();
    const expires_at = new Date(clock.now().getTime() + 90_000).toISOString();
    const { key } = (await by.post('/settings/service-keys', { name: 'short', expires_at })).data;
    const address = `${world.url.replace('http', 'ws')}/default/ws/notifications`;
    await using short = await openFrames(address, { 'x-service-key': key });
    await using long = await openFrames(`${address}?token=${by.token}`);
    await short.next('ready');
    await long.next('ready');
    await clock.advance(90_000);
    expect(await short.closed).toMatchObject({ code: 4401 });
    expect(long.all.filter(({ type }) => type === 'end')).toEqual([]);
    await clock.advance(24 * 3_600_000 - 90_000);
    expect(await long.closed).toMatchObject({ code: 4401 });
  });

  it('sends a key nothing that its user may no longer see', async () => {
    const admin = await world.user('admin');
    const { key } = (await admin.post('/settings/service-keys', { name: 'ci' })).data;
    const frames = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/watch`, { 'x-service-key': key });
    opened.push(frames);
    await frames.next('ready');
    expect((await owner.put(`/users/${admin.id}`, { role: 'user' })).status).toBe(200);
    await owner.put(`/projects/${place.project}`, { description: 'unseen' });
    const again = world.client();
    const own = (await again.post('/projects', { name: 'own' }, { 'x-service-key': key })).data.id;
    await until('the own project is sent', async () => frames.all.some(({ id }) => id === own));
    expect(JSON.stringify(frames.all)).not.toContain('unseen');
  });

  it('is closed when there are too many, or its reader talks too much', async () => {
    await world[Symbol.asyncDispose]();
    world = await startApi({ config: { streamsPerUser: 2 } });
    owner = await world.owner();
    const first = await open('/watch');
    await open('/watch');
    expect(await (await open('/watch')).closed).toMatchObject({ code: 4429 });
    const { key } = (await owner.post('/settings/service-keys', { name: 'more' })).data;
    const byKey = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/watch`, { 'x-service-key': key });
    opened.push(byKey);
    expect(await byKey.closed).toMatchObject({ code: 4429 });
    for (let n = 0; n < 200; n += 1) first.socket.send('x');
    expect(await first.closed).toMatchObject({ code: 4429 });
  });

  it('is closed by a message that is too long', async () => {
    const frames = await open('/watch');
    frames.socket.send('x'.repeat(65 * 1024));
    expect(await frames.closed).toMatchObject({ code: 1009 });
  });

  it('sends its readers away when the replica closes', async () => {
    const frames = await open('/watch');
    await frames.next('ready');
    await world[Symbol.asyncDispose]();
    expect(await frames.closed).toMatchObject({ code: 1012 });
    expect(frames.all.at(-1)).toEqual({ type: 'end', reason: 'restart' });
    world = await startApi();
  });
});

describe('logs of a database', () => {
  let log: AgentLog;
  let id: string;
  let path: string;
  beforeEach(async () => {
    log = agentLog(world.agents);
    const body = { project_id: place.project, server_id: place.server, name: 'orders', type: 'postgres' };
    id = (await owner.post('/databases', body)).data.id;
    path = `/databases/${id}/logs`;
  });

  it('are sent line by line, the last ones first and then live, and go on after a cursor', async () => {
    await agentIsThere();
    log.add('one', 'two', 'three');
    const frames = await open(path, owner, '&tail=2');
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: '1' });
    expect(await frames.next('log')).toMatchObject({
      seq: 2,
      message: 'two',
      source: { kind: 'database', id, name: 'orders', instance_id: 'i' },
    });
    expect(await frames.next('log')).toMatchObject({ seq: 3 });
    log.add('four');
    expect(await frames.next('log')).toMatchObject({ seq: 4, message: 'four' });
    expect(log.reads[0]).toMatchObject({ workload_id: id, tail: 2, streams: ['stdout', 'stderr', 'build', 'system'] });
    const again = await open(path, owner, '&cursor=3');
    expect(await again.next('ready')).toMatchObject({ cursor: '3' });
    expect(await again.next('log')).toMatchObject({ seq: 4 });
  });

  it('of one stream or with a text are those alone', async () => {
    await agentIsThere();
    const frames = await open(path, owner, '&tail=0&search=needle');
    await frames.next('ready');
    await expect.poll(() => log.reads.length).toBeGreaterThan(0);
    log.add('hay', 'a needle', 'hay');
    expect(await frames.next('log')).toMatchObject({ message: 'a needle' });
    expect(frames.all).toHaveLength(2);
    const none = await open(path, owner, '&stream=stderr');
    await none.next('ready');
    expect(log.reads.at(-1)).toMatchObject({ streams: ['stderr'] });
  });

  it('are refused without an agent, with a wrong query, for no database, and to a stranger', async () => {
    const at = `/default/ws${path}`;
    expect((await refusal(at, owner)).status).toBe(503);
    await agentIsThere();
    const stranger = await world.user();
    expect((await refusal(at, stranger)).status).toBe(403);
    expect((await refusal(`/default/ws/databases/${app}/logs`, owner)).status).toBe(404);
    expect((await refusal(`${at}?cursor=x&token=${owner.token}`)).status).toBe(400);
    expect((await refusal(`${at}?stream=none&token=${owner.token}`)).status).toBe(400);
    expect((await refusal(`${at}?until=15m&token=${owner.token}`)).status).toBe(400);
  });
});

describe('logs of an application', () => {
  let log: AgentLog;
  beforeEach(async () => {
    log = agentLog(world.agents);
    await agentIsThere();
  });

  it('are sent line by line, the last ones first and then live', async () => {
    log.add('one', 'two', 'three');
    const frames = await open(`/applications/${app}/logs`, owner, '&tail=2&level=info');
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: '1' });
    expect(await frames.next('log')).toEqual({
      type: 'log',
      message: 'two',
      timestamp: '2026-01-01T00:00:00.002Z',
      stream: 'stdout',
      level: 'info',
      seq: 2,
      cursor: '2',
      source: { kind: 'application', id: app, name: 'web', instance_id: 'i' },
    });
    expect(await frames.next('log')).toMatchObject({ seq: 3 });
    log.add('four');
    expect(await frames.next('log')).toMatchObject({ seq: 4, message: 'four' });
    expect(log.reads[0]).toMatchObject({ workload_id: app, tail: 2, levels: ['info'] });
  });

  it('begin with live ones where none of the stored are asked for, and keep to the filter', async () => {
    log.add('stored');
    const frames = await open(`/applications/${app}/logs`, owner, '&tail=0&search=NEEDLE');
    await frames.next('ready');
    await expect.poll(() => log.reads.length).toBeGreaterThan(0);
    log.add('hay', 'a needle', 'hay');
    expect(await frames.next('log')).toMatchObject({ message: 'a needle', seq: 3 });
    expect(frames.all).toHaveLength(2);
  });

  it('go on after the last line when the agent comes back, with what came meanwhile', async () => {
    log.add('one');
    const frames = await open(`/applications/${app}/logs`);
    expect(await frames.next('log')).toMatchObject({ message: 'one' });
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    log.cut();
    log.add('two', 'three');
    await agentIsThere();
    expect([await frames.next('log'), await frames.next('log')].map((it) => it['seq'])).toEqual([2, 3]);
    log.add('four');
    expect(await frames.next('log')).toMatchObject({ seq: 4 });
  });

  it('resume after a cursor', async () => {
    log.add('one', 'two', 'three');
    const frames = await open(`/applications/${app}/logs`, owner, '&cursor=2');
    expect(await frames.next('ready')).toMatchObject({ cursor: '2' });
    expect(await frames.next('log')).toMatchObject({ seq: 3 });
    expect((await refusal(`/default/ws/applications/${app}/logs?cursor=x&token=${owner.token}`)).status).toBe(400);
    expect((await refusal(`/default/ws/applications/${app}/logs?limit=3&token=${owner.token}`)).status).toBe(400);
  });

  it.each([
    ['the last ones of a log', '&tail=2', ['one', 'two', 'three'], '1', [2, 3, 4, 5]],
    ['live ones alone', '&tail=0', ['one', 'two', 'three'], '3', [4, 5]],
    ['those that pass a filter', '&search=three', ['one', 'two', 'three', 'four'], '2', [3, 5, 6]],
    ['an empty log', '', [], '0', [1, 2]],
  ])('say first where they begin, so that who is cut off before a line misses none: %s', async (...row) => {
    const [, query, stored, cursor, expected] = row;
    log.add(...stored);
    const first = await open(`/applications/${app}/logs`, owner, query);
    expect(await first.next('ready')).toEqual({ type: 'ready', cursor });
    await first[Symbol.asyncDispose]();
    log.add('three, late', 'three, later');
    const again = await open(`/applications/${app}/logs`, owner, `${query}&cursor=${cursor}`);
    const numbers: unknown[] = [];
    while (numbers.length < expected.length) numbers.push((await again.next('log'))['seq']);
    expect(numbers).toEqual(expected);
    expect(again.all.some(({ type }) => type === 'gap')).toBe(false);
  });

  it('of one service are its lines alone, also those of a deployment that comes meanwhile', async () => {
    const made = await owner.post('/applications', {
      project_id: place.project,
      server_id: place.server,
      name: 'shop',
      source_type: 'compose',
      compose_file: 'services:\n  web:\n    image: example/web\n  db:\n    image: example/db\n',
    });
    const shop: string = made.data.id;
    const deploy = async (): Promise<string> => (await owner.post(`/applications/${shop}/deploy`)).data.id;
    const first = await deploy();
    const by = (deployment: string, service: string, slot = 0): string => assignmentId.slot(deployment, slot, service);
    log.addBy(by(first, 'web'), 'web 1');
    log.addBy(by(first, 'db'), 'db 1');
    const frames = await open(`/applications/${shop}/logs`, owner, '&service=db');
    const none = await open(`/applications/${shop}/logs`, owner, '&service=cache');
    const one = await open(`/applications/${shop}/logs`, owner, `&service=db&instance_id=${by(first, 'db', 1)}`);
    expect(await frames.next('log')).toMatchObject({ message: 'db 1', seq: 2 });
    await none.next('ready');
    await one.next('ready');
    log.addBy(by(first, 'web'), 'web 2');
    log.addBy(by(first, 'db', 1), 'db 2');
    expect(await frames.next('log')).toMatchObject({ message: 'db 2', seq: 4 });
    const second = await deploy();
    await world.settled();
    log.addBy(by(second, 'web'), 'web 3');
    log.addBy(by(second, 'db'), 'db 3');
    log.addBy(by(first, 'db', 1), 'db 4');
    expect(await frames.next('log')).toMatchObject({ message: 'db 3', seq: 6 });
    expect(await frames.next('log')).toMatchObject({ message: 'db 4', seq: 7 });
    const got = (all: Frames) => all.all.filter(({ type }) => type === 'log').map((it) => it['message']);
    expect(got(frames)).toEqual(['db 1', 'db 2', 'db 3', 'db 4']);
    await expect.poll(() => got(one)).toEqual(['db 2', 'db 4']);
    expect(got(none)).toEqual([]);
    expect((await refusal(`/default/ws/applications/${shop}/logs?service=No&token=${owner.token}`)).status).toBe(400);
  });

  it('say where they begin once the agent has answered', async () => {
    log.add('one', 'two');
    const { answer } = world.agents;
    world.agents.answer = () => {
      throw new CallError('away', 'The agent is away');
    };
    const frames = await open(`/applications/${app}/logs`, owner, '&tail=0');
    await expect.poll(() => log.open).toBe(1);
    expect(frames.all).toEqual([]);
    world.agents.answer = answer;
    await agentIsThere();
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: '2' });
  });

  it('carry colours and nothing else that moves a terminal', async () => {
    log.add('a\u001b[31mred\u001b[0m\u001b]0;title\u0007\u001b[2J\u0000\tb\u009b');
    const frames = await open(`/applications/${app}/logs`);
    expect((await frames.next('log'))['message']).toBe('a\u001b[31mred\u001b[0m]0;title[2J\tb');
  });

  it('come by one stream of the agent for any number of readers', async () => {
    const readers = await Promise.all(Array.from({ length: 12 }, () => open(`/applications/${app}/logs`)));
    for (const frames of readers) await frames.next('ready');
    log.add('one');
    for (const frames of readers) expect(await frames.next('log')).toMatchObject({ message: 'one' });
    expect(log.open).toBe(1);
    for (const frames of readers) await frames[Symbol.asyncDispose]();
    await expect.poll(() => log.open).toBe(0);
  });

  it('reach each reader whole, once and in order, however slowly some read', async () => {
    const [quick, slow] = [await open(`/applications/${app}/logs`), await open(`/applications/${app}/logs`)];
    await slow.next('ready');
    slow.socket.pause();
    const count = 30_000;
    for (let n = 0; n < count / 500; n += 1) {
      log.add(...Array.from({ length: 500 }, () => 'x'.repeat(500)));
      await new Promise((resolve) => void setImmediate(resolve));
    }
    const numbers = (frames: Frames) => frames.all.filter(({ type }) => type === 'log').map(({ seq }) => seq);
    await expect.poll(() => numbers(quick).length, { timeout: 20_000 }).toBe(count);
    slow.socket.resume();
    await expect.poll(() => numbers(slow).length, { timeout: 20_000 }).toBe(count);
    const all = Array.from({ length: count }, (_, n) => n + 1);
    expect(numbers(quick)).toEqual(all);
    expect(numbers(slow)).toEqual(all);
  });
});

describe('logs of a deployment', () => {
  it('replay from the first line, send the status, and end with the last line', async () => {
    const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
    const log = agentLog(world.agents, { instance: uuidv5(deployment, 'build'), stream: 'build' });
    await agentIsThere();
    const frames = await open(`/deployments/${deployment}/logs`);
    expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: '0' });
    expect(await frames.next('status')).toEqual({ type: 'status', status: 'queued' });
    await world.observe('deployment', deployment, { phase: 'building' });
    expect(await frames.next('status')).toEqual({ type: 'status', status: 'building' });
    log.add('one');
    expect(await frames.next('log')).toMatchObject({ seq: 1, source: { kind: 'deployment', id: deployment } });
    log.add('two', 'three');
    await world.observe('deployment', deployment, { phase: 'failed', error: { code: 'x', message: 'y' } });
    expect(await frames.next('status')).toEqual({ type: 'status', status: 'failed' });
    expect(await frames.next('log')).toMatchObject({ seq: 2 });
    expect(await frames.next('log')).toMatchObject({ seq: 3 });
    expect(await frames.next('end')).toEqual({ type: 'end', reason: 'failed' });
    expect(await frames.closed).toMatchObject({ code: 1000 });
    const again = await open(`/deployments/${deployment}/logs`);
    expect([await again.next('log'), await again.next('log'), await again.next('log')]).toHaveLength(3);
    expect(await again.next('end')).toEqual({ type: 'end', reason: 'failed' });
  });

  it.each([
    ['says that lines are missing while the agent is away', 'a key', [{ type: 'gap', dropped: 1 }]],
    ['has no line of a server that no agent has joined', undefined, []],
  ])('end at once for one that has ended, which %s', async (_, agent_public_key, gaps) => {
    const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
    await world.observe('deployment', deployment, { phase: 'succeeded' });
    await world.repo.change('server', place.server, (draft) => void Object.assign(draft, { agent_public_key }));
    await world.settled();
    const frames = await open(`/deployments/${deployment}/logs`);
    expect(await frames.next('status')).toEqual({ type: 'status', status: 'succeeded' });
    expect(await frames.next('end')).toEqual({ type: 'end', reason: 'succeeded' });
    expect(frames.all.filter(({ type }) => type === 'gap')).toEqual(gaps);
  });
});

describe('watch', () => {
  it('sends changes in order, as the interface shows the objects', async () => {
    const frames = await open('/watch', owner, '&kinds=application');
    await frames.next('ready');
    await owner.put(`/applications/${app}`, { replicas: 2 });
    await owner.put(`/projects/${place.project}`, { description: 'not asked for' });
    await owner.put(`/applications/${app}`, { replicas: 3 });
    const [one, two] = [await frames.next('change'), await frames.next('change')];
    expect(one).toMatchObject({
      op: 'put',
      kind: 'application',
      id: app,
      object: { replicas: 2, resource_version: String(one['cursor']).split('-')[1] },
    });
    expect(two).toMatchObject({ object: { replicas: 3 } });
    expect(two['object']).toEqual((await owner.get(`/applications/${app}`)).data);
    await owner.delete(`/applications/${app}`);
    expect(await frames.next('change')).toMatchObject({ op: 'put', object: { status: 'deleting' } });
    const unit = world.repo.begin();
    unit.release((await world.repo.get('application', app))!, 'application');
    await unit.commit();
    expect(await frames.next('change')).toMatchObject({ op: 'delete', kind: 'application', id: app });
  });

  it('makes up for what was missed, deletions too, and says when it cannot', async () => {
    const first = await open('/watch');
    const { cursor } = await first.next('ready');
    await first[Symbol.asyncDispose]();
    const { id } = (await owner.post('/projects', { name: 'while away' })).data;
    await owner.put(`/applications/${app}`, { replicas: 2 });
    await owner.put(`/applications/${app}`, { replicas: 5 });
    const spare = await world.repo.get('server', place.server);
    const unit = world.repo.begin();
    unit.requestDelete(spare!);
    unit.release(spare!, 'server');
    await unit.commit();
    const again = await open('/watch', owner, `&cursor=${cursor as string}`);
    const missed = [
      await again.next('change'),
      await again.next('change'),
      await again.next('change'),
      await again.next('change'),
    ];
    const changes = missed.map((it) => `${it['kind'] as string} ${it['op'] as string}`);
    expect(changes.toSorted()).toEqual(['application put', 'environment put', 'project put', 'server delete']);
    expect(changes.slice(2)).toEqual(['application put', 'server delete']);
    expect(missed[2]).toMatchObject({ object: { replicas: 5 } });
    expect(missed.map((it) => it['id'])).toContain(id);
    expect(again.all.some(({ type }) => type === 'gap')).toBe(false);
    const history = String(cursor).split('-')[0]!;
    const old = await open('/watch', owner, `&cursor=${history}-1`);
    expect(await old.next('gap')).toMatchObject({ dropped: expect.any(Number) });
    const future = await open('/watch', owner, `&cursor=${history}-999999999`);
    expect(await future.next('gap')).toMatchObject({ dropped: expect.any(Number) });
  });

  it.each(['watch', 'notifications'])(
    'notifies a reader of another history that it missed something: %s',
    async (name) => {
      const first = await open(`/${name}`);
      const { cursor } = await first.next('ready');
      const at = String(cursor).split('-')[1]!;
      for (const other of [`00000000-${at}`, at]) {
        const again = await open(`/${name}`, owner, `&cursor=${other}`);
        expect(await again.next('gap')).toMatchObject({ dropped: 1 });
      }
      const same = await open(`/${name}`, owner, `&cursor=${String(cursor)}`);
      await owner.put(`/applications/${app}`, { replicas: 2 });
      await world.settled();
      expect(same.all.some(({ type }) => type === 'gap')).toBe(false);
      expect((await refusal(`/default/ws/${name}?cursor=zzzzzzzz-1&token=${owner.token}`)).status).toBe(400);
    },
  );

  it('sends each reader what that reader may see, servers masked', async () => {
    const user = await world.user();
    const own = (await user.post('/projects', { name: 'of the user' })).data.id;
    const frames = await open('/watch', user);
    await frames.next('ready');
    await owner.put(`/applications/${app}`, { replicas: 2 });
    await owner.put(`/projects/${place.project}`, { description: 'x' });
    await owner.put(`/servers/${place.server}`, { ip_address: '192.0.2.9' });
    await user.put(`/projects/${own}`, { description: 'mine' });
    expect(await frames.next('change')).toMatchObject({
      kind: 'server',
      object: { id: place.server, name: expect.any(String), status: 'provisioning', agent_status: 'unknown' },
    });
    expect(frames.all.at(1)?.['object']).not.toHaveProperty('ip_address');
    expect(await frames.next('change')).toMatchObject({ kind: 'project', id: own });
    expect(frames.all).toHaveLength(3);
  });

  it('sends what follows from another object: agents, statuses, what is current', async () => {
    const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
    const frames = await open('/watch', owner, '&kinds=server,application,deployment');
    await frames.next('ready');
    await agentIsThere();
    expect(await frames.next('change')).toMatchObject({ kind: 'server', object: { agent_status: 'connected' } });
    await world.observe('deployment', deployment, { phase: 'succeeded' });
    expect(await frames.next('change')).toMatchObject({ kind: 'deployment', object: { is_current: true } });
    const serves = { current_deployment_id: deployment };
    expect(await frames.next('change')).toMatchObject({ kind: 'application', object: serves });
    const observed = { consecutive_failures: 0, ready_replicas: 1, crash_loop_counted: false };
    await world.observe('application', app, { ...observed, phase: 'running', current_deployment_id: deployment });
    expect(await frames.next('change')).toMatchObject({
      kind: 'application',
      object: { status: 'running', ...serves },
    });
    const next = (await owner.post(`/applications/${app}/deploy`)).data.id;
    const later = await open('/watch', owner, '&kinds=application,deployment');
    await later.next('ready');
    await world.observe('deployment', next, { phase: 'succeeded' });
    expect([await later.next('change'), await later.next('change'), await later.next('change')]).toMatchObject([
      { kind: 'deployment', id: next, object: { is_current: true } },
      { kind: 'application', object: { current_deployment_id: next } },
      { kind: 'deployment', id: deployment, object: { is_current: false } },
    ]);
  });

  it('makes up for what followed from another object while the reader was away', async () => {
    const deployment = (await owner.post(`/applications/${app}/deploy`)).data.id;
    await world.observe('deployment', deployment, { phase: 'succeeded' });
    const next = (await owner.post(`/applications/${app}/deploy`)).data.id;
    const first = await open('/watch');
    const { cursor } = await first.next('ready');
    await first[Symbol.asyncDispose]();
    const path = `/projects/${place.project}/environments`;
    const { id } = (await owner.post(path, { name: 'staging' })).data;
    expect((await owner.post(`${path}/${id}/set-default`)).status).toBe(200);
    await world.observe('deployment', next, { phase: 'succeeded' });
    await agentIsThere();
    const again = await open('/watch', owner, `&cursor=${cursor as string}`);
    const missed = async (kind: string, count: number) => {
      const changes = () => again.all.filter((it) => it['kind'] === kind).map(({ object }) => object);
      await expect.poll(changes).toHaveLength(count);
      return changes();
    };
    expect(await missed('deployment', 2)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: deployment, is_current: false }),
        expect.objectContaining({ id: next, is_current: true }),
      ]),
    );
    expect(await missed('environment', 2)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id, is_default: true }),
        expect.objectContaining({ id: place.environment, is_default: false }),
      ]),
    );
    expect(await missed('server', 1)).toMatchObject([{ agent_status: 'connected' }]);
    expect(again.all.some(({ type }) => type === 'gap')).toBe(false);
  });

  it('sends what has changed since a position of before it began to remember deletions, after a gap', async () => {
    const first = await open('/watch');
    const { cursor } = await first.next('ready');
    const [history] = String(cursor).split(/-\d+$/);
    await first[Symbol.asyncDispose]();
    const again = await open('/watch', owner, `&cursor=${history}-1`);
    await again.next('gap');
    const projects = () => again.all.filter(({ kind }) => kind === 'project').map(({ id }) => id);
    await expect.poll(projects).toContain(place.project);
  });

  it('sends a gap in place of more changes than may wait for a reader', async () => {
    const first = await open('/watch');
    const { cursor } = await first.next('ready');
    await first[Symbol.asyncDispose]();
    const description = 'x'.repeat(2000);
    for (let batch = 0; batch < 30; batch += 1) {
      const unit = world.repo.begin();
      for (let n = 0; n < 10; n += 1) {
        const name = `project-${batch}-${n}`;
        unit.create('project', crypto.randomUUID(), desiredState('project', { name, description }));
      }
      await unit.commit();
    }
    await world.settled();
    const again = await open('/watch', owner, `&cursor=${cursor as string}`);
    await again.next('gap');
    const { id } = (await owner.post('/projects', { name: 'live' })).data;
    // its environment comes with it, in the order of their ids
    const live = () => again.all.filter(({ type, kind }) => type === 'change' && kind === 'project');
    await expect.poll(live).toEqual([expect.objectContaining({ id })]);
    const old = await open('/watch', owner, '&cursor=1');
    await old.next('gap');
    await owner.put(`/projects/${id}`, { name: 'later' });
    expect(await old.next('change')).toMatchObject({ id, object: { name: 'later' } });
  });

  it('shows how far the build of a deployment is, and no progress once it has ended', async () => {
    const source = { source_type: 'git', repository_url: 'https://git.test/a.git', branch: 'main' };
    const body = { ...source, project_id: place.project, server_id: place.server, dockerfile_path: 'Dockerfile' };
    const application = (await owner.post('/applications', { ...body, name: 'built' })).data.id;
    const deployment = (await owner.post(`/applications/${application}/deploy`)).data.id;
    const build = assignmentId.task(deployment, 'build');
    await world.create('assignment', build, {
      ...desiredState('assignment', { spec: buildSpec() }),
      server_id: place.server,
      project_id: place.project,
      workload_id: application,
      version: deployment,
    });
    await world.observe('deployment', deployment, { phase: 'building' });
    const shown = async () => (await owner.get(`/deployments/${deployment}`)).data.progress;
    expect(await shown()).toBeNull();
    const frames = await open('/watch', owner, '&kinds=deployment');
    await frames.next('ready');

    const state = { phase: 'running' as const, ready: false, stable: false, restarts: 0, crash_loop: false };
    await world.observe('assignment', build, { ...state, progress: { step: 'cloning' } });
    const cloning = { step: 'cloning', done: null, total: null, unit: null };
    expect(await frames.next('change')).toMatchObject({ id: deployment, object: { progress: cloning } });
    expect(await shown()).toEqual(cloning);
    const progress = { step: 'building', done: 2, total: 7, unit: 'steps' };
    await world.observe('assignment', build, { ...state, progress });
    expect(await frames.next('change')).toMatchObject({ id: deployment, object: { progress } });
    expect((await owner.get(`/applications/${application}/deployments`)).data).toMatchObject([{ progress }]);
    await world.observe('assignment', build, { ...state, progress, commit: 'c0ffee' });

    await world.observe('assignment', build, { ...state, phase: 'succeeded', image_digest: 'sha256:1' });
    expect(await frames.next('change')).toMatchObject({ id: deployment, object: { progress: null } });
    expect(frames.all.filter(({ type }) => type === 'change')).toHaveLength(3);
    await world.observe('assignment', build, { ...state, progress });
    expect(await frames.next('change')).toMatchObject({ object: { progress } });
    await world.observe('deployment', deployment, { phase: 'cancelled' });
    expect(await frames.next('change')).toMatchObject({ object: { status: 'cancelled', progress: null } });
  });

  it('cuts a reader off who is too slow, and no other', async () => {
    const [slow, quick] = [await open('/watch'), await open('/watch')];
    slow.socket.pause();
    // more than what the kernel keeps for both ends of a connection
    for (let n = 0; n <= 3000; n += 1)
      await world.repo.change('application', app, (draft) => {
        draft.config.start_command = String(n).padEnd(4000, 'x');
        draft.watch_paths = String(n).padEnd(2000, 'y');
      });
    const shown = () => (quick.all.at(-1)?.['object'] as { start_command?: string } | undefined)?.start_command;
    await expect.poll(shown, { timeout: 10_000 }).toBe('3000'.padEnd(4000, 'x'));
    slow.socket.resume();
    expect([1006, 1013]).toContain((await slow.closed).code);
    expect(slow.all.length).toBeLessThan(3000);
    expect(quick.socket.readyState).toBe(quick.socket.OPEN);
  });
});

describe('notifications', () => {
  it('come as they are made, to their user alone', async () => {
    const user = await world.user();
    const frames = await open('/notifications', user);
    const { cursor } = await frames.next('ready');
    const notification = {
      type: 'deployment.failed',
      severity: 'error' as const,
      title: 't',
      message: 'm',
      read: false,
    };
    const mine = crypto.randomUUID();
    await world.create('notification', crypto.randomUUID(), { ...notification, user_id: crypto.randomUUID() });
    await world.create('notification', mine, { ...notification, user_id: user.id });
    expect(await frames.next('notification')).toEqual({
      type: 'notification',
      id: mine,
      kind: 'deployment.failed',
      severity: 'error',
      title: 't',
      message: 'm',
      resource: null,
      created_at: expect.any(String),
      read: false,
      cursor: expect.any(String),
    });
    const again = await open('/notifications', user, `&cursor=${cursor as string}`);
    expect(await again.next('notification')).toMatchObject({ id: mine });
    expect((await user.get('/notifications?unread=true')).data).toHaveLength(1);
    expect((await user.post('/notifications/read')).data).toEqual({ marked: 1 });
    expect((await user.get('/notifications?unread=true')).data).toEqual([]);
    expect(await frames.next('notification')).toMatchObject({ id: mine, read: true });
  });
});
