import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { stepWrites } from '../../../agent/runtime/docker/buildkit/step-writes.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-writes-'));
});
afterEach(() => rm(root, { recursive: true }));

async function process(id: number, bytes: number, scope?: string): Promise<void> {
  const etc = join(root, 'proc', `${id}`, 'root/etc');
  await mkdir(etc, { recursive: true });
  await writeFile(join(root, 'proc', `${id}`, 'io'), `rchar: 7\nwrite_bytes: ${bytes}\ncancelled_write_bytes: 9\n`);
  if (scope !== undefined) await writeFile(join(etc, 'hosts'), `127.0.0.1\t${scope}.builds.setpoint.internal\n`);
}

async function group(path: string, ...ids: number[]): Promise<void> {
  await mkdir(join(root, path), { recursive: true });
  await writeFile(join(root, path, 'cgroup.procs'), `${ids.join('\n')}\n`);
}

test.each([
  ['the group of the engine in version 1', 'pids/docker/buildkit', ''],
  ['the group of the engine in version 2', 'docker/buildkit', ''],
  ['systemd', 'system.slice', 'docker-wc0why6d3auy42hux1fz2mt'],
])('what the steps of a project wrote is known below %s', async (_what, above, prefix) => {
  const name = (letter: string): string => (prefix === '' ? letter : `${prefix}l${letter}.scope`);
  await process(1, 100, 'own');
  await process(2, 20); // a child of it, whose files are those of its step
  await process(3, 3, 'own');
  await process(4, 4000, 'other');
  await group(join(above, name('a')), 1, 2, 99);
  await group(join(above, name('b')), 3);
  await group(join(above, name('c')), 4);
  expect(await stepWrites('own', root, join(root, 'proc'))).toBe(123);
});

test('a step without a file of hosts, or with a link in its place, is of no project', async () => {
  await process(1, 100, 'own');
  await process(2, 20);
  await symlink(join(root, 'proc/1/root/etc/hosts'), join(root, 'proc/2/root/etc/hosts'));
  await process(3, 3);
  await group('docker/buildkit/a', 2);
  await group('docker/buildkit/b', 3);
  expect(await stepWrites('own', root, join(root, 'proc'))).toBe(0);
});
