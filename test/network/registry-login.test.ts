import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { logInToRegistry } from '../../network/registry-login.ts';
import { privateRegistry } from '../harness/private-registry.ts';
import type { PrivateRegistry } from '../harness/private-registry.ts';

const signal = (): AbortSignal => AbortSignal.timeout(30_000);
let registry: PrivateRegistry;

beforeAll(async () => {
  registry = await privateRegistry();
});
afterAll(() => registry[Symbol.asyncDispose]());

const login = (changes: object = {}) => {
  const { address, username, password } = registry;
  return logInToRegistry({ address, username, password, allowed: [address], ...changes }, signal());
};

test('the right password logs in', async () => {
  expect(await login()).toEqual({ failure: undefined, message: expect.stringContaining('succeeded') });
});

test('a wrong password and a wrong user name are refused, and not shown', async () => {
  for (const changes of [{ password: 'not-this-one' }, { username: 'nobody' }]) {
    const { failure, message } = await login(changes);
    expect(failure).toBe('wrong_credentials');
    expect(message).not.toContain('not-this-one');
  }
});

test('a registry that does not answer is unreachable', async () => {
  const address = '127.0.0.1:1';
  expect(await login({ address, allowed: [address] })).toMatchObject({
    failure: 'unreachable',
    message: expect.stringContaining('ECONNREFUSED'),
  });
});

test('SEC-10 a private address that the tenant does not name is not asked', async () => {
  expect(await login({ allowed: [] })).toMatchObject({ failure: 'not_allowed' });
  expect(await login({ address: 'localhost:1', allowed: ['*.example.com'] })).toMatchObject({ failure: 'not_allowed' });
});

test('SEC-14 the password goes to no token server of another host, and follows no redirect', async () => {
  const seen: unknown[] = [];
  const other = createServer((request, response) => {
    seen.push(request.headers);
    response.end('{}');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const { port: otherPort } = other.address() as AddressInfo;
  let answer: [number, Record<string, string>] = [200, {}];
  const first = createServer((_request, response) => void response.writeHead(...answer).end()).listen(0, '127.0.0.1');
  await new Promise((resolve) => first.once('listening', resolve));
  const address = `127.0.0.1:${(first.address() as AddressInfo).port}`;
  try {
    answer = [401, { 'www-authenticate': `Bearer realm="http://localhost:${otherPort}/token",service="x"` }];
    expect(await login({ address, allowed: [address] })).toMatchObject({ failure: 'not_allowed' });
    answer = [302, { location: `http://127.0.0.1:${otherPort}/v2/` }];
    expect(await login({ address, allowed: [address] })).toMatchObject({ failure: 'unreachable' });
    expect(seen).toEqual([]);
    // the registry's own token server
    answer = [401, { 'www-authenticate': `Bearer realm="http://127.0.0.1:${otherPort}/token",service="x"` }];
    expect(await login({ address, allowed: [address] })).toMatchObject({ failure: undefined });
    expect(seen).toHaveLength(1);
  } finally {
    for (const server of [first, other]) {
      server.closeAllConnections();
      server.close();
    }
  }
});
