import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { diskGuard, type DiskSpace } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord, type ImageOwner } from '../../../agent/engine/image-record.ts';
import { imageStore, type ImageStore, type WantedImage } from '../../../agent/engine/image-store.ts';
import { openRegistries } from '../../../agent/engine/registry-guard.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { failNextOf } from '../../harness/failing-files.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const victim: ImageOwner = { tenant: 'default', project: 'victim', workload: 'shop' };
const eve: ImageOwner = { tenant: 'default', project: 'eve', workload: 'spy' };
const namesake: ImageOwner = { ...victim, tenant: 'other' };
const refused = { code: 'image_not_allowed', retryable: false };
const away = { code: 'image_pull_failed', message: 'Cannot pull the image: the registry does not answer' } as const;
const signal = new AbortController().signal;

let folder: string;
let clock: FakeClock;
let engine: MockEngine;
let images: ImageStore;

async function open(
  localImages: readonly string[] = [],
  space: () => Promise<DiskSpace> = () => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 }),
): Promise<ImageStore> {
  return imageStore({
    runtime: mockRuntime(engine),
    disk: diskGuard(space),
    registries: openRegistries,
    record: await ImageRecord.open(join(folder, 'images.json')),
    localImages,
    clock,
  });
}

const ask = (owner: ImageOwner, wanted: Omit<WantedImage, 'owner'>) => images.resolve({ ...wanted, owner }, signal);
const pulls = (): string[] => engine.journal.filter(({ verb }) => verb === 'pull').map(({ target }) => target);

/** Answers with the id of an image that was built for that owner. */
async function built(tag: string, given: Record<string, string>): Promise<string> {
  const context = (async function* () {
    yield Buffer.from(tag);
  })();
  const options = { context, dockerfile: 'Dockerfile', tag, buildArgs: {}, labels: given };
  return (await engine.build(options, () => undefined, signal)).id;
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-images-'));
  clock = new FakeClock();
  engine = new MockEngine(clock);
  images = await open();
});
afterEach(() => rm(folder, { recursive: true }));

describe('an image that was built for a project', () => {
  const tag = 'setpoint/victim-f2a920:1';
  let id: string;
  beforeEach(async () => {
    id = await built(tag, { [labels.tenant]: 'default', [labels.project]: 'victim', [labels.workload]: 'shop' });
  });

  test('runs for it', async () => {
    expect(await ask(victim, { reference: tag, pinned: id })).toMatchObject({ id });
  });

  test.each<[string, ImageOwner, Omit<WantedImage, 'owner' | 'pinned'>]>([
    ['by its name', eve, { reference: 'setpoint/victim-f2a920:1' }],
    ['by its name in full', eve, { reference: 'docker.io/setpoint/victim-f2a920:1' }],
    ['by its name, not even for the project itself', victim, { reference: 'setpoint/victim-f2a920:1' }],
  ])('is not taken as a source %s', async (_how, owner, wanted) => {
    await expect(ask(owner, wanted)).rejects.toMatchObject(refused);
    expect(pulls()).toEqual([]);
  });

  test('is not taken as a source by its id', async () => {
    for (const reference of [id, id.slice('sha256:'.length), id.slice(0, 20)])
      await expect(ask(eve, { reference })).rejects.toMatchObject(refused);
    await expect(ask(eve, { reference: id.slice('sha256:'.length, 30) })).rejects.toMatchObject({
      code: 'image_not_found',
    });
  });

  test('does not run for another project or tenant that pins its id', async () => {
    await expect(ask(eve, { reference: 'web:1', pinned: id })).rejects.toMatchObject(refused);
    await expect(ask(namesake, { reference: tag, pinned: id })).rejects.toMatchObject(refused);
  });

  test('is not taken by another name that a registry gives it', async () => {
    engine.addImage('registry.test/mine:1', { local: false });
    engine.pull = async () => ({
      id,
      digest: `registry.test/mine@sha256:${'a'.repeat(64)}`,
      labels: engine.imageInfo(id)?.labels ?? {},
      onBuild: [],
      program: [],
    });
    await expect(ask(eve, { reference: 'registry.test/mine:1' })).rejects.toMatchObject(refused);
  });

  test('by an agent that did not name projects yet is not taken by another name either', async () => {
    const older = await built('setpoint/old:1', { [labels.tenant]: 'default', [labels.workload]: 'shop' });
    engine.addImage('registry.test/mine:1', { local: false });
    engine.pull = async () => ({
      id: older,
      digest: `registry.test/mine@sha256:${'a'.repeat(64)}`,
      labels: engine.imageInfo(older)?.labels ?? {},
      onBuild: [],
      program: [],
    });
    await expect(ask(eve, { reference: 'registry.test/mine:1' })).rejects.toMatchObject(refused);
  });

  test('goes on for the containers that were made from it, whatever its labels say', async () => {
    expect(await ask(eve, { reference: 'web:1', pinned: id, inUse: new Set([id]) })).toMatchObject({ id });
  });

  test('by an agent that did not name projects yet runs for its workload alone', async () => {
    const older = await built('setpoint/old:1', { [labels.tenant]: 'default', [labels.workload]: 'shop' });
    expect(await ask(victim, { reference: 'setpoint/old:1', pinned: older })).toMatchObject({ id: older });
    await expect(ask(eve, { reference: 'setpoint/old:1', pinned: older })).rejects.toMatchObject(refused);
  });

  test('lends its steps to builds of its project alone', async () => {
    expect(await images.builtFor(victim, signal)).toEqual([id]);
    expect(await images.builtFor({ ...victim, workload: 'another' }, signal)).toEqual([id]);
    expect(await images.builtFor(eve, signal)).toEqual([]);
    expect(await images.builtFor(namesake, signal)).toEqual([]);
  });

  test('that is gone can only be built again', async () => {
    engine.removeImage(id);
    await expect(ask(victim, { reference: tag, pinned: id })).rejects.toMatchObject({ code: 'image_not_found' });
  });
});

