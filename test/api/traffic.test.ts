import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { TrafficCounts, TrafficPage, TrafficQuery, TrafficSample } from '../../agent-protocol/traffic.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';
import { agentIsThere } from '../harness/running-instance.ts';
import { until } from '../harness/until.ts';

let world: ApiWorld;
let clock: FakeClock;
let root: Client;
let owner: Client & { id: string };
let place: { project: string; environment: string; server: string };
let app: string;
let asked: TrafficQuery[];
let opened: Frames[];

const noon = Date.parse('2030-01-01T00:00:00.000Z');

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
  root = await world.owner();
  owner = await world.user();
  place = await world.place(owner);
  await agentIsThere(world.store, place);
  await world.settled();
  await root.put(`/servers/${place.server}`, { ingress: { enabled: true } });
  app = (await create('web', [{ host: 'web.example.test' }])).id;
  asked = [];
  opened = [];
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function create(name: string, domains: object[]): Promise<{ id: string }> {
  const source = { source_type: 'image', image_url: 'example/web', exposed_port: 80 };
  const body = { project_id: place.project, server_id: place.server, name, domains, ...source };
  const answer = await owner.post('/applications', body);
  expect(answer.body).toMatchObject({ success: true });
  return answer.data;
}

const none: TrafficCounts = {
  requests: 0,
  status: { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 },
  latency_ms: null,
  bytes_in: 0,
  bytes_out: 0,
  refused: { unavailable: 0, unauthorized: 0, body_too_large: 0 },
  aborted: 0,
  cut: 0,
};
const some: TrafficCounts = {
  ...none,
  requests: 10,
  status: { ...none.status, '2xx': 9, '5xx': 1 },
  latency_ms: { p50: 1.5, p95: 20, p99: 30 },
  bytes_in: 7,
  bytes_out: 800,
};
const shown = { ...none, rps: 0, latency_ms: { p50: null, p95: null, p99: null } };

function agentHas(page: Partial<TrafficPage>): void {
  world.agents.answer = (_server: string, params: CallParams): unknown => {
    if (params.method !== 'traffic.read') throw new CallError('unsupported', 'Not asked for');
    asked.push(params.query);
    const { since, until: to, step_ms } = params.query;
    return { since, until: to, step_ms, rows: [], total: { complete: false, ...none }, instances: [], ...page };
  };
}

describe('the traffic of an application', () => {
  it('is what its server counted, by steps and by instances', async () => {
    agentHas({
      rows: [
        { at: noon - 10_000, complete: true, ...some },
        { at: noon - 5_000, complete: false, ...none },
      ],
      total: { complete: false, ...some },
      instances: [{ instance_id: 'i-1', ...some }],
    });
    const { status, data } = await owner.get(`/applications/${app}/traffic?since=10s`);
    expect(status).toBe(200);
    expect(asked).toEqual([{ workload_id: app, since: noon - 10_000, until: noon, step_ms: 5000 }]);
    expect(data).toEqual({
      application_id: app,
      server_id: place.server,
      available: true,
      reason: null,
      message: null,
      since: '2029-12-31T23:59:50.000Z',
      until: '2030-01-01T00:00:00.000Z',
      step_seconds: 5,
      total: { complete: false, ...some, rps: 1 },
      points: [
        { timestamp: '2029-12-31T23:59:50.000Z', complete: true, ...some, rps: 2 },
        { timestamp: '2029-12-31T23:59:55.000Z', complete: false, ...shown },
      ],
      instances: [{ instance_id: 'i-1', ...some, rps: 1 }],
    });
  });

  it('of a time of which nothing is known has no total', async () => {
    agentHas({});
    expect((await owner.get(`/applications/${app}/traffic`)).data).toMatchObject({ total: null, points: [] });
  });

  it('is not counted without a domain, or without an ingress, which is said in place of zeros', async () => {
    agentHas({});
    const plain = await create('plain', []);
    const get = async () => (await owner.get(`/applications/${plain.id}/traffic`)).data;
    expect(await get()).toMatchObject({ available: false, reason: 'NoDomain', total: null, points: [], instances: [] });
    await root.put(`/servers/${place.server}`, { ingress: { enabled: true, wildcard_domain: 'apps.example.test' } });
    expect(await get()).toMatchObject({ available: true, reason: null });
    await root.put(`/servers/${place.server}`, { ingress: { enabled: false } });
    expect(await get()).toMatchObject({ available: false, reason: 'NoIngress' });
    expect(asked).toHaveLength(1);
  });

  it('is for members of its project', async () => {
    agentHas({});
    const [viewer, stranger] = [await world.user(), await world.user()];
    await owner.post(`/projects/${place.project}/members`, { user_id: viewer.id, role: 'viewer' });
    expect((await viewer.get(`/applications/${app}/traffic`)).status).toBe(200);
    expect((await stranger.get(`/applications/${app}/traffic`)).status).toBe(403);
    expect((await owner.get(`/applications/${crypto.randomUUID()}/traffic`)).status).toBe(404);
    await expect(follow(stranger)).rejects.toMatchObject({ status: 403 });
  });

  it('of an agent that is away, or of an earlier release, is refused with what to do', async () => {
    agentHas({});
    await agentIsThere(world.store, place, { capabilities: ['ingress', 'metrics'] });
    await world.settled();
    const { status, body } = await owner.get(`/applications/${app}/traffic`);
    expect(status).toBe(409);
    expect(body.error?.message).toContain('upgrade the agent');
    await expect(follow(owner)).rejects.toMatchObject({ status: 409 });
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    await world.settled();
    expect((await owner.get(`/applications/${app}/traffic`)).status).toBe(503);
    await expect(follow(owner)).rejects.toMatchObject({ status: 503 });
  });

  it.each([
    ['?since=yesterday', 'since'],
    ['?step=1s', 'step'],
    ['?instance_id=../x', 'instance_id'],
  ])('with %s is refused, and the field is named', async (query, field) => {
    agentHas({});
    const { status, body } = await owner.get(`/applications/${app}/traffic${query}`);
    expect(status).toBe(400);
    expect(body.error?.details?.[0]).toMatchObject({ field });
  });
});

