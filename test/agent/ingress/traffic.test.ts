import { appendFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { TrafficPage } from '../../../agent-protocol/traffic.ts';
import { latencyError, mostTrafficPoints, TrafficSample, windowMs } from '../../../agent-protocol/traffic.ts';
import { buckets, bucketOf, latencyOf } from '../../../agent/ingress/latencies.ts';
import { Traffic } from '../../../agent/ingress/traffic.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

let folder: string;
let clock: FakeClock;
let log: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-traffic-'));
  await mkdir(join(folder, 'log'));
  log = join(folder, 'log/access.log');
  clock = new FakeClock();
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const owners = new Map([['one.test', 'w1']]);

function open(): Traffic {
  return new Traffic({
    logFolder: join(folder, 'log'),
    folder: join(folder, 'traffic'),
    ownerOf: (host) => owners.get(host),
    clock,
    log: pino({ level: 'silent' }),
  });
}

/** A line of the log of the proxy, written now. */
function line(more: Record<string, unknown> = {}, host = 'one.test'): string {
  const usual = { duration: 0.01, size: 10, status: 200, bytes_read: 0, upstream: 'i-10-0-0-1.setpoint.:80' };
  return `${JSON.stringify({ ts: clock.now().getTime() / 1000, request: { host }, ...usual, ...more })}\n`;
}

const page = (traffic: Traffic, more = {}): TrafficPage => {
  const to = clock.now().getTime();
  return traffic.read({ workload_id: 'w1', since: to - 3_600_000, until: to, step_ms: windowMs, ...more });
};

/** Lets time pass by seconds until the page is as wanted. */
async function passes(traffic: Traffic, isThere: (page: TrafficPage) => boolean): Promise<TrafficPage> {
  await until('the requests are counted', async () => {
    await clock.advance(1000);
    return isThere(page(traffic));
  });
  return page(traffic);
}

const counts = (n: number) => (it: TrafficPage) => it.total.requests === n;

/** An instance at that address, and a log that is read. */
async function reading(): Promise<Traffic> {
  const traffic = open();
  traffic.offered('a', { workload: 'w1', service: 'main', address: '10.0.0.1', ports: [80] });
  traffic.start();
  await passes(traffic, ({ rows }) => rows.length > 0);
  return traffic;
}

it('counts each request by its instance, and what the proxy answered itself by none', async () => {
  await using traffic = await reading();
  await writeFile(
    log,
    [
      line({ bytes_read: 5 }),
      line({ status: 404 }, 'ONE.test:8080'),
      line({ status: 101, duration: 900, size: 3 }),
      line({ status: 503, upstream: 'i-127-0-0-1.setpoint.:9' }),
      line({ status: 503, error: 504 }),
      line({ status: 401, upstream: undefined, error: 401, workload: 'w1' }, 'other.test'),
      line({ status: 413, error: 413 }),
      line({ status: 0, size: 0 }),
      line({ duration: 0, upstream: undefined, size: 2 }),
      line({ status: 404, upstream: undefined }, 'unknown.test'),
    ].join(''),
  );
  const { total, instances } = await passes(traffic, counts(9));
  expect(total).toMatchObject({
    complete: true,
    status: { '1xx': 1, '2xx': 2, '3xx': 0, '4xx': 3, '5xx': 2 },
    bytes_in: 5,
    bytes_out: 65,
    refused: { unavailable: 2, unauthorized: 1, body_too_large: 1 },
    aborted: 1,
    cut: 1,
  });
  expect(instances).toHaveLength(1);
  expect(instances[0]).toMatchObject({
    instance_id: 'a',
    requests: 5,
    refused: { unavailable: 1 },
    aborted: 1,
    cut: 0,
  });
  expect(Math.abs(total.latency_ms!.p50 - 10)).toBeLessThanOrEqual(10 * latencyError);
});

it('has zeros for a time without requests, and nothing for a time of which nothing is known', async () => {
  await writeFile(log, line());
  await using traffic = open();
  traffic.start();
  const { rows, total } = await passes(traffic, (it) => it.rows.length === 3);
  expect(rows.map(({ requests, complete }) => [requests, complete])).toEqual([
    [0, true],
    [0, true],
    [0, true],
  ]);
  // what was there before the agent was started at first is of no known time
  expect(total.requests).toBe(0);
  expect(page(traffic, { until: clock.now().getTime() - 60_000 }).rows).toEqual([]);
});

it('goes on when the clock was ahead and went back, also after another start, and stores no endless gap', async () => {
  const hours = 8 * 3_600_000;
  const traffic = await reading();
  await writeFile(log, line());
  await passes(traffic, counts(1));
  clock.jump(hours);
  await appendFile(log, line());
  await passes(traffic, counts(1)); // the hour before it is that of the wrong time
  clock.jump(-hours);
  await passes(traffic, ({ rows }) => rows.length > 0);
  await appendFile(log, line() + line());
  const { instances } = await passes(traffic, counts(2));
  await passes(traffic, ({ rows }) => rows.at(-1)?.complete === true);
  expect(instances.map(({ instance_id }) => instance_id)).toEqual(['a']);
  clock.jump(hours);
  await appendFile(log, line());
  await passes(traffic, counts(1));
  await traffic[Symbol.asyncDispose]();
  clock.jump(-hours);
  await using again = open();
  again.start();
  await passes(again, ({ rows }) => rows.length > 0);
  await appendFile(log, line());
  await passes(again, counts(1));
  expect(page(again, { until: clock.now().getTime() + hours }).rows.at(-1)!.at).toBeLessThanOrEqual(
    clock.now().getTime(),
  );
});

it('keeps what was counted before, when the clock goes back by half a minute, also over a start', async () => {
  {
    await using traffic = await reading();
    await writeFile(log, line() + line() + line());
    await passes(traffic, counts(3));
    await passes(traffic, ({ rows }) => rows.length > 12);
    clock.jump(-30_000);
    await appendFile(log, line());
    await passes(traffic, counts(4));
  }
  await using again = open();
  again.start();
  await passes(again, counts(4));
});

it('marks no more windows of a gap than an hour has, however long it was', async () => {
  {
    await using traffic = await reading();
    await writeFile(log, line());
    await passes(traffic, counts(1));
  }
  await rm(log);
  clock.jump(3 * 365 * 86_400_000);
  await using traffic = open();
  traffic.start();
  await writeFile(log, line());
  await passes(traffic, counts(1));
  const [name] = (await readdir(join(folder, 'traffic'))).toSorted().slice(-1);
  const stored = (await readFile(join(folder, 'traffic', name!), 'utf8')).trim().split('\n');
  const partial = stored.map((text) => (JSON.parse(text) as { partial: number[] }).partial.length);
  expect(Math.max(...partial)).toBeLessThanOrEqual(mostTrafficPoints + 1);
});

it('reads on in files that were rolled, and says where lines are missing', async () => {
  await using traffic = await reading();
  await writeFile(log, line());
  await passes(traffic, counts(1));
  await appendFile(log, line());
  await rename(log, join(folder, 'log/access-1.log'));
  await writeFile(join(folder, 'log/access-2.log'), line());
  await writeFile(log, line());
  expect((await passes(traffic, counts(4))).total.complete).toBe(true);

  await rm(join(folder, 'log/access-1.log'));
  await rm(join(folder, 'log/access-2.log'));
  await rm(log);
  await clock.advance(20_000);
  await writeFile(log, line());
  const { total, rows } = await passes(traffic, counts(5));
  expect(total.complete).toBe(false);
  expect(rows.findLast(({ requests }) => requests > 0)?.complete).toBe(false);
  expect(rows[0]?.complete).toBe(true);
});

it('does not know what a line said that was cut', async () => {
  await using traffic = await reading();
  await writeFile(log, line().slice(0, 90).padEnd(100));
  await appendFile(log, `\n${line()}`);
  const { total } = await passes(traffic, counts(1));
  expect(total.complete).toBe(false);
});

it('counts once what came while the agent was away, and what it had read when it was killed', async () => {
  {
    await using traffic = await reading();
    await writeFile(log, line());
    await passes(traffic, counts(1));
    await appendFile(log, line());
    await clock.advance(1000); // read, and not stored
  }
  await appendFile(log, line());
  await clock.advance(30_000);
  await using again = open();
  again.start();
  const { instances, rows } = await passes(again, counts(3));
  expect(instances).toMatchObject([{ instance_id: 'a', requests: 3 }]);
  // it is known of the time between, too
  expect(rows.length).toBeGreaterThanOrEqual(7);
  expect(rows.every(({ complete }) => complete)).toBe(true);
});

it('gives a request to the instance that had the address then', async () => {
  await using traffic = await reading();
  const early = line();
  await clock.advance(5000);
  traffic.offered('b', { workload: 'w1', service: 'main', address: '10.0.0.1', ports: [80] });
  await writeFile(log, early + line() + line());
  const { instances } = await passes(traffic, counts(3));
  expect(instances.map(({ instance_id, requests }) => [instance_id, requests])).toEqual([
    ['a', 1],
    ['b', 2],
  ]);
});

it('keeps an hour, in files that are bounded, and nothing about clients', async () => {
  await using traffic = await reading();
  await writeFile(log, '');
  for (let n = 0; n < 12; n++) {
    await appendFile(log, line());
    const window = Math.floor(clock.now().getTime() / windowMs) * windowMs;
    await passes(traffic, ({ rows }) => rows.at(-1)!.at > window);
    traffic.stop();
    await clock.advance(600_000);
    traffic.start();
  }
  await passes(traffic, ({ rows }) => rows.at(-1)!.at > clock.now().getTime() - 3 * windowMs);
  expect(page(traffic).rows.length).toBeGreaterThan(mostTrafficPoints - 3);
  expect(page(traffic).rows.length).toBeLessThanOrEqual(mostTrafficPoints);
  expect(page(traffic).total.requests).toBe(5);
  const files = await readdir(join(folder, 'traffic'));
  expect(files.length).toBeLessThanOrEqual(9);
  expect(await readFile(join(folder, 'traffic', files[0]!), 'utf8')).not.toContain('one.test');
});

it('streams each window once it is over', async () => {
  await using traffic = await reading();
  const stop = new AbortController();
  const stream = traffic.newest('w1', stop.signal)[Symbol.asyncIterator]();
  const next = async (): Promise<TrafficSample> =>
    TrafficSample.parse(JSON.parse(Buffer.from((await stream.next()).value!).toString()));
  const first = await next();
  await writeFile(log, line());
  const later = next();
  await passes(traffic, counts(1));
  const second = await later;
  expect(second.at - first.at).toBe(windowMs);
  expect(first.requests + second.requests).toBeLessThanOrEqual(1);
  stop.abort();
});

it('has buckets that are as exact as is said, up to an hour', () => {
  for (let ms = 0.11; ms < 3_600_000; ms *= 1.013) {
    const bucket = bucketOf(ms);
    expect(Math.abs(latencyOf(bucket) - ms)).toBeLessThanOrEqual(ms * latencyError * 1.0001);
    expect(bucket).toBeLessThan(buckets);
  }
});
