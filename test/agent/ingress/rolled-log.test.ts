import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { windowMs } from '../../../agent-protocol/traffic.ts';
import { Traffic } from '../../../agent/ingress/traffic.ts';
import { systemClock } from '../../../time/clock.ts';
import { startHostProxy } from '../../harness/host-proxy.ts';
import type { HostProxy } from '../../harness/host-proxy.ts';
import { askHost } from '../../harness/through-proxy.ts';
import { until } from '../../harness/until.ts';

vi.setConfig({ testTimeout: 120_000 });

let folder: string;
let proxy: HostProxy;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-rolled-'));
  proxy = await startHostProxy(folder, 'one.test', {
    edit: (config) => config.replace('"roll_size_mb":16', '"roll_size_mb":1'),
  });
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

function open(): Traffic {
  const traffic = new Traffic({
    logFolder: join(folder, 'log'),
    folder: join(folder, 'traffic'),
    ownerOf: () => undefined,
    clock: systemClock,
    log: pino({ level: 'silent' }),
  });
  traffic.offered('a', { workload: 'w', service: 'main', address: proxy.address, ports: [80] });
  return traffic;
}

const total = (traffic: Traffic) => {
  const now = Date.now();
  return traffic.read({ workload_id: 'w', since: now - 3_600_000, until: now, step_ms: windowMs }).total;
};

/** Sends so many requests, none of which may fail. */
async function send(count: number): Promise<void> {
  let left = count;
  const clients = Array.from({ length: 8 }, async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (left-- > 0) expect((await askHost('http://one.test/', proxy.port, { agent })).status).toBe(200);
    agent.destroy();
  });
  await Promise.all(clients);
}

/** Files of the log with their sizes together. */
async function logs(): Promise<{ files: number; bytes: number }> {
  const names = (await readdir(join(folder, 'log'))).filter((name) => name.startsWith('access'));
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, 'log', name))).size));
  return { files: names.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
}

it('counts through the rolls of the log, and says that some are missing if it was not read for too long', { tags: 'long' }, async () => {
  {
    await using traffic = open();
    traffic.start();
    await until('it counts', () => Promise.resolve(total(traffic).complete));
    await send(6_000);
    await until('all are counted', () => Promise.resolve(total(traffic).requests >= 6_000));
    expect(total(traffic)).toMatchObject({ requests: 6_000, complete: true, status: { '2xx': 6_000 } });
    expect((await logs()).files).toBeGreaterThan(1);
  }
  // the reader is away, and the log goes on without it
  await send(18_000);
  const { files, bytes } = await logs();
  expect(files).toBeLessThanOrEqual(3);
  expect(bytes).toBeLessThan(3.3 * 1024 * 1024);
  await using again = open();
  again.start();
  await until('it counts again', () => Promise.resolve(total(again).requests > 6_000));
  expect(total(again).requests).toBeLessThan(24_000);
  expect(total(again).complete).toBe(false);
});
