import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ImageCollector, imagePolicy } from '../../../agent/engine/image-collector.ts';
import { ImageRecord } from '../../../agent/engine/image-record.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const signal = new AbortController().signal;
const server = 'f2a9206c-0000-4000-8000-000000000000';
const owner = { tenant: 'default', project: 'shop', workload: 'web' };

let folder: string;
let clock: FakeClock;
let engine: MockEngine;
let record: ImageRecord;
let lines: { msg: string; images?: number }[];
let collector: ImageCollector;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-images-'));
  clock = new FakeClock();
  engine = new MockEngine(clock);
  record = await ImageRecord.open(join(folder, 'images.json'));
  lines = [];
  collector = new ImageCollector({
    runtime: mockRuntime(engine),
    server,
    pulled: record,
    // each image takes ten of a hundred, and something else takes forty
    disk: async () => ({ freeBytes: 60 - 10 * engine.localImages().length, totalBytes: 100 }),
    clock,
    log: pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
  });
});
afterEach(() => rm(folder, { recursive: true }));

/** An image that this agent pulled. */
async function pulled(name: string): Promise<string> {
  const { id, digest } = engine.addImage(name, { local: true });
  await record.pulled(owner, { id, digest }, true, clock.now().getTime());
  return id;
}

async function built(tag: string, of = server, type = 'build'): Promise<string> {
  const context = (async function* () {
    yield Buffer.from(tag);
  })();
  const given = { [labels.server]: of, [labels.workload]: 'web', [labels.type]: type };
  const options = { context, dockerfile: 'Dockerfile', tag, buildArgs: {}, labels: given };
  return (await engine.build(options, () => undefined, signal)).id;
}

const here = (): string[] => engine.localImages().map(({ id }) => id);
const collect = (...wanted: string[]): Promise<number> => collector.collect(() => new Set(wanted), signal);

test('images go once the disk is at the high mark, those used the longest ago first, until it is below the low one', async () => {
  const first = await pulled('a:1');
  await clock.advance(1000);
  const second = await built('setpoint/web:1');
  await clock.advance(1000);
  const third = await pulled('b:1');
  await clock.advance(imagePolicy.leastAgeMs);
  expect(await collector.isNeeded()).toBe(false); // 70 %
  const fourth = await pulled('c:1');
  record.used(first, clock.now().getTime());
  await clock.advance(imagePolicy.leastAgeMs);
  expect(await collector.isNeeded()).toBe(false); // 80 %
  const fifth = await built('setpoint/web:2');
  await clock.advance(imagePolicy.leastAgeMs);
  expect(await collector.isNeeded()).toBe(true);
  expect(await collect()).toBe(2);
  expect(here().toSorted()).toEqual([first, fourth, fifth].toSorted());
  expect(here()).not.toContain(second);
  expect(here()).not.toContain(third);
  expect(collector.freed).toEqual({ images: 2, bytes: 20 });
  expect(lines).toMatchObject([{ msg: expect.stringContaining('Removed images'), images: 2, diskPercent: 70 }]);
});

test('what is needed stays, by its id and by its digest, and so does what a container uses', async () => {
  engine.addImage('registry.test/web:1', { digest: `registry.test/web@sha256:${'d'.repeat(64)}`, local: true });
  const { id, digest } = engine.imageInfo('registry.test/web:1')!;
  await record.pulled(owner, { id, digest }, true, clock.now().getTime());
  const wanted = await built('setpoint/web:1');
  const used = await pulled('used:1');
  await mockRuntime(engine).create(
    { name: 'mine', image: used, labels: {}, env: {}, networks: [{ name: 'none', aliases: [] }], restart: 'no' },
    signal,
  );
  const free = [await pulled('a:1'), await pulled('b:1')];
  await clock.advance(imagePolicy.leastAgeMs);
  await collect(digest, wanted);
  expect(here()).toEqual(expect.arrayContaining([id, wanted, used]));
  for (const one of free) expect(here()).not.toContain(one);
});

test('an image that neither its labels nor the record show as its own is never removed', async () => {
  const foreign = [engine.addImage('foreign:1', { local: true }).id, await built('other/web:1', 'another-server')];
  const known = engine.addImage('known:1', { local: true });
  await record.pulled(owner, known, false, clock.now().getTime()); // it was there before
  for (let n = 0; n < 3; n++) engine.addImage(`more:${n}`, { local: true });
  await clock.advance(10 * imagePolicy.leastAgeMs);
  expect(await collector.isNeeded()).toBe(true);
  expect(await collect()).toBe(0);
  expect(here()).toEqual(expect.arrayContaining([...foreign, known.id]));
  expect(here()).toHaveLength(6);
});

test('an image that a user committed or built from one of the agent has its labels, and is never removed', async () => {
  const own = await built('setpoint/web:1');
  const committed = await built('evidence:1', server, 'service');
  const derived = await built('debug:1');
  for (let n = 0; n < 3; n++) engine.addImage(`more:${n}`, { local: true });
  await clock.advance(10 * imagePolicy.leastAgeMs);
  expect(await collect()).toBe(1);
  expect(here()).toEqual(expect.arrayContaining([committed, derived]));
  expect(here()).not.toContain(own);
});

test('a young image stays, and a disk that stays full is told once an hour', async () => {
  for (let n = 0; n < 5; n++) await pulled(`a:${n}`);
  await clock.advance(imagePolicy.leastAgeMs - 1);
  expect(await collect()).toBe(0);
  expect(await collect()).toBe(0);
  expect(lines.map(({ msg }) => msg)).toEqual([expect.stringContaining('almost full')]);
  await clock.advance(1);
  expect(await collect()).toBe(2);
});

test('what was pulled is remembered after a restart, and what is gone is forgotten', async () => {
  for (let n = 0; n < 5; n++) await pulled(`a:${n}`);
  await clock.advance(imagePolicy.leastAgeMs);
  await collect();
  const again = await ImageRecord.open(join(folder, 'images.json'));
  expect(
    again
      .list()
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(here().toSorted());
});
