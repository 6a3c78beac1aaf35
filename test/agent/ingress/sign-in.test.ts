import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Route } from '../../../agent-protocol/workload.ts';
import { createPasswords } from '../../../api/auth/passwords.ts';
import { startHostProxy } from '../../harness/host-proxy.ts';
import type { HostProxy } from '../../harness/host-proxy.ts';
import { askHost } from '../../harness/through-proxy.ts';
import { longTag } from '../../layer-report.ts';

const host = 'open.test';
const password = 'correct horse';
/** The proxy of a server may use 512 MiB. */
const mostKiB = 400 * 1024;
let folder: string;
let proxy: HostProxy;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-sign-in-'));
  const basic_auth = [{ username: 'ann', password_hash: await createPasswords().hash(password) }];
  const hosts = ['one.test', 'two.test', ...Array.from({ length: 12 }, (_, n) => `${n}.test`)];
  const routes = hosts.map((name) => Route.parse({ host: name, tls: 'off', basic_auth }));
  proxy = await startHostProxy(folder, host, { closed: routes });
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

function ask(name: string, credentials: string, asking: { method?: string; body?: string } = {}) {
  const headers = { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` };
  return askHost(`http://${name}/`, proxy.port, { headers, ...asking });
}

/** The most memory that the proxy has used. */
async function peakKiB(): Promise<number> {
  const status = await readFile(`/proc/${proxy.pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1]);
}

it('lets only its users pass, with their bodies', async () => {
  expect(await ask('one.test', `ann:${password}`)).toMatchObject({ status: 200, body: 'Hello' });
  expect((await ask('one.test', `ann:${password}`, { method: 'POST', body: 'a body' })).status).toBe(200);
  for (const wrong of ['ann:wrong', `bob:${password}`, 'ann:', ':', 'x'.repeat(2000)]) {
    const { status, headers } = await ask('one.test', wrong);
    expect([wrong.slice(0, 20), status, headers['www-authenticate']]).toEqual([
      wrong.slice(0, 20),
      401,
      'Basic realm="restricted"',
    ]);
  }
  expect((await askHost('http://one.test/', proxy.port)).status).toBe(401);
});

it('keeps its memory and serves the others while many passwords are tried at once', async () => {
  const tried = Array.from({ length: 200 }, (_, n) => ask('one.test', `user-${n}:wrong-${n}`));
  let isOver = false;
  const over = Promise.all(tried).finally(() => (isOver = true));
  const served: number[] = [];
  while (!isOver) {
    served.push((await askHost(`http://${host}/`, proxy.port)).status);
    served.push((await ask('two.test', `ann:${password}`)).status);
  }
  expect(new Set(served)).toEqual(new Set([200]));
  // those for whom there was no room in time are refused
  for (const { status } of await over) expect([401, 503]).toContain(status);
  expect(await peakKiB()).toBeLessThan(mostKiB);
  expect((await ask('one.test', `ann:${password}`)).status).toBe(200);
});

it('keeps its memory while passwords of many applications are tried at once', { tags: [longTag] }, async () => {
  const tried = Array.from({ length: 200 }, (_, n) => ask(`${n % 12}.test`, `user-${n}:wrong-${n}`));
  for (const { status } of await Promise.all(tried)) expect([401, 503]).toContain(status);
  expect(await peakKiB()).toBeLessThan(mostKiB);
});
