import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { openRelease, platforms, publicKeyOf, signRelease } from '../../agent-protocol/release-manifest.ts';
import { buildRelease } from '../../cli/release/build-release.ts';
import { bundleAgent } from '../../cli/release/bundle.ts';
import { licencesOf } from '../../cli/release/licenses.ts';
import { nodeFor } from '../../cli/release/node-binary.ts';
import { releaseKey, signerIn } from '../../cli/release/release-key.ts';
import { releaseKeys } from '../../cli/release-keys.ts';
import { builtRelease, ownPlatform, testReleaseKey } from '../harness/built-release.ts';
import type { BuiltRelease } from '../harness/built-release.ts';
import { longTag } from '../layer-report.ts';

const execute = promisify(execFile);
const deadlineMs = 120_000;
const root = join(import.meta.dirname, '../..');
let folder: string;
let built: BuiltRelease;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-release-'));
  built = await builtRelease();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('runs where there is no Node, whatever the environment gives to one', async () => {
  for (const env of [{}, { NODE_OPTIONS: '--require=/nonexistent.js' }]) {
    const { stdout } = await execute(built.executable, ['--version'], { env, cwd: '/' });
    expect(stdout.trim()).toBe(packageFile.version);
  }
  const { stdout } = await execute(built.executable, ['clean', '--help'], { env: {} });
  expect(stdout).toContain('setpoint-agent clean');
});

it('says what is wrong with its settings as the command of a checkout does', async () => {
  const failed = execute(built.executable, ['--server', 'http://192.0.2.1/default'], { env: {} });
  await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('--server: must be https') });
});

it('has the same bytes and signature each time it is built', { tags: [longTag], timeout: deadlineMs }, async () => {
  const { key } = await testReleaseKey();
  const again = await buildRelease(
    { out: folder, key, platforms: [ownPlatform], packed: false },
    AbortSignal.timeout(deadlineMs),
  );
  expect(again).toEqual(built.manifest);
  expect(await readFile(join(folder, 'manifest.json'), 'utf8')).toBe(
    await readFile(join(built.folder, 'manifest.json'), 'utf8'),
  );
  expect((await readdir(folder)).toSorted()).toEqual(['manifest.json', again.licences!.name, again.files[0]!.name]);
  // another user than the one who built it serves it
  expect((await stat(join(folder, 'manifest.json'))).mode & 0o444).toBe(0o444);
  expect((await stat(join(folder, again.files[0]!.name))).mode & 0o555).toBe(0o555);
});

describe('another build of the same version', { timeout: deadlineMs }, () => {
  let key: KeyObject;
  let out: string;
  let before: string;
  beforeEach(async () => {
    ({ key } = await testReleaseKey());
    out = await mkdtemp(join(folder, 'same-version-'));
    const files = [{ ...built.manifest.files[0]!, sha256: '0'.repeat(64) }];
    before = JSON.stringify(signRelease({ ...built.manifest, files }, key));
    await writeFile(join(out, 'manifest.json'), before);
    await writeFile(join(out, files[0]!.name), 'the former build');
  });

  const build = (options: { out: string; former?: string; replace?: boolean }) =>
    buildRelease({ key, platforms: [ownPlatform], packed: false, ...options }, AbortSignal.timeout(deadlineMs));

  it('stays as it is', async () => {
    await expect(build({ out })).rejects.toThrow(`another build of the version ${packageFile.version}`);
    expect(await readFile(join(out, 'manifest.json'), 'utf8')).toBe(before);
    expect(await readFile(join(out, built.manifest.files[0]!.name), 'utf8')).toBe('the former build');
  });

  it('in another folder is not followed by one', { tags: [longTag] }, async () => {
    const next = join(folder, 'next-folder');
    await expect(build({ out: next, former: out })).rejects.toThrow('another build of the version');
  });

  it('is replaced by one that is told to, and that by its own bytes', { tags: [longTag] }, async () => {
    expect(await build({ out, replace: true })).toEqual(built.manifest);
    expect(await build({ out })).toEqual(built.manifest);
  });
});

it('is not signed by another key than the release before, which a new one would not be trusted for', async () => {
  const [lost, other] = [join(folder, 'lost.pem'), join(folder, 'another.pem')];
  const signer = await signerIn(built.folder);
  const { key } = await testReleaseKey();
  expect(signer).toBe(publicKeyOf(key));
  await expect(releaseKey(lost, signer)).rejects.toThrow(`There is no key that signs releases at ${lost}`);
  await expect(stat(lost)).rejects.toThrow('ENOENT');
  await releaseKey(other);
  await expect(releaseKey(other, signer)).rejects.toThrow('another one than before');
  await writeFile(join(folder, 'own.pem'), key.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  expect((await releaseKey(join(folder, 'own.pem'), signer)).isNew).toBe(false);
  expect(await signerIn(join(folder, 'nowhere'))).toBeUndefined();
  const command = [join(root, 'cli/release/release.ts'), '--out', join(folder, 'next'), '--former', built.folder];
  const failed = execute(process.execPath, [...command, '--key', lost]);
  await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('--new-key') });
  await expect(stat(lost)).rejects.toThrow('ENOENT');
});

