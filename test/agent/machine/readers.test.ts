import { once } from 'node:events';
import { createSocket } from 'node:dgram';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readInotify } from '../../../agent/machine/inotify.ts';
import { listeningPorts, userOfPort } from '../../../agent/machine/listeners.ts';
import { readMemory } from '../../../agent/machine/memory.ts';

const { signal } = new AbortController();

test('the ports at which programs listen are known, on any address and no longer than they do', async () => {
  // Not every machine has IPv6.
  const loopback = networkInterfaces()['lo']?.map(({ address }) => address) ?? [];
  expect(loopback).toContain('127.0.0.1');
  for (const host of [...loopback, '0.0.0.0']) {
    const server = createServer();
    server.listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect((await listeningPorts()).has(port)).toBe(true);
    server.close();
    await once(server, 'close');
    expect((await listeningPorts()).has(port)).toBe(false);
  }
});

test('the program that has a port is known, over TCP and over UDP', async () => {
  const name = (await readFile('/proc/self/comm', 'utf8')).trim();
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  expect(await userOfPort(port)).toEqual({ pid: process.pid, name });
  server.close();
  await once(server, 'close');
  expect(await userOfPort(port)).toBeUndefined();
  const socket = createSocket('udp6');
  socket.bind(0);
  await once(socket, 'listening');
  expect(await userOfPort(socket.address().port)).toEqual({ pid: process.pid, name });
  socket.close();
});

test('watchers of files are counted over all programs of the user, whatever else they have open', async () => {
  const proc = await mkdtemp(join(tmpdir(), 'setpoint-proc-'));
  try {
    await mkdir(join(proc, 'sys/fs/inotify'), { recursive: true });
    await writeFile(join(proc, 'sys/fs/inotify/max_user_instances'), '128\n');
    await writeFile(join(proc, 'sys/fs/inotify/max_user_watches'), '65536\n');
    for (const [pid, targets] of [
      ['1', ['anon_inode:inotify', '/dev/null', 'socket:[7]']],
      ['22', ['anon_inode:inotify', 'anon_inode:inotify', 'anon_inode:[eventpoll]']],
      ['self', ['anon_inode:inotify']],
    ] as const) {
      await mkdir(join(proc, pid, 'fd'), { recursive: true });
      for (const [fd, target] of targets.entries()) await symlink(target, join(proc, pid, 'fd', String(fd)));
    }
    await mkdir(join(proc, '333'));
    expect(await readInotify(signal, proc)).toEqual({ maxInstances: 128, maxWatches: 65_536, instances: 3 });
    await expect(readInotify(AbortSignal.abort(new Error('enough')), proc)).rejects.toThrow('enough');
    await rm(join(proc, 'sys'), { recursive: true });
    await expect(readInotify(signal, proc)).rejects.toThrow('ENOENT');
  } finally {
    await rm(proc, { recursive: true });
  }
});

test('the memory of this machine is known', async () => {
  const memory = await readMemory();
  expect(memory?.total).toBeGreaterThan(100 * 1024 ** 2);
  expect(memory?.available).toBeLessThanOrEqual(memory?.total ?? 0);
});
