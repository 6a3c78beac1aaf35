import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { holdIdentity, identitiesHere } from '../../../agent/machine/machine-identities.ts';

let folder: string;
let server: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-identities-'));
  server = randomUUID();
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const isLiving = async (id: string): Promise<boolean> => (await identitiesHere(folder)).living.has(id);

/** Another process that has the identity, in namespaces of its own where some are named. */
async function holder(...namespaces: string[]) {
  const module = new URL('../../../agent/machine/machine-identities.ts', import.meta.url).href;
  const code = `import { holdIdentity } from '${module}';
    await holdIdentity('${server}', '${folder}'); console.log('held'); setInterval(() => undefined, 1000);`;
  const program = [process.execPath, '--input-type=module-typescript', '-e', code];
  const argv = namespaces.length === 0 ? program : ['unshare', ...namespaces, ...program];
  const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  const ended = once(child, 'exit');
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

test('an identity lives as long as it is held', async () => {
  expect(await isLiving(server)).toBe(false);
  const held = await holdIdentity(server, folder);
  expect(await isLiving(server)).toBe(true);
  await held[Symbol.asyncDispose]();
  expect(await isLiving(server)).toBe(false);
});

test.each([
  ['in the same network namespace', []],
  ['in another network namespace', ['--net']],
])('an identity that another process has %s lives until that is killed', async (_where, namespaces) => {
  {
    await using other = await holder(...namespaces);
    expect(other).toBeDefined();
    expect(await isLiving(server)).toBe(true);
    await expect(holdIdentity(server, folder)).rejects.toThrow(`has the identity of server ${server}`);
  }
  expect(await isLiving(server)).toBe(false);
  await using again = await holdIdentity(server, folder);
  expect(again).toBeDefined();
});

test('an identity is known within the network namespace where the folder cannot be written', async () => {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', folder]);
  try {
    await using held = await holdIdentity(server, join(folder, 'agents'));
    expect(held).toBeDefined();
    expect(await isLiving(server)).toBe(true);
  } finally {
    execFileSync('umount', [folder]);
  }
});