/** A server that sends the windows that the test tells it to. */
function counting() {
  const waiting: TrafficSample[] = [];
  let wake = Promise.withResolvers<void>();
  const it = {
    opened: [] as string[],
    open: 0,
    send(one: TrafficSample): void {
      waiting.push(one);
      wake.resolve();
    },
  };
  world.agents.window = async function* (_server, workload, signal) {
    it.opened.push(workload);
    it.open += 1;
    signal.addEventListener('abort', () => wake.resolve(), { once: true });
    try {
      while (!signal.aborted) {
        const next = waiting.shift();
        if (next !== undefined) yield next;
        else {
          await wake.promise;
          wake = Promise.withResolvers();
        }
      }
    } finally {
      it.open -= 1;
    }
  };
  return it;
}

async function follow(by: Client, id = app): Promise<Frames> {
  const address = `${world.url.replace('http', 'ws')}/default/ws/applications/${id}/traffic?token=${by.token ?? ''}`;
  const frames = await openFrames(address);
  opened.push(frames);
  expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: expect.any(String) });
  return frames;
}

describe('the stream of traffic', () => {
  const sample = (n: number): TrafficSample => ({
    at: noon + n * 5000,
    complete: true,
    ...some,
    instances: [{ instance_id: 'i-1', ...some }],
  });

  it('has each window, for all readers by one stream of the agent', async () => {
    const server = counting();
    const first = await follow(owner);
    server.send(sample(1));
    const frame = {
      type: 'traffic',
      window_seconds: 5,
      timestamp: '2030-01-01T00:00:05.000Z',
      complete: true,
      ...some,
      rps: 2,
      instances: [{ instance_id: 'i-1', ...some, rps: 2 }],
    };
    expect(await first.next('traffic')).toEqual(frame);
    const second = await follow(root);
    expect(await second.next('traffic')).toEqual(frame);
    expect(server.opened).toEqual([app]);
    first.socket.close();
    second.socket.close();
    await until('the stream of the agent is over', async () => server.open === 0);
  });

  it('says that requests are not counted, and goes on once they are', async () => {
    const server = counting();
    const plain = await create('plain', []);
    const frames = await follow(owner, plain.id);
    expect(await frames.next('unavailable')).toMatchObject({ reason: 'NoDomain' });
    server.send({ at: noon, complete: true, ...none, instances: [] });
    await owner.put(`/applications/${plain.id}`, { domains: [{ host: 'plain.example.test' }] });
    await world.settled();
    server.send({ at: noon + 5000, complete: true, ...none, instances: [] });
    expect(await frames.next('traffic')).toMatchObject({ requests: 0, latency_ms: { p50: null } });
    await root.put(`/servers/${place.server}`, { ingress: { enabled: false } });
    await world.settled();
    await clock.advance(5000);
    expect(await frames.next('unavailable')).toMatchObject({ reason: 'NoIngress' });
  });
});