describe('an image that is only on the machine', () => {
  beforeEach(() => void engine.addImage('machine/tool:1', { local: true, failPull: { ...away } }));

  test.each([[[]], [['machine/other', 'machine/tool:2', 'mach/*', 'tool']]])('runs for nobody: %j', async (allowed) => {
    images = await open(allowed);
    await expect(ask(eve, { reference: 'machine/tool:1' })).rejects.toMatchObject({ code: 'image_pull_failed' });
  });

  test.each(['machine/tool', 'machine/tool:1', 'machine/*', '*'])(
    'runs for everybody as the operator allows %s',
    async (allowed) => {
      images = await open([allowed]);
      const found = await ask(eve, { reference: 'machine/tool:1' });
      expect(pulls()).toEqual([]);
      expect(await ask(eve, { reference: 'machine/tool:1', pinned: found.id })).toEqual(found);
    },
  );

  test('that instances of an earlier release run on is theirs again when they are made anew, and of no other deployment', async () => {
    const { id } = engine.imageInfo('machine/tool:1') ?? { id: '' };
    await ask(victim, { reference: 'machine/tool:1', pinned: id, inUse: new Set([id]) });
    images = await open();
    expect(await ask(victim, { reference: 'machine/tool:1', pinned: id })).toMatchObject({ id });
    await expect(ask(victim, { reference: 'machine/tool:1' })).rejects.toMatchObject({ code: 'image_pull_failed' });
    await expect(ask(eve, { reference: 'machine/tool:1', pinned: id })).rejects.toMatchObject(refused);
  });

  test('does not run by its id because another one is allowed', async () => {
    images = await open(['machine/other']);
    const { id } = engine.addImage('machine/secret:1', { local: true });
    await expect(ask(eve, { reference: 'machine/secret:1', pinned: id })).rejects.toMatchObject(refused);
  });
});

