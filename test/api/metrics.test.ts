import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { MetricsPage, MetricsQuery, ServerSample } from '../../agent-protocol/metrics.ts';
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
let asked: MetricsQuery[];
let opened: Frames[];

const noon = Date.parse('2030-01-01T00:00:00.000Z');

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
  root = await world.owner();
  owner = await world.user();
  place = await world.place(owner);
  const source = { source_type: 'image', image_url: 'example/web' };
  app = (
    await owner.post('/applications', { project_id: place.project, server_id: place.server, name: 'web', ...source })
  ).data.id;
  await agentIsThere(world.store, place);
  await world.settled();
  asked = [];
  opened = [];
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

/** Lets the agents answer with these rows. */
function agentHas(page: Partial<MetricsPage>): void {
  world.agents.answer = (_server: string, params: CallParams): unknown => {
    if (params.method !== 'metrics.read') throw new CallError('unsupported', 'Not asked for');
    asked.push(params.query);
    const { since, until: to, step_ms } = params.query;
    return { since, until: to, step_ms, rows: [], ...page };
  };
}

const path = (query = ''): string => `/servers/${place.server}/metrics${query}`;

describe('the metrics of a server', () => {
  it('are the means and the largest samples of each step, and what runs there', async () => {
    agentHas({
      step_ms: 300_000,
      rows: [[noon, 12.5, 0.5, 500, 1000, 30, 120, 7, 8, 99, 1.5, 600, 1000, 31, 120, 70, 80]],
      latest: [
        { workload_id: 'w', instance_id: 'a', values: { cpu_percent: 10.25, memory_used_bytes: 5 } },
        { workload_id: 'w', instance_id: 'b', values: { cpu_percent: 1, disk_read_bps: 3 } },
      ],
    });
    const { status, data } = await root.get(path('?since=2h&step=1m'));
    expect(status).toBe(200);
    expect(asked).toEqual([{ since: noon - 7_200_000, until: noon, step_ms: 60_000 }]);
    expect(data).toEqual({
      server_id: place.server,
      since: '2029-12-31T22:00:00.000Z',
      until: '2030-01-01T00:00:00.000Z',
      step_seconds: 300,
      points: [
        {
          timestamp: '2030-01-01T00:00:00.000Z',
          cpu: { percent: 12.5, load1: 0.5 },
          memory: { used_bytes: 500, total_bytes: 1000, percent: 50 },
          disk: { used_bytes: 30, total_bytes: 120, percent: 25 },
          network: { rx_bps: 7, tx_bps: 8 },
          max: {
            cpu_percent: 99,
            memory_used_bytes: 600,
            disk_used_bytes: 31,
            network_rx_bps: 70,
            network_tx_bps: 80,
          },
        },
      ],
      workloads: [
        {
          workload_id: 'w',
          instances: 2,
          cpu: { percent: 11.25 },
          memory: { used_bytes: 5, limit_bytes: null },
          network: { rx_bps: null, tx_bps: null },
          disk: { read_bps: 3, write_bps: null },
        },
      ],
    });
  });

  it('are null where nothing was measured', async () => {
    agentHas({ rows: [[noon, ...Array.from({ length: 16 }, () => null)]] });
    const [point] = (await root.get(path())).data.points;
    expect(point).toMatchObject({
      cpu: { percent: null },
      memory: { percent: null },
      disk: { used_bytes: null, percent: null },
      max: { cpu_percent: null },
    });
  });

  it('show users of projects neither network nor workloads', async () => {
    const bytes = 777_777_777; // no id has it by chance
    agentHas({
      rows: [[noon, 1, 1, 1, 1, 1, 1, bytes, bytes, 1, 1, 1, 1, 1, 1, bytes, bytes]],
      latest: [{ workload_id: 'w', instance_id: 'a', values: {} }],
    });
    const { status, data } = await owner.get(path());
    expect(status).toBe(200);
    expect(data.points).toHaveLength(1);
    expect(data.points[0]).toMatchObject({ cpu: { percent: 1 }, max: { cpu_percent: 1 } });
    expect(JSON.stringify(data)).not.toMatch(/network|777777777|workload/);
  });

  it('are of the last hour, in steps of 5 s, if nothing else is asked for', async () => {
    agentHas({});
    await root.get(path());
    await root.get(path('?since=2029-12-31T12:00:00Z&until=2029-12-31T14:00:00%2B01:00&step=300'));
    expect(asked).toEqual([
      { since: noon - 3_600_000, until: noon, step_ms: 5000 },
      { since: noon - 12 * 3_600_000, until: noon - 11 * 3_600_000, step_ms: 300_000 },
    ]);
  });

  it.each([
    ['?since=yesterday', 'since'],
    ['?until=now', 'until'],
    ['?since=1h&until=2h', 'since'],
    ['?since=2031-01-01T00:00:00Z', 'since'],
    ['?since=1960-01-01T00:00:00Z', 'since'],
    ['?step=4s', 'step'],
    ['?step=61m', 'step'],
    ['?step=2h', 'step'],
    ['?step=-5', 'step'],
    ['?step=1d', 'step'],
    ['?step=', 'step'],
  ])('with %s are refused, and the field is named', async (query, field) => {
    agentHas({});
    const { status, body } = await root.get(path(query));
    expect(status).toBe(400);
    expect(body.error?.details?.[0]).toMatchObject({ field });
    expect(asked).toEqual([]);
  });

  it('of an agent that is away are not available', async () => {
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    await world.settled();
    expect((await root.get(path())).status).toBe(503);
  });

  it('of an agent of an earlier release are refused with what to do', async () => {
    await agentIsThere(world.store, place, { capabilities: ['services'] });
    await world.settled();
    const { status, body } = await root.get(path());
    expect(status).toBe(409);
    expect(body.error?.message).toContain('upgrade the agent');
  });

  it.each([
    ['no metrics', { rows: 'none' }],
    ['too many rows', { rows: Array.from({ length: 2017 }, () => [noon]) }],
    ['rows that are too long', { rows: [[noon, ...Array.from({ length: 17 }, () => 1)]] }],
  ])('of an agent that answers with %s are refused', async (_, page) => {
    agentHas(page as Partial<MetricsPage>);
    const { status, body } = await root.get(path());
    expect(status).toBe(409);
    expect(body.error?.details?.[0]).toMatchObject({ reason: 'malformed' });
  });
});