it('is signed by the key of the build, and by no other', async () => {
  const signed: unknown = JSON.parse(await readFile(join(built.folder, 'manifest.json'), 'utf8'));
  const { key } = await testReleaseKey();
  const own = key.export({ format: 'jwk' }).x!;
  expect(openRelease(signed, [own])).toEqual(built.manifest);
  expect(() => openRelease(signed, [])).toThrow('unknown key');
});

it('takes releases that the key of its build signed, and a checkout takes none', async () => {
  const { key } = await testReleaseKey();
  const { code } = await bundleAgent([publicKeyOf(key)]);
  expect(code).toContain(publicKeyOf(key));
  expect(releaseKeys).toEqual([]);
});

it('has no part of the control plane and no package but those of the agent in it', async () => {
  const { sources } = await bundleAgent([]);
  const packages = new Set(sources.map((it) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(it)?.[1]));
  const direct = Object.keys(packageFile.dependencies).filter((it) => packages.has(it));
  expect(direct).toEqual(['commander', 'p-queue', 'pino', 'smol-toml', 'tar-stream', 'ws', 'zod']);
  const own = sources.filter((it) => !/node_modules\/|^\0/.test(it));
  expect(own.filter((it) => !/^(agent|agent-protocol|cli|databases|network|time)\//.test(it))).toEqual([
    'package.json',
    'api/streams/log-frames.ts',
    'store/faults.ts',
    'store/visible.ts',
  ]);
});

it('has the licences of Node and of each package in it beside it', async () => {
  const { name, size, sha256 } = built.manifest.licences!;
  const text = await readFile(join(built.folder, name), 'utf8');
  expect([Buffer.byteLength(text), createHash('sha256').update(text).digest('hex')]).toEqual([size, sha256]);
  const { sources } = await bundleAgent([]);
  const packages = new Set(sources.flatMap((it) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(it)?.[0] ?? []));
  expect(packages.size).toBeGreaterThan(10);
  for (const folderOf of [...packages, `node_modules/node-${ownPlatform}`]) {
    const files = await readdir(join(root, folderOf));
    const own = await readFile(
      join(
        root,
        folderOf,
        files.find((it) => /^licen[cs]e/i.test(it))!,
      ),
      'utf8',
    );
    const { name: of, version } = JSON.parse(await readFile(join(root, folderOf, 'package.json'), 'utf8'));
    expect(text).toContain(`\n${of} ${version}\n`);
    expect(text.includes(own.trim()), `${of} without its licence`).toBe(true);
  }
});

it('is not built of a package without a licence', async () => {
  for (const name of [`node-${ownPlatform}`, 'rolldown', 'bare']) {
    const of = join(folder, 'node_modules', name);
    await mkdir(of, { recursive: true });
    await writeFile(join(of, 'package.json'), JSON.stringify({ name, version: '1.0.0' }));
    await writeFile(join(of, name === 'bare' ? 'NOTICE' : 'LICENSE'), `of ${name}`);
  }
  expect(await licencesOf(folder, ['cli/setpoint-agent.ts'])).toContain('of rolldown');
  const made = licencesOf(folder, ['cli/setpoint-agent.ts', 'node_modules/bare/index.js']);
  await expect(made).rejects.toThrow('The package bare 1.0.0 has no file with its licence');
});

it('has no Node in it but the one that the lockfile names', async () => {
  const other = platforms.find((it) => it !== ownPlatform)!;
  const lock = JSON.parse(await readFile(join(import.meta.dirname, '../../package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string }>;
  };
  const { version } = lock.packages[`node_modules/node-${other}`]!;
  const archive = join(folder, `node-${other}-${version}.tgz`);
  await writeFile(archive, 'another package');
  const made = nodeFor(other, { work: folder, cache: folder }, AbortSignal.timeout(deadlineMs));
  await expect(made).rejects.toThrow('is not the one that package-lock.json names');
  await expect(stat(archive)).rejects.toThrow('ENOENT'); // the next build fetches it again
});

it('is signed by no key that others can read', async () => {
  const path = join(folder, 'key.pem');
  expect((await releaseKey(path)).isNew).toBe(true);
  expect((await releaseKey(path)).isNew).toBe(false);
  await chmod(path, 0o640);
  await expect(releaseKey(path)).rejects.toThrow('Other users can read the key');
});