describe('an image of a registry', () => {
  const digest = `registry.test/web@sha256:${'d'.repeat(64)}`;
  beforeEach(() => void engine.addImage('registry.test/web:1', { digest, local: true }));

  test('is confirmed once for each project, though it is here', async () => {
    for (const owner of [victim, victim, eve, namesake]) await ask(owner, { reference: 'registry.test/web:1' });
    expect(pulls()).toEqual(Array.from({ length: 3 }, () => 'registry.test/web:1'));
  });

  test('that was confirmed runs while its registry is away, also after a restart of the agent', async () => {
    await ask(victim, { reference: 'registry.test/web:1' });
    engine.failNext('pull', { ...away });
    engine.failNext('pull', { ...away });
    images = await open();
    expect(await ask(victim, { reference: 'registry.test/web:1', pinned: digest })).toMatchObject({ digest });
    expect(await ask(victim, { reference: 'registry.test/web:1' })).toMatchObject({ digest });
    await expect(ask(eve, { reference: 'registry.test/web:1' })).rejects.toMatchObject({ code: 'image_pull_failed' });
    await expect(ask(eve, { reference: 'registry.test/web:1', pinned: digest })).rejects.toMatchObject({
      code: 'image_pull_failed',
    });
  });

  test('that containers of an earlier release run on is confirmed by them, as it must run again without them', async () => {
    const { id } = engine.imageInfo('registry.test/web:1') ?? { id: '' };
    await ask(victim, { reference: 'registry.test/web:1', pinned: digest, inUse: new Set([id]) });
    engine.failNext('pull', { ...away });
    engine.failNext('pull', { ...away });
    images = await open();
    expect(await ask(victim, { reference: 'registry.test/web:1', pinned: digest })).toMatchObject({ digest });
    expect(await ask(victim, { reference: 'registry.test/web:1' })).toMatchObject({ digest });
    expect(pulls()).toEqual([]);
  });

  test('is asked for anew by a deployment, as any tag may have moved, and the old one runs while its registry is away', async () => {
    const reference = 'registry.test/web:1';
    await ask(victim, { reference, refresh: true });
    const moved = { id: `sha256:${'e'.repeat(64)}`, digest: `registry.test/web@sha256:${'e'.repeat(64)}` };
    engine.pull = () => Promise.resolve({ ...moved, labels: {}, onBuild: [], program: [] });
    expect(await ask(victim, { reference })).toMatchObject({ digest });
    engine.failNext('pull', { ...away });
    expect(await ask(victim, { reference, refresh: true })).toMatchObject({ digest });
    expect(await ask(victim, { reference, refresh: true })).toMatchObject(moved);
    expect(await ask(victim, { reference, pinned: digest, refresh: true })).toMatchObject({ digest });
  });

  test('that containers of the assignment run on is the one that it resolved', async () => {
    const { id } = await ask(victim, { reference: 'registry.test/web:1' });
    await ask(victim, { reference: 'registry.test/web:1', inUse: new Set([id]), refresh: true });
    expect(pulls()).toEqual(['registry.test/web:1']);
  });

  test('by a tag that moves is asked for each time', async () => {
    engine.addImage('registry.test/web:latest', { digest, local: true });
    for (let nth = 0; nth < 2; nth += 1) await ask(victim, { reference: 'registry.test/web' });
    expect(pulls()).toEqual(['registry.test/web:latest', 'registry.test/web:latest']);
    engine.failNext('pull', { ...away });
    expect(await ask(victim, { reference: 'registry.test/web' })).toMatchObject({ digest });
  });
});

test('an image with the labels of another tenant is not left after its pull; one that was there before stays', async () => {
  const given = { [labels.tenant]: 'x' };
  engine.addImage('registry.test/large:1', { labels: given });
  const there = engine.addImage('registry.test/there:1', { labels: given, local: true });
  for (const name of ['large', 'there'])
    await expect(ask(eve, { reference: `registry.test/${name}:1` })).rejects.toMatchObject(refused);
  expect(pulls()).toEqual(['registry.test/large:1', 'registry.test/there:1']);
  expect(engine.localImages().map(({ id }) => id)).toEqual([there.id]);
});

test('a pull that fills the disk ends, and runtimes are asked for no more of it', async () => {
  let freeBytes = 50e9;
  const store = await open([], () => Promise.resolve({ freeBytes, totalBytes: 100e9 }));
  const begun = Promise.withResolvers<void>();
  engine.pull = (_image, over) => {
    begun.resolve();
    return new Promise((_pulled, fail) => over.addEventListener('abort', () => fail(over.reason as Error)));
  };
  const pulled = store.resolve({ reference: 'registry.test/large:1', owner: victim }, signal);
  const failed = expect(pulled).rejects.toMatchObject({
    code: 'no_space',
    retryable: true,
    message: expect.stringMatching(/^Cannot go on pulling image registry\.test\/large:1 as less than \d+ MiB/),
  });
  await begun.promise;
  await clock.advance(10_000); // what is free is enough
  freeBytes = 1e9;
  await clock.advance(10_000);
  await failed;
  expect(clock.pending).toBe(0);
});