describe('the metrics of an application', () => {
  it('are those of its instances together, or of one', async () => {
    agentHas({ rows: [[noon, 150, 500, 1000, 1, 2, 3, 4, 160, 600, 1000, 10, 20, 30, 40]] });
    const { status, data } = await owner.get(`/applications/${app}/metrics?since=15m`);
    expect(status).toBe(200);
    expect(data).toEqual({
      application_id: app,
      server_id: place.server,
      since: '2029-12-31T23:45:00.000Z',
      until: '2030-01-01T00:00:00.000Z',
      step_seconds: 5,
      points: [
        {
          timestamp: '2030-01-01T00:00:00.000Z',
          cpu: { percent: 150 },
          memory: { used_bytes: 500, limit_bytes: 1000 },
          network: { rx_bps: 1, tx_bps: 2 },
          disk: { read_bps: 3, write_bps: 4 },
          max: {
            cpu_percent: 160,
            memory_used_bytes: 600,
            network_rx_bps: 10,
            network_tx_bps: 20,
            disk_read_bps: 30,
            disk_write_bps: 40,
          },
        },
      ],
    });
    const instance = crypto.randomUUID();
    await owner.get(`/applications/${app}/metrics?instance_id=${instance}`);
    expect(asked.map(({ workload_id, instance_id }) => [workload_id, instance_id])).toEqual([
      [app, undefined],
      [app, instance],
    ]);
    expect((await owner.get(`/applications/${app}/metrics?instance_id=../x`)).status).toBe(400);
  });
});

