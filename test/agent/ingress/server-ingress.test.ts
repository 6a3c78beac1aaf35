import { once } from 'node:events';
import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Route } from '../../../agent-protocol/workload.ts';
import type { Proxy } from '../../../agent/ingress/proxy.ts';
import { Refused } from '../../../agent/ingress/proxy.ts';
import { mockProxy } from '../../../agent/ingress/mock-proxy.ts';
import { ProxyFolder } from '../../../agent/ingress/proxy-folder.ts';
import { ServerIngress } from '../../../agent/ingress/server-ingress.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

let folder: string;
const clock = new FakeClock();
const settings = { http_port: 80, https_port: 443, acme: {} };

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-ingress-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

/**
 * A proxy that refuses configurations with the word `bad`, and fails to start with the word `taken`, which an examination
 * does not show; and what it loaded.
 */
function choosy(): { proxy: Proxy; loads: string[] } {
  const loads: string[] = [];
  const inner = mockProxy();
  return {
    loads,
    proxy: {
      ...inner,
      async load(config, signal) {
        const text = JSON.stringify(config);
        if (text.includes('bad')) throw new Refused('there is a bad word');
        if (text.includes('taken')) throw new Refused('address already in use');
        loads.push(text);
        await inner.load(config, signal);
      },
    },
  };
}

let examinations = 0;
function open(proxy: Proxy): ServerIngress {
  examinations = 0;
  return new ServerIngress({
    folder,
    trafficFolder: join(folder, 'traffic'),
    openProxy: () => proxy,
    examine: async (_, [, , , path = '']) => {
      examinations += 1;
      const text = await readFile(join(folder, path.replace('/setpoint/', '')), 'utf8');
      return text.includes('bad') ? 'a bad word' : undefined;
    },
    clock,
    log: pino({ level: 'silent' }),
    opened: () => undefined,
    changed: () => undefined,
  });
}

const withHeader = (host: string, value: string) => ({
  workload: host,
  routes: [Route.parse({ host, headers: { set: { 'X-A': value }, remove: [] } })],
});

