import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { buffer } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { fetchDump } from '../../../agent/imports/fetch-dump.ts';

/** An address of this machine in a network, as of any other machine of a private network. */
const here = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;

let server: Server | undefined;
afterEach(() => {
  server?.close();
  server?.closeAllConnections();
});

async function serve(listener: RequestListener): Promise<number> {
  server = createServer(listener);
  server.listen(0, here);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function fetched(address: string, allowed = [`${here}/32`], resolve?: () => Promise<string[]>): Promise<Buffer> {
  const options = { allowed, ...(resolve !== undefined && { resolve }) };
  const { bytes } = await fetchDump(address, options, new AbortController().signal);
  return buffer(Readable.from(bytes));
}

test.runIf(here !== undefined)(
  'an address that the operator named is fetched, also by http, and at that address',
  async () => {
    const hosts: (string | undefined)[] = [];
    const port = await serve((request, response) => {
      hosts.push(request.headers.host);
      response.end('SELECT 1;');
    });
    expect((await fetched(`http://${here}:${port}/dump`)).toString()).toBe('SELECT 1;');
    const named = await fetched(`http://dumps.example.test:${port}/dump?key=s`, undefined, async () => [here ?? '']);
    expect(named.toString()).toBe('SELECT 1;');
    expect(hosts).toEqual([`${here}:${port}`, `dumps.example.test:${port}`]);
  },
);

test.each([
  ['http://198.51.100.7/dump', ['198.51.100.7'], 'takes https'],
  ['https://dumps.example.test/dump', ['10.1.2.3'], '--import-networks'],
  ['https://dumps.example.test/dump', ['198.51.100.7', '127.0.0.1'], 'is not one of the network'],
  ['https://dumps.example.test/dump', ['169.254.169.254'], 'is not one of the network'],
  ['https://dumps.example.test/dump', ['::ffff:10.1.2.3'], '--import-networks'],
  ['https://user:word@dumps.example.test/dump', ['198.51.100.7'], 'no password'],
  ['file:///etc/passwd', [], 'https://'],
])('%s at %j is refused', async (address, found, why) => {
  await expect(fetched(address, [], async () => found)).rejects.toMatchObject({
    code: 'invalid_source',
    message: expect.stringContaining(why),
  });
});

test('an address of the machine itself is refused although its network was named', async () => {
  await expect(fetched('http://127.0.0.1:1/dump', ['127.0.0.0/8'])).rejects.toMatchObject({ code: 'invalid_source' });
});

test.runIf(here !== undefined)('a redirect is followed on the host alone', async () => {
  const port = await serve(({ url }, response) => {
    if (url === '/dump') return void response.end('SELECT 1;');
    const location = url === '/away' ? 'http://elsewhere.example.test/dump' : '/dump';
    response.writeHead(302, { location }).end();
  });
  expect((await fetched(`http://${here}:${port}/moved`)).toString()).toBe('SELECT 1;');
  await expect(fetched(`http://${here}:${port}/away`)).rejects.toMatchObject({
    code: 'invalid_source',
    message: expect.stringContaining('elsewhere.example.test'),
  });
});

test.runIf(here !== undefined)(
  'a host is waited for only so long, and waits for the engine as long as that takes',
  async () => {
    const bytes = 16 * 1024 * 1024;
    const port = await serve(({ url }, response) => {
      response.writeHead(200, { 'content-length': String(bytes) });
      if (url === '/dump') response.end(Buffer.alloc(bytes));
      else response.write('SELECT');
    });
    const options = { allowed: [`${here}/32`], idleMs: 100 };
    const open = (path: string) => fetchDump(`http://${here}:${port}${path}`, options, new AbortController().signal);
    let count = 0;
    for await (const chunk of (await open('/dump')).bytes) {
      if (count === 0) await delay(300);
      count += chunk.length;
    }
    expect(count).toBe(bytes);
    await expect(buffer(Readable.from((await open('/silent')).bytes))).rejects.toThrow('Nothing came');
  },
);

test.runIf(here !== undefined)('what is cut off, has no length or is not there fails', async () => {
  const port = await serve(({ url }, response) => {
    if (url === '/none') return void response.writeHead(404).end();
    if (url === '/cut') {
      response.writeHead(200, { 'content-length': '1000' });
      return void response.write('SELECT', () => response.destroy());
    }
    response.socket?.end('HTTP/1.0 200 OK\r\n\r\nSELECT 1;');
  });
  const at = (path: string): Promise<Buffer> => fetched(`http://${here}:${port}${path}`);
  await expect(at('/none')).rejects.toThrow('answered 404');
  await expect(at('/cut')).rejects.toThrow('was cut off');
  await expect(at('/endless')).rejects.toThrow('does not say how long it is');
});
