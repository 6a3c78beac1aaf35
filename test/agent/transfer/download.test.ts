import fc from 'fast-check';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { download } from '../../../agent/transfer/download.ts';
import type { DownloadOptions } from '../../../agent/transfer/download.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';
import { partServer } from './part-server.ts';
import type { Fault, PartServer } from './part-server.ts';

let server: PartServer;
beforeEach(async () => {
  server = await partServer();
});
afterEach(async () => {
  await until('every connection is closed', async () => (await server.connections) === 0);
  await server[Symbol.asyncDispose]();
});

/** Pauses pass at once; silences do not. */
const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms < 60_000 ? 0 : ms, fn) };
const options = (bytes: Uint8Array, changes: Partial<DownloadOptions> = {}): DownloadOptions => ({
  address: async () => `${server.endpoint}/object?signature=secret`,
  bytes: bytes.length,
  sha256: createHash('sha256').update(bytes).digest('hex'),
  clock: hasty,
  random: () => 0,
  ...changes,
});
const { signal } = new AbortController();

const faults: Fault[] = ['cut', 'cut-late', { status: 500 }, { status: 503 }, { status: 403 }];

test('whatever passes by itself, the reader gets the object', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 200_000 }),
      fc.array(fc.option(fc.constantFrom(...faults), { nil: undefined }), { maxLength: 10 }),
      async (bytes, chosen) => {
        const refusals = chosen.filter((it) => typeof it === 'object' && it.status === 403);
        server.faults = chosen.filter((it) => !refusals.slice(3).includes(it));
        server.object = Buffer.from(bytes);
        const found = await buffer(download(options(bytes), signal));
        expect(found.equals(server.object)).toBe(true);
      },
    ),
    { numRuns: 60 },
  );
});

test('an object that differs in any byte, or in its length, is never read to its end', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ minLength: 1, maxLength: 100_000 }),
      fc.nat(),
      fc.constantFrom('changed', 'shorter', 'longer'),
      async (bytes, at, how) => {
        const object = Buffer.from(bytes);
        const place = at % object.length;
        object.writeUInt8(object.readUInt8(place) ^ 1, place);
        const other = { changed: object, shorter: object.subarray(1), longer: Buffer.concat([object, object]) };
        server.object = other[how];
        server.faults = [];
        await expect(buffer(download(options(bytes), signal))).rejects.toMatchObject({
          code: 'transfer_failed',
          retryable: false,
        });
      },
    ),
    { numRuns: 40 },
  );
});

test('it fails after an hour of trouble, and shows no address', async () => {
  const clock = new FakeClock();
  server.faults = Array.from({ length: 10_000 }, () => ({ status: 503 }));
  const stream = download(options(Buffer.alloc(10), { clock, random: () => 1 }), signal);
  const failed = once(stream, 'error') as Promise<[Error]>;
  stream.resume();
  let isOver = false;
  stream.on('close', () => (isOver = true));
  // each pause begins when its answer has come
  for (let requests = 1; !isOver; requests += 1) {
    await until('the next request came', async () => isOver || server.requests >= requests);
    await until('the pause began', async () => isOver || clock.pending === 1);
    if (!isOver) await clock.advance(30_000);
  }
  const [error] = await failed;
  expect(error).toMatchObject({ code: 'transfer_failed', retryable: true });
  expect(error.message).toMatch(
    /^127\.0\.0\.1:\d+ answers with an error \(Some, 503\)\. It was tried again for an hour/,
  );
  expect(clock.monotonic()).toBeGreaterThanOrEqual(3_600_000);
  expect(clock.monotonic()).toBeLessThan(3_700_000);
});

test('it ends at once when it is cancelled or destroyed, wherever it waits', async () => {
  const bytes = Buffer.alloc(5_000_000, 1);
  server.object = bytes;
  for (const waits of ['for the address', 'for the answer', 'for its reader'] as const)
    for (const how of ['cancelled', 'destroyed'] as const) {
      const cancel = new AbortController();
      const asked = Promise.withResolvers<void>();
      server.faults = waits === 'for the answer' ? ['hang'] : [];
      server.onRequest = asked.resolve;
      const address = (): Promise<string> => {
        if (waits !== 'for the address') return Promise.resolve(`${server.endpoint}/object`);
        asked.resolve();
        return new Promise(() => undefined);
      };
      const stream = download(options(bytes, { address }), cancel.signal);
      const closed = new Promise((resolve) => stream.once('close', resolve));
      const errors: Error[] = [];
      stream.on('error', (error) => errors.push(error));
      stream.read(0);
      await asked.promise;
      if (how === 'cancelled') cancel.abort(new Error('cancelled'));
      else stream.destroy();
      await closed;
      expect(errors.map(({ message }) => message)).toEqual(how === 'cancelled' ? ['cancelled'] : []);
    }
});