it('leaves out only the routes that the proxy refuses, and takes them once they have changed', async () => {
  const { proxy, loads } = choosy();
  await using ingress = open(proxy);
  ingress.setProxy('proxy', settings);
  ingress.setRoutes('one', withHeader('one.test', 'good'));
  ingress.setRoutes('two', withHeader('two.test', 'bad'));
  ingress.release();
  await until('the first is loaded', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  expect(ingress.standOf('two')).toEqual({ is: 'refused', why: 'a bad word' });
  expect(loads).toHaveLength(1);
  ingress.setRoutes('two', withHeader('two.test', 'better'));
  await until('it is to be loaded', () => Promise.resolve(ingress.standOf('two').is === 'pending'));
  await clock.advance(10_000);
  await until('the second is loaded', () => Promise.resolve(ingress.standOf('two').is === 'loaded'));
  expect(ingress.standOf('one').is).toBe('loaded');
});

it('loads nothing for another host without options, which is a file', async () => {
  const { proxy, loads } = choosy();
  await using ingress = open(proxy);
  ingress.setProxy('proxy', settings);
  ingress.release();
  ingress.setRoutes('one', { workload: 'one', routes: [Route.parse({ host: 'one.test', tls: 'off' })] });
  await until('it is loaded', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  ingress.setRoutes('two', { workload: 'two', routes: [Route.parse({ host: 'two.test' })] });
  await until('it is loaded', () => Promise.resolve(ingress.standOf('two').is === 'loaded'));
  expect(loads).toHaveLength(1);
  expect(await readdir(join(folder, 'hosts/plain'))).toEqual(['one.test']);
  expect(await readdir(join(folder, 'hosts/secure'))).toEqual(['two.test']);
});

it('puts back a configuration that was changed from outside', async () => {
  const { proxy, loads } = choosy();
  await using ingress = open(proxy);
  ingress.setProxy('proxy', settings);
  ingress.setRoutes('one', withHeader('one.test', 'good'));
  ingress.release();
  await until('it is loaded', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  expect(loads).toHaveLength(1);
  await proxy.load({ apps: {} }, new AbortController().signal);
  await until('it is loaded again', async () => {
    await clock.advance(10_000);
    return loads.length === 3;
  });
  expect(loads[2]).toBe(loads[0]);
});

it('removes the certificate of a deleted application at whatever instant that comes', async () => {
  await using ingress = open(mockProxy());
  ingress.setProxy('proxy', settings);
  ingress.release();
  const kept: string[] = [];
  for (let n = 0; n < 60; n++) {
    const host = `host-${n}.test`;
    const certificate = join(folder, 'storage/certificates/local', host);
    ingress.setRoutes(host, { workload: host, routes: [Route.parse({ host })] });
    await until('it is loaded', () => Promise.resolve(ingress.standOf(host).is === 'loaded'));
    await mkdir(certificate, { recursive: true });
    ingress.wake('proxy');
    // within the files that it writes
    for (const at = performance.now() + n / 20; performance.now() < at;)
      await new Promise((resolve) => setImmediate(resolve));
    ingress.setRoutes(host, undefined, [host]);
    await until('the proxy has no route of it', () => Promise.resolve(ingress.isRid(host)));
    kept.push(...(await readdir(join(folder, 'storage/certificates/local'))));
    await rm(certificate, { recursive: true, force: true });
  }
  expect(kept).toEqual([]);
});

describe.each(['https://bad.test', 'https://taken.test'])('settings that the proxy does not take (%s)', (directory) => {
  it('change nothing, are told, and are followed by all that came meanwhile once they are corrected', async () => {
    const { proxy, loads } = choosy();
    await using ingress = open(proxy);
    ingress.setProxy('proxy', settings);
    ingress.setRoutes('one', withHeader('one.test', 'good'));
    ingress.setRoutes('two', { workload: 'two', routes: [Route.parse({ host: 'two.test', tls: 'off' })] });
    ingress.release();
    await until('they are loaded', () => Promise.resolve(ingress.standOf('two').is === 'loaded'));
    await clock.advance(10_000);
    ingress.setProxy('proxy', { ...settings, acme: { directory } });
    await until('it is told', () => Promise.resolve(ingress.problemOf('proxy') !== undefined));
    expect(ingress.problemOf('proxy')?.code).toBe('proxy_refused');
    expect(ingress.standOf('one').is).toBe('loaded');
    // another application without options goes on as ever, and one with options waits
    ingress.setRoutes('three', { workload: 'three', routes: [Route.parse({ host: 'three.test', tls: 'off' })] });
    ingress.setRoutes('four', withHeader('four.test', 'good'));
    await until('it is there', () => Promise.resolve(ingress.standOf('three').is === 'loaded'));
    expect(await readdir(join(folder, 'hosts/plain'))).toEqual(['three.test', 'two.test']);
    expect(ingress.standOf('one').is).toBe('loaded');
    const before = examinations;
    for (let n = 0; n < 30; n++) {
      ingress.wake('proxy');
      await clock.advance(1_000);
    }
    expect(examinations - before).toBeLessThan(10);
    expect(loads).toHaveLength(1);

    ingress.setProxy('proxy', settings);
    await until('all is loaded', () => Promise.resolve(ingress.standOf('four').is === 'loaded'));
    expect(ingress.problemOf('proxy')).toBeUndefined();
    expect(['one', 'two', 'three', 'four'].map((id) => ingress.standOf(id).is)).toEqual(Array(4).fill('loaded'));
    expect(loads).toHaveLength(2);
  });
});

it('loads at most once in 10 s, and keeps a host that gets an option until then', async () => {
  const { proxy, loads } = choosy();
  await using ingress = open(proxy);
  ingress.setProxy('proxy', settings);
  ingress.setRoutes('one', { workload: 'one', routes: [Route.parse({ host: 'one.test' })] });
  ingress.release();
  await until('it is loaded', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  for (let n = 0; n < 20; n++) {
    ingress.setRoutes('one', withHeader('one.test', `${n}`));
    await until('it waits', () => Promise.resolve(ingress.standOf('one').is === 'pending'));
    expect(await readdir(join(folder, 'hosts/secure'))).toEqual(['one.test']);
  }
  ingress.setRoutes('two', { workload: 'two', routes: [Route.parse({ host: 'two.test' })] });
  await until('it is there at once', () => Promise.resolve(ingress.standOf('two').is === 'loaded'));
  ingress.setRoutes('one', undefined);
  await until('the proxy has no route of it', () => Promise.resolve(ingress.isRid('one')));
  expect(await readdir(join(folder, 'hosts/secure'))).toEqual(['two.test']);
  expect(loads).toHaveLength(1);
  ingress.setRoutes('one', withHeader('one.test', 'last'));
  await clock.advance(10_000);
  await until('it is loaded', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  expect(loads).toHaveLength(2);
  expect(await readdir(join(folder, 'hosts/secure'))).toEqual(['two.test']);
});

it('changes nothing before all instances were inspected', async () => {
  const { proxy, loads } = choosy();
  await using ingress = open(proxy);
  ingress.setProxy('proxy', settings);
  ingress.setRoutes('one', withHeader('one.test', 'good'));
  await ingress.mounts();
  expect(loads).toEqual([]);
  expect(await readdir(join(folder, 'hosts/plain'))).toEqual([]);
});

it('keeps the certificate of a domain for a day after it left, for whoever has it next, but not of a deleted application', async () => {
  const proxies = new ProxyFolder(folder);
  const store = join(folder, 'storage/certificates/authority');
  await mkdir(join(store, 'one.test'), { recursive: true });
  await writeFile(join(store, 'one.test/one.test.key'), 'key');
  const hour = 3_600_000;
  const left = async (hours: number, hosts: string[] = []) => {
    await proxies.keepCertificates(new Set(hosts), hours * hour);
    return readdir(store);
  };
  expect(await left(0, ['one.test'])).toEqual(['one.test']);
  expect(await left(100)).toEqual(['one.test']);
  expect(await left(123)).toEqual(['one.test']);
  expect(await left(123, ['one.test'])).toEqual(['one.test']);
  expect(await left(130)).toEqual(['one.test']);
  expect(await left(153)).toEqual(['one.test']);
  expect(await left(154)).toEqual([]);

  await mkdir(join(store, 'two.test'), { recursive: true });
  await mkdir(join(folder, 'storage/ocsp'), { recursive: true });
  await writeFile(join(folder, 'storage/ocsp/two.test-1a2b'), '');
  await proxies.keepCertificates(new Set(['two.test']), 160 * hour, new Set(['two.test']));
  expect(await readdir(store)).toEqual(['two.test']);
  await proxies.keepCertificates(new Set(), 160 * hour, new Set(['two.test']));
  expect(await readdir(store)).toEqual([]);
  expect(await readdir(join(folder, 'storage/ocsp'))).toEqual([]);

  for (let n = 0; n < 102; n++) {
    await mkdir(join(store, `${n}.test`), { recursive: true });
    await left(200 + n / 100);
  }
  expect(await readdir(store)).toHaveLength(100);
  expect(await readdir(store)).not.toContain('0.test');
});

it('says in the words of the proxy why a domain has no certificate', async () => {
  const { proxy } = choosy();
  const refused = Promise.withResolvers<void>();
  let hasOne = false;
  const certificate = async (host: string, _port: number, signal: AbortSignal) => {
    if (hasOne) return { host };
    await once(signal, 'abort'); // the connection waits as long as the proxy tries
    refused.resolve();
    return { host, error: 'The proxy did not get it in time' };
  };
  await using ingress = open({ ...proxy, certificate });
  ingress.setProxy('proxy', settings);
  ingress.setRoutes('one', { workload: 'one', routes: [Route.parse({ host: 'one.test' })] });
  await ingress.mounts();
  const line = (identifier: string, why: string) =>
    `${JSON.stringify({ ts: clock.now().getTime() / 1000, logger: 'tls.obtain', identifier, error: why })}\n`;
  ingress.release();
  await until('the proxy is asked', () => Promise.resolve(ingress.standOf('one').is === 'loaded'));
  await appendFile(
    join(folder, 'log/tls.log'),
    line('one.test', 'HTTP 403 - not allowed (order=https://ca.test/1) (ca=https://ca.test/dir)') +
      line('other.test', 'another reason'),
  );
  await clock.advance(1000);
  await refused.promise;
  const shown = () => {
    const stand = ingress.standOf('one');
    return stand.is === 'loaded' ? stand.certificates[0] : undefined;
  };
  await until('it was looked at', () => Promise.resolve(shown() !== undefined));
  expect(shown()).toEqual({ host: 'one.test', error: 'HTTP 403 - not allowed' });
  hasOne = true;
  await clock.advance(10_000);
  await until('it is there', () => Promise.resolve(shown()?.error === undefined));
});
