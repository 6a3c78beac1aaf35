import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { networks, reachOf } from '../../../network/address.ts';
import { registryGuard } from '../../../agent/engine/registry-guard.ts';
import { isListed } from '../../../network/registry-hosts.ts';

const refused = { code: 'image_not_allowed', retryable: false };
const signal = (): AbortSignal => AbortSignal.timeout(20_000);
const started: Server[] = [];

afterEach(async () => {
  for (const server of started.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
});

/** A registry on loopback that sends for its tokens to that address. */
async function registry(realm?: (port: number) => string): Promise<{ name: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const { port } = server.address() as AddressInfo;
    const headers = realm === undefined ? {} : { 'www-authenticate': `Bearer realm="${realm(port)}",service="x"` };
    response.writeHead(realm === undefined ? 200 : 401, headers).end();
  }).listen(0, '127.0.0.1');
  started.push(server);
  await once(server, 'listening');
  return { name: `127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

describe('SEC-10 a registry', () => {
  test('that the tenant does not allow is refused', async () => {
    await expect(registryGuard(() => ['ghcr.io']).check('evil.test', signal())).rejects.toMatchObject(refused);
    await expect(registryGuard(() => []).check('docker.io', signal())).rejects.toMatchObject(refused);
  });

  test.each([
    '127.0.0.1:5000',
    'localhost',
    'localhost:2375',
    '169.254.169.254',
    '10.0.0.1:5000',
    '[::1]:5000',
    'registry',
  ])(
    'that is on this machine or in a private network is refused unless an administrator named it: %s',
    async (name) => {
      await expect(registryGuard(() => undefined).check(name, signal())).rejects.toMatchObject(refused);
      await expect(registryGuard(() => ['*.test']).check(name, signal())).rejects.toMatchObject(refused);
    },
  );

  test('on this machine is asked before the engine, and allowed, where it was named', async () => {
    const { name, asked } = await registry();
    await registryGuard(() => [name]).check(name, signal());
    expect(asked).toEqual(['/v2/']);
  });

  test('that no administrator named is not even asked', async () => {
    const { name, asked } = await registry();
    await expect(registryGuard(() => undefined).check(name, signal())).rejects.toMatchObject(refused);
    expect(asked).toEqual([]);
  });

  test.each<[string, (port: number) => string]>([
    ['another host', () => 'http://169.254.169.254/latest/meta-data/iam?x=1'],
    ['a name of another host', () => 'https://auth.evil.test/token'],
    ['another name of this machine', (port) => `http://localhost:${port}/token`],
    ['what is no address', () => 'file:///etc/passwd'],
    ['nothing', () => 'x'],
  ])('that sends to %s for its tokens is refused', async (_where, realm) => {
    const { name } = await registry(realm);
    await expect(registryGuard(() => [name]).check(name, signal())).rejects.toMatchObject(refused);
  });

  test('that sends to its own host for its tokens is allowed', async () => {
    const { name, asked } = await registry((port) => `http://127.0.0.1:${port}/token`);
    await registryGuard(() => [name]).check(name, signal());
    expect(asked).toEqual(['/v2/']);
  });

  test('that does not answer is left to the engine, which gets nothing either', async () => {
    await expect(registryGuard(() => ['127.0.0.1:1']).check('127.0.0.1:1', signal())).resolves.toBeUndefined();
  });

  test('is named by a list as the settings of a tenant have it', () => {
    const list = ['ghcr.io', 'registry.test:5000', '*.pkg.dev'];
    expect(['ghcr.io', 'registry.test:5000', 'europe.pkg.dev', 'a.b.pkg.dev'].every((it) => isListed(list, it))).toBe(
      true,
    );
    expect(
      ['ghcr.io:443', 'registry.test', 'pkg.dev', 'xpkg.dev', 'pkg.dev.test'].some((it) => isListed(list, it)),
    ).toBe(false);
  });
});

describe('SEC-10 an address', () => {
  test.each([
    ['93.184.216.34', 'public'],
    ['2606:2800:220:1::1', 'public'],
    ['127.1.2.3', 'own'],
    ['0.0.0.0', 'own'],
    ['169.254.170.2', 'own'],
    ['239.1.1.1', 'own'],
    ['::1', 'own'],
    ['::', 'own'],
    ['fe80::1', 'own'],
    ['fe80::1%eth0', 'own'],
    ['fd00:ec2::254', 'own'],
    ['::ffff:127.0.0.1', 'own'],
    ['::ffff:a9fe:a9fe', 'own'],
    ['64:ff9b::7f00:1', 'own'],
    ['64:ff9b::a9fe:a9fe', 'own'],
    ['2002:a9fe:a9fe::1', 'own'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.1', 'public'],
    ['192.168.0.1', 'private'],
    ['100.64.0.1', 'private'],
    ['100.128.0.1', 'public'],
    ['198.19.0.1', 'private'],
    ['fc00::1', 'private'],
    ['fd12:3456::1', 'private'],
    ['64:ff9b::a00:1', 'private'],
    ['64:ff9b::5db8:d822', 'public'],
    ['64:ff9b:1::1', 'private'],
    ['::ffff:10.0.0.1', 'private'],
  ])('%s is %s', (address, reach) => {
    expect(reachOf(address)).toBe(reach);
  });

  test('is in one of the networks that an operator named', () => {
    const named = networks(['10.1.0.0/16', '192.168.7.9/32', 'fd12::/16']);
    expect(['10.1.255.1', '192.168.7.9', 'fd12:1::1'].every(named)).toBe(true);
    expect(['10.2.0.1', '192.168.7.8', 'fd13::1'].some(named)).toBe(false);
  });
});
