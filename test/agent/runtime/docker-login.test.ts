import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { imageStore, type ImageStore } from '../../../agent/engine/image-store.ts';
import { registryGuard } from '../../../agent/engine/registry-guard.ts';
import { systemClock } from '../../../time/clock.ts';
import { testDocker, type TestDocker } from '../../harness/docker.ts';
import { privateRegistry, type PrivateRegistry } from '../../harness/private-registry.ts';
import { ensureBareImage, ensureTestImages } from '../../harness/test-image.ts';

const signal = (): AbortSignal => AbortSignal.timeout(60_000);
let docker: TestDocker;
let registry: PrivateRegistry;
let images: ImageStore;
let folder: string;
let one: string;
let two: string;
let reference: string;
let digest: string;

beforeAll(async () => {
  docker = await testDocker();
  registry = await privateRegistry();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-login-'));
  [one, two] = [(await ensureTestImages()).shell, await ensureBareImage()];
  reference = `${registry.address}/team/web:1`;
  digest = await registry.push(one, 'team/web:1');
  images = imageStore({
    runtime: docker.runtime,
    disk: diskGuard(() => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 })),
    registries: registryGuard(() => [registry.address]),
    record: await ImageRecord.open(join(folder, 'images.json')),
    localImages: [],
    clock: systemClock,
  });
});
afterAll(async () => {
  await registry[Symbol.asyncDispose]();
  await docker[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const owner = (project: string, workload: string) => ({ tenant: 'acme', project, workload });
const learn = (workload: string, changes: object = {}) =>
  images.logins.learn(
    {
      [workload]: {
        registry: registry.address,
        username: registry.username,
        password: registry.password,
        ...changes,
      },
    },
    false,
  );

test('an image of a private registry is pulled with the login of its workload, and refused with what to do without', async () => {
  const of = owner('shop', 'web');
  await expect(images.resolve({ reference, owner: of }, signal())).rejects.toMatchObject({
    message: expect.stringContaining('give the application a registry_id'),
  });
  learn('web', { password: 'not-this-one' });
  const wrong = await images.resolve({ reference, owner: of }, signal()).catch((error: unknown) => error);
  expect(wrong).toMatchObject({
    message: expect.stringContaining(`registry ${registry.address} refuses the login of reader`),
  });
  expect(JSON.stringify(wrong)).not.toContain('not-this-one');
  learn('web');
  expect((await images.resolve({ reference, owner: of }, signal())).digest).toBe(
    `${registry.address}/team/web@${digest}`,
  );
});

test('an image is not known by the digest that it has in another repository', async () => {
  const found = await docker.runtime.image(one, signal());
  expect(found?.digest).toBe(found?.id);
});

test('the pull of one project is no confirmation for another one', async () => {
  await expect(images.resolve({ reference, owner: owner('other', 'spy') }, signal())).rejects.toMatchObject({
    message: expect.stringContaining('needs credentials'),
  });
});

test('a login is for its registry alone, and a secret that does not open fails with its reason', async () => {
  learn('stray', { registry: 'registry.example.com' });
  await expect(images.resolve({ reference, owner: owner('third', 'stray') }, signal())).rejects.toMatchObject({
    message: expect.stringContaining('needs credentials'),
  });
  images.logins.learn({ stray: { registry: registry.address, failure: 'The password cannot be decrypted' } }, false);
  await expect(images.resolve({ reference, owner: owner('third', 'stray') }, signal())).rejects.toMatchObject({
    code: 'secret_unavailable',
    message: 'The password cannot be decrypted',
  });
});

test('a tag that moves leaves the digest that a deployment is pinned to', async () => {
  const pinned = `${registry.address}/team/web@${digest}`;
  const moved = await registry.push(two, 'team/web:1');
  expect(moved).not.toBe(digest);
  learn('late');
  const late = owner('late', 'late');
  expect((await images.resolve({ reference, pinned, owner: late }, signal())).digest).toBe(pinned);
  expect((await images.resolve({ reference, owner: owner('new', 'late') }, signal())).digest).toBe(
    `${registry.address}/team/web@${moved}`,
  );
});
