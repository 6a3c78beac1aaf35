import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startHostProxy } from '../../harness/host-proxy.ts';
import type { HostProxy } from '../../harness/host-proxy.ts';
import { freePort } from '../../harness/program.ts';
import { askHost } from '../../harness/through-proxy.ts';

const host = 'one.test';
let folder: string;
let proxy: HostProxy;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-unanswered-'));
  proxy = await startHostProxy(folder, host);
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

it('keeps the instances that it knows while the agent is away, also once one of them has failed', async () => {
  proxy.upstreams = [...(proxy.upstreams ?? []), { address: proxy.address, port: await freePort() }];
  expect((await askHost(`http://${host}/`, proxy.port)).status).toBe(200);
  proxy.upstreams = undefined;
  const answers = [];
  for (let n = 0; n < 40; n++) answers.push((await askHost(`http://${host}/`, proxy.port)).status);
  expect(answers.filter((status) => status !== 200)).toEqual([]);
});
