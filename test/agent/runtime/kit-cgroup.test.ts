import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { eachUnit, together } from '../../../agent/runtime/docker/buildkit/kit-cgroup.ts';

const group = { name: 'builds', pids: 100, memoryBytes: 8_000_000.5, cpus: 1.5 };
let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-cgroup-'));
});
afterEach(() => rm(root, { recursive: true }));

const at = (path: string): Promise<string> => readFile(join(root, path), 'utf8').catch(() => 'absent');

test('all steps together are limited in the group of the engine, in both versions of control groups', async () => {
  await using _first = await together(root, group, false);
  expect(await at('pids/docker/buildkit/pids.max')).toBe('100');
  expect(await at('memory/docker/buildkit/memory.limit_in_bytes')).toBe('8000000');
  expect(await at('cpu/docker/buildkit/cpu.cfs_quota_us')).toBe('150000');
  await using limit = await together(root, group, true);
  expect(await at('docker/cgroup.subtree_control')).toBe('+pids +memory +cpu');
  expect(await at('docker/buildkit/memory.max')).toBe('8000000');
  expect(await at('docker/buildkit/cpu.max')).toBe('150000 100000');
  await writeFile(join(root, 'docker/buildkit/memory.events'), 'low 0\noom 1\noom_kill 1\n');
  expect(await limit.reachedMemory()).toBe(true);
});

test('where systemd manages the groups, each step is limited as it comes, and no container', async () => {
  const unit = (id: string): string => join(root, 'system.slice', `docker-${id}.scope`);
  await mkdir(unit('c'.repeat(64)), { recursive: true });
  await using limit = await eachUnit(root, group, true);
  const step = 'wc0why6d3auy42hux1fz2mtlu';
  await mkdir(unit(step));
  await expect.poll(() => at(`system.slice/docker-${step}.scope/memory.max`)).toBe('8000000');
  await expect.poll(() => at(`system.slice/docker-${step}.scope/cpu.max`)).toBe('150000 100000');
  expect(await at(`system.slice/docker-${'c'.repeat(64)}.scope/memory.max`)).toBe('absent');
  expect(await limit.reachedMemory()).toBe(false);
  await writeFile(join(unit(step), 'memory.events'), 'oom_kill 2\n');
  await expect.poll(() => limit.reachedMemory()).toBe(true);
});

test('where systemd manages the groups, the steps together have the limits, and each keeps what it holds', async () => {
  const steps = ['a', 'b', 'c', 'd'].map((name) => `docker-${name.repeat(25)}.scope`);
  const mebibyte = 1024 * 1024;
  for (const [n, step] of steps.entries()) {
    await mkdir(join(root, 'system.slice', step), { recursive: true });
    // The files are of no account: the kernel forgets them where memory is short.
    const stat = `anon ${n * 64 * mebibyte}\nfile 900000000\nshmem ${64 * mebibyte}\n`;
    await writeFile(join(root, 'system.slice', step, 'memory.stat'), stat);
  }
  await using _limit = await eachUnit(root, { ...group, memoryBytes: 1024 * mebibyte }, true);
  const limits = await Promise.all(steps.map((step) => at(`system.slice/${step}/memory.max`)));
  // 640 MiB are held: 384 MiB are free, a quarter for each.
  expect(limits.map((bytes) => Number(bytes) / mebibyte)).toEqual([160, 224, 288, 352]);
  expect(await at(`system.slice/${steps[0]}/pids.max`)).toBe('25');
  for (const step of steps.slice(1)) await rm(join(root, 'system.slice', step), { recursive: true });
  await expect.poll(() => at(`system.slice/${steps[0]}/memory.max`)).toBe(`${1024 * mebibyte}`);
});