/** A server that measures what the test tells it to. */
function measuring() {
  const waiting: ServerSample[] = [];
  let wake = Promise.withResolvers<void>();
  let isCut = false;
  const it = {
    open: 0,
    opened: 0,
    send(one: ServerSample): void {
      waiting.push(one);
      wake.resolve();
    },
    cut(): void {
      isCut = true;
      wake.resolve();
    },
  };
  world.agents.sample = async function* (_server, signal) {
    it.open += 1;
    it.opened += 1;
    signal.addEventListener('abort', () => wake.resolve(), { once: true });
    try {
      while (!signal.aborted) {
        if (isCut) {
          isCut = false;
          throw new CallError('away', 'The agent is gone');
        }
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

const sample = (n: number): ServerSample => ({
  at: noon + n * 5000,
  cores: 2,
  values: { cpu_percent: n, load1: 0.5, memory_used_bytes: 1, memory_total_bytes: 4, network_rx_bps: 5 },
});

async function follow(by: Client): Promise<Frames> {
  const address = `${world.url.replace('http', 'ws')}/default/ws/servers/${place.server}/metrics?token=${by.token ?? ''}`;
  const frames = await openFrames(address);
  opened.push(frames);
  expect(await frames.next('ready')).toEqual({ type: 'ready', cursor: expect.any(String) });
  return frames;
}

const frame = (n: number): object => ({
  type: 'metrics',
  timestamp: new Date(noon + n * 5000).toISOString(),
  cpu: { percent: n, cores: 2, load1: 0.5 },
  memory: { used_bytes: 1, total_bytes: 4, percent: 25 },
  disk: { used_bytes: null, total_bytes: null, percent: null },
  network: { rx_bps: 5, tx_bps: null },
});

describe('the stream of a server', () => {
  it('has each sample, beginning with the newest, for all readers by one stream of the agent', async () => {
    const server = measuring();
    const first = await follow(root);
    server.send(sample(1));
    expect(await first.next('metrics')).toEqual(frame(1));
    const second = await follow(root);
    expect(await second.next('metrics')).toEqual(frame(1));
    server.send(sample(2));
    expect(await first.next('metrics')).toEqual(frame(2));
    expect(await second.next('metrics')).toEqual(frame(2));
    expect(server.opened).toBe(1);
    first.socket.close();
    second.socket.close();
    await until('the stream of the agent is over', async () => server.open === 0);
  });

  it('shows users of projects no network, also one who was an admin when it began', async () => {
    await world.repo.change('user', owner.id, (draft) => void (draft.role = 'admin'));
    await world.settled();
    const server = measuring();
    const frames = await follow(owner);
    server.send(sample(1));
    expect(await frames.next('metrics')).toEqual(frame(1));
    await world.repo.change('user', owner.id, (draft) => void (draft.role = 'user'));
    await world.settled();
    server.send(sample(2));
    const { network: _, ...masked } = frame(2) as Record<string, unknown>;
    expect(await frames.next('metrics')).toEqual(masked);
  });

  it('goes on when the agent is back, without a sample of the time between', async () => {
    const server = measuring();
    const frames = await follow(root);
    server.send(sample(1));
    await frames.next('metrics');
    server.cut();
    await until('the agent is away', async () => server.open === 0);
    await clock.advance(2000);
    await until('it is followed again', async () => server.open === 1);
    server.send(sample(9));
    expect(await frames.next('metrics')).toEqual(frame(9));
    expect(frames.all).toHaveLength(3);
  });

  it('keeps nothing for a reader that is slow, which goes on with the newest sample', async () => {
    const server = measuring();
    const quick = await follow(root);
    const slow = await follow(root);
    slow.socket.pause();
    const count = 40_000;
    for (let n = 1; n <= count; n++) {
      server.send(sample(n));
      if (n % 20 === 0) await setImmediate();
    }
    slow.socket.resume();
    await until('the slow reader has read what was on its way', async () => {
      const before = slow.all.length;
      await setImmediate();
      return before > 0 && slow.all.length === before;
    });
    expect(slow.all.length).toBeLessThan(count);
    server.send(sample(count + 1));
    const last = (frames: Frames): unknown => frames.all.at(-1);
    await until('both have the newest', async () =>
      [quick, slow].every((it) => JSON.stringify(last(it)) === JSON.stringify(frame(count + 1))),
    );
  });

  it('of an agent that is away, or of an earlier release, is refused before it opens', async () => {
    await agentIsThere(world.store, place, { capabilities: [] });
    await world.settled();
    await expect(follow(root)).rejects.toMatchObject({ status: 409 });
    await world.store.txn({ if: [], then: [{ delete: keys.agent('default', place.server) }] });
    await world.settled();
    await expect(follow(root)).rejects.toMatchObject({ status: 503 });
  });
});