describe('what this agent pulled', () => {
  test('is what was not on the machine before, with each name that it was pulled by', async () => {
    const record = await ImageRecord.open(join(folder, 'images.json'));
    const digest = (name: string): string => `registry.test/${name}@sha256:${'a'.repeat(64)}`;
    const { id } = engine.addImage('registry.test/web:1', { digest: digest('web') });
    engine.addImage('registry.test/there:1', { digest: digest('there'), local: true });
    const store = imageStore({
      runtime: mockRuntime(engine),
      disk: diskGuard(() => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 })),
      registries: openRegistries,
      record,
      localImages: [],
      clock,
    });
    await store.resolve({ reference: 'registry.test/web:1', owner: victim }, signal);
    await store.resolve({ reference: 'registry.test/there:1', owner: victim }, signal);
    expect(store.pulled.list()).toEqual([{ id, digests: [digest('web')], usedAt: clock.now().getTime() }]);
    await clock.advance(5000);
    await store.resolve({ reference: 'registry.test/web:1', owner: eve }, signal);
    expect(store.pulled.list()).toMatchObject([{ id, usedAt: clock.now().getTime() }]);
    await store.pulled.forget([id]);
    expect((await ImageRecord.open(join(folder, 'images.json'))).list()).toEqual([]);
  });
});

describe('what is known of images', () => {
  test('is bounded, and the oldest goes', async () => {
    const path = join(folder, 'images.json');
    const confirmed = Array.from({ length: 5000 }, (_, nth) => `default victim digest-${nth}`);
    await writeFile(path, JSON.stringify({ confirmed }));
    const record = await ImageRecord.open(path);
    await record.confirm(victim, 'newest');
    const again = await ImageRecord.open(path);
    expect([again.has(victim, 'newest'), again.has(victim, 'digest-0'), again.has(victim, 'digest-1')]).toEqual([
      true,
      false,
      true,
    ]);
  });

  test.each(['', '{', '{"confirmed":1}'])('is nothing where its file is %j', async (text) => {
    const path = join(folder, 'images.json');
    await writeFile(path, text);
    const record = await ImageRecord.open(path);
    expect(record.registries).toBeUndefined();
    await record.allow(['ghcr.io']);
    expect((await ImageRecord.open(path)).registries).toEqual(['ghcr.io']);
  });
});

describe('what does not get to the disk', () => {
  let path: string;
  let record: ImageRecord;
  beforeEach(async () => {
    path = join(folder, 'images.json');
    record = await ImageRecord.open(path);
  });
  const onDisk = () => ImageRecord.open(path);

  test('confirms nothing until it is repeated', async () => {
    await failNextOf('sync');
    await expect(record.confirm(victim, 'web')).rejects.toThrow(`Cannot write file ${path}`);
    expect(record.has(victim, 'web')).toBe(false);
    await record.confirm(victim, 'web');
    expect([record.has(victim, 'web'), (await onDisk()).has(victim, 'web')]).toEqual([true, true]);
  });

  test('takes no other confirmation with it', async () => {
    await failNextOf('sync');
    const [first, second] = await Promise.allSettled([record.confirm(victim, 'web'), record.confirm(eve, 'web')]);
    expect([first.status, second.status]).toEqual(['rejected', 'fulfilled']);
    for (const it of [record, await onDisk()])
      expect([it.has(victim, 'web'), it.has(eve, 'web')]).toEqual([false, true]);
  });

  test('removes no older confirmation', async () => {
    const confirmed = Array.from({ length: 5000 }, (_, nth) => `default victim digest-${nth}`);
    await writeFile(path, JSON.stringify({ confirmed }));
    record = await onDisk();
    await failNextOf('sync');
    await expect(record.confirm(victim, 'newest')).rejects.toThrow();
    expect(record.has(victim, 'digest-0')).toBe(true);
  });

  test('holds at once as the list of registries, and is stored when it is repeated', async () => {
    await record.allow(['ghcr.io', 'quay.io']);
    await failNextOf('sync');
    await expect(record.allow(['ghcr.io'])).rejects.toThrow(`Cannot write file ${path}`);
    expect(record.registries).toEqual(['ghcr.io']);
    expect((await onDisk()).registries).toEqual(['ghcr.io', 'quay.io']);
    await record.allow(['ghcr.io']);
    expect((await onDisk()).registries).toEqual(['ghcr.io']);
  });
});
