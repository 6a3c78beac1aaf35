import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startHostProxy } from '../../harness/host-proxy.ts';
import { askHost } from '../../harness/through-proxy.ts';

const host = 'one.test';
/** What another proxy, which terminates TLS, says of a client that claimed to be a third one. */
const told = {
  'x-forwarded-for': '198.51.100.9, 203.0.113.7',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'www.test',
};
let folder: string;

beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'setpoint-trusted-'))));
afterEach(() => rm(folder, { recursive: true }));

async function seenThrough(trusted_proxies?: string[]): Promise<unknown> {
  await using proxy = await startHostProxy(folder, host, { settings: { ...(trusted_proxies && { trusted_proxies }) } });
  expect((await askHost(`http://${host}/`, proxy.port, { headers: told })).status).toBe(200);
  return Object.fromEntries(Object.entries(proxy.seen).filter(([name]) => name.startsWith('x-forwarded-')));
}

it('drops what a client says of itself', async () => {
  const own = { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http', 'x-forwarded-host': host };
  expect(await seenThrough()).toEqual(own);
  expect(await seenThrough(['10.0.0.0/8'])).toEqual(own);
});

it('passes on what a trusted proxy says, and adds the address of that', async () => {
  expect(await seenThrough(['10.0.0.0/8', '127.0.0.1'])).toEqual({
    ...told,
    'x-forwarded-for': '198.51.100.9, 203.0.113.7, 127.0.0.1',
  });
});
