import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { diskGuard } from '../../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { imageStore, type ImageStore } from '../../../agent/engine/image-store.ts';
import { openRegistries } from '../../../agent/engine/registry-guard.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import type { PullProgress } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const owner = { tenant: 'default', project: 'shop', workload: 'web' };
const digest = `sha256:${'d'.repeat(64)}`;
const signal = new AbortController().signal;
/** A report each second of twenty. */
const steps = Array.from({ length: 20 }, (_, nth): PullProgress => {
  const bytes = (nth + 1) * 1_000_000;
  const totalBytes = nth < 5 ? undefined : 20_000_000;
  return { layers: 4, layersDone: Math.floor((nth + 1) / 5), layersPresent: 0, bytes, totalBytes };
});

let folder: string;
let clock: FakeClock;
let engine: MockEngine;
let images: ImageStore;
let lines: string[];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-pulls-'));
  clock = new FakeClock();
  engine = new MockEngine(clock);
  images = imageStore({
    runtime: mockRuntime(engine),
    disk: diskGuard(() => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 })),
    registries: openRegistries,
    record: await ImageRecord.open(join(folder, 'images.json')),
    localImages: [],
    clock,
  });
  lines = [];
  engine.addImage('registry.test/web:1', {
    digest: `registry.test/web@${digest}`,
    pullTakesMs: 20_000,
    pullSteps: steps,
  });
});
afterEach(() => rm(folder, { recursive: true }));

const pull = (reference = 'registry.test/web:1', given = signal) =>
  images.resolve({ reference, owner, line: (text) => void lines.push(text) }, given);

const begin = 'Pulling image registry.test/web:1 from registry registry.test';

test('a pull is written about at its begin, every 5 s, and at its end', async () => {
  const pulling = pull();
  await clock.advance(20_000);
  await pulling;
  expect(lines).toEqual([
    begin,
    'Pulling image registry.test/web:1: 1 of 4 layers, 5.0MB, 1.0MB/s',
    'Pulling image registry.test/web:1: 2 of 4 layers, 10.0MB of 20.0MB, 1.0MB/s',
    'Pulling image registry.test/web:1: 3 of 4 layers, 15.0MB of 20.0MB, 1.0MB/s',
    'Pulling image registry.test/web:1: 4 of 4 layers, 20.0MB of 20.0MB, 1.0MB/s',
    `Pulled image registry.test/web:1 as ${digest}: 4 layers, 20.0MB in 20.0s, 1.0MB/s`,
  ]);
});

test.each([
  ['the server had all of it', { layersPresent: 4, totalBytes: 0 }],
  ['4 layers in 1.0s', { layersPresent: 1, totalBytes: undefined }],
])('a pull of which the engine told no bytes ends with: %s', async (end, told) => {
  engine.addImage('registry.test/web:1', {
    digest: `registry.test/web@${digest}`,
    pullTakesMs: 1000,
    pullSteps: [{ layers: 4, layersDone: 4, bytes: 0, ...told }],
  });
  const pulling = pull();
  await clock.advance(1000);
  await pulling;
  expect(lines.at(-1)).toBe(`Pulled image registry.test/web:1 as ${digest}: ${end}`);
});

test('what the engine reports often comes as often as what it reports seldom', async () => {
  const often = Array.from({ length: 10_000 }, (): PullProgress => ({ ...steps[0]! }));
  engine.addImage('registry.test/web:1', { pullTakesMs: 10_000, pullSteps: often });
  const pulling = pull();
  await clock.advance(10_000);
  await pulling;
  expect(lines).toHaveLength(4);
});

test('of pulls of several replicas at once one is written about, and another one if that ends early', async () => {
  const replicas = [pull(), pull(), pull()];
  await clock.advance(20_000);
  await Promise.all(replicas);
  expect(lines.filter((line) => line === begin)).toHaveLength(1);
  expect(lines.filter((line) => line.startsWith('Pulled'))).toHaveLength(1);
  expect(lines).toHaveLength(6);
});

test('a pull goes on to be written about where the replica that began it is not wanted any more', async () => {
  const stop = new AbortController();
  const ended = expect(pull(undefined, stop.signal)).rejects.toThrow('not wanted');
  const second = pull();
  await clock.advance(2000);
  stop.abort(new Error('The replica is not wanted any more'));
  await clock.advance(18_000);
  await Promise.all([ended, second]);
  expect(lines.filter((line) => line === begin)).toHaveLength(1);
  expect(lines.at(-1)).toMatch(/^Pulled image registry.test\/web:1 /);
});

test('an image that the server has already is confirmed, or used while its registry is away', async () => {
  engine.addImage('registry.test/old:latest', { digest: `registry.test/old@${digest}`, local: true });
  await pull('registry.test/old');
  engine.failNext('pull', { code: 'image_pull_failed', message: 'Cannot pull the image' });
  await pull('registry.test/old');
  expect(lines).toEqual([
    'Pulling image registry.test/old:latest from registry registry.test',
    `Pulled image registry.test/old:latest as ${digest}: the server had all of it`,
    'Pulling image registry.test/old:latest from registry registry.test',
    'Registry registry.test does not give image registry.test/old:latest now: the one on the server is used',
  ]);
});
