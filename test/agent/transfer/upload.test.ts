import fc from 'fast-check';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { upload } from '../../../agent/transfer/upload.ts';
import type { UploadOptions } from '../../../agent/transfer/upload.ts';
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
  // what an upload leaves open would be seen by none of its users
  await until('every connection is closed', async () => (await server.connections) === 0);
  await server[Symbol.asyncDispose]();
});

/** Pauses pass at once; silences do not. */
const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms < 60_000 ? 0 : ms, fn) };
const sign: UploadOptions['addresses'] = async (numbers) =>
  numbers.map((number) => `${server.endpoint}/part/${number}?signature=secret`);
const options = (changes: Partial<UploadOptions> = {}): UploadOptions => ({
  addresses: sign,
  partBytes: 1000,
  clock: hasty,
  random: () => 0,
  ...changes,
});
const stored = (): Buffer =>
  Buffer.concat([...server.parts.entries()].toSorted(([a], [b]) => a - b).map(([, body]) => body));
const { signal } = new AbortController();

async function* pieces(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

const faults: Fault[] = [
  'cut',
  'cut-late',
  'other-etag',
  { status: 500 },
  { status: 503, code: 'SlowDown' },
  { status: 429 },
  { status: 403, code: 'AccessDenied' },
  { status: 400, code: 'BadDigest' },
  { status: 400, code: 'RequestTimeout' },
];

test('whatever passes by itself, the bucket has in the end what the source had', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 8 }),
      fc.integer({ min: 200, max: 3000 }),
      fc.array(fc.option(fc.constantFrom(...faults), { nil: undefined }), { maxLength: 12 }),
      fc.array(fc.boolean(), { maxLength: 5 }),
      async (chunks, partBytes, chosen, away) => {
        // more refusals in a row than a part bears are another test
        const refusals = chosen.filter((it) => typeof it === 'object' && it.status === 403);
        server.faults = chosen.filter((it) => !refusals.slice(3).includes(it));
        server.parts.clear();
        const left = [...away];
        const addresses: UploadOptions['addresses'] = async (numbers, over) => {
          if (left.shift() === true) throw new Error('the control plane is away');
          return sign(numbers, over);
        };
        const progress: number[] = [];
        const sent = await upload(
          pieces(chunks),
          options({ addresses, partBytes, progress: (bytes) => progress.push(bytes) }),
          signal,
        );
        const whole = Buffer.concat(chunks);
        expect(stored().equals(whole)).toBe(true);
        expect(sent).toMatchObject({
          bytes: whole.length,
          sha256: createHash('sha256').update(whole).digest('hex'),
          parts: Math.ceil(whole.length / partBytes) || 1,
        });
        const md5s = Array.from({ length: sent.parts }, (_, at) =>
          createHash('md5')
            .update(server.parts.get(at + 1) ?? 'missing')
            .digest(),
        );
        expect(sent.md5s).toEqual(md5s.map((md5) => md5.toString('hex')));
        const digest = createHash('md5').update(Buffer.concat(md5s)).digest('hex');
        expect(sent.etag).toBe(`${digest}-${sent.parts}`);
        expect(progress).toEqual(progress.toSorted((a, b) => a - b));
        expect(progress.at(-1)).toBe(whole.length);
      },
    ),
    { numRuns: 60 },
  );
});

test.each<[string, Fault[], string]>([
  ['an upload that is gone', [{ status: 404, code: 'NoSuchUpload' }], 'it was aborted, or completed'],
  ['a full bucket', [{ status: 403, code: 'QuotaExceeded' }], 'is full (QuotaExceeded, 403)'],
  ['a redirect', [{ status: 307 }], 'answers with an error (Some, 307)'],
  [
    'addresses that are refused four times',
    Array.from({ length: 4 }, () => ({ status: 403, code: 'AccessDenied' })),
    'check the keys of the backup destination',
  ],
])('%s ends it at once', async (_, wrong, words) => {
  server.faults = wrong;
  const sending = upload(pieces([Buffer.alloc(10)]), options(), signal);
  await expect(sending).rejects.toMatchObject({ code: 'transfer_failed', retryable: false });
  await expect(sending).rejects.toThrow(words);
  await expect(sending).rejects.not.toThrow(/secret|http:/);
});

test('a part that fails for good ends it while the source gives nothing', async () => {
  server.faults = [{ status: 404 }];
  const source = new Readable({ read: () => undefined });
  source.push(Buffer.alloc(1500));
  await expect(upload(source, options(), signal)).rejects.toMatchObject({ code: 'transfer_failed' });
  expect(source.destroyed).toBe(true);
});

test('what the source throws is thrown', async () => {
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(2500);
    throw new Error('the dump ended with 1');
  }
  await expect(upload(broken(), options(), signal)).rejects.toThrow('the dump ended with 1');
});

test('a source that the network is slower than is read no further than there is room', async () => {
  let read = 0;
  let ended = false;
  async function* source(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        read += 1000;
        yield Buffer.alloc(1000);
      }
    } finally {
      ended = true;
    }
  }
  server.faults = Array.from({ length: 100 }, () => 'hang');
  const cancel = new AbortController();
  const sending = upload(source(), options(), cancel.signal);
  sending.catch(() => undefined);
  await until('four parts are on their way', async () => server.requests === 4);
  // four in flight, the one that is filled
  await until('the fifth part is filled', async () => read === 5000);
  cancel.abort(new Error('cancelled'));
  await expect(sending).rejects.toThrow('cancelled');
  await until('the source has ended', async () => ended);
  expect(read).toBe(5000);
});

test('a connection on which nothing moves for a minute is followed by another one', async () => {
  const clock = new FakeClock();
  server.faults = ['hang'];
  const sending = upload(pieces([Buffer.from('bytes')]), options({ clock }), signal);
  await until('the request came', async () => server.requests === 1);
  await clock.advance(59_999);
  expect(server.requests).toBe(1);
  await clock.advance(1);
  await until('the pause began', async () => clock.pending > 0);
  await clock.advance(500);
  await expect(sending).resolves.toMatchObject({ bytes: 5 });
  expect(server.requests).toBe(2);
  expect(clock.pending).toBe(0);
});

test('more parts than an upload may have are refused', async () => {
  const source = pieces([Buffer.alloc(10_001)]);
  await expect(upload(source, options({ partBytes: 1 }), signal)).rejects.toMatchObject({
    code: 'transfer_failed',
    retryable: false,
    message: expect.stringContaining('more than 10000 bytes'),
  });
});

test('a bucket that encrypts by a key service has ETags of its own, and none is computed', async () => {
  server.headers = { 'x-amz-server-side-encryption': 'aws:kms' };
  server.faults = ['other-etag'];
  expect((await upload(pieces([Buffer.from('bytes')]), options(), signal)).etag).toBeUndefined();
});

test('an answer of the control plane that lacks addresses, and what is none, are told', async () => {
  let calls = 0;
  const addresses: UploadOptions['addresses'] = async () => {
    calls += 1;
    return calls === 1 ? [] : Array.from({ length: 16 }, () => 'no address');
  };
  await expect(upload(pieces([Buffer.alloc(1)]), options({ addresses }), signal)).rejects.toMatchObject({
    code: 'transfer_failed',
    retryable: false,
    message: expect.stringContaining('not the address of a bucket'),
  });
});

test('a control plane that does not answer is asked again after a minute', async () => {
  const clock = new FakeClock();
  let calls = 0;
  const addresses: UploadOptions['addresses'] = (numbers, over) => {
    calls += 1;
    return calls === 1 ? new Promise(() => undefined) : sign(numbers, over);
  };
  const sending = upload(pieces([Buffer.alloc(5)]), options({ clock, addresses }), signal);
  await clock.advance(60_000);
  await until('the pause began', async () => clock.pending > 0);
  expect(calls).toBe(1);
  await clock.advance(500);
  await expect(sending).resolves.toMatchObject({ bytes: 5 });
  expect(calls).toBe(2);
});

test('an upload that is cancelled before it begins sends nothing', async () => {
  const source = Readable.from([Buffer.alloc(10)]);
  await expect(upload(source, options(), AbortSignal.abort(new Error('cancelled')))).rejects.toThrow('cancelled');
  expect(source.destroyed).toBe(true);
  expect(server.requests).toBe(0);
});

test('a refusal of a body that was sent unasked leaves its connection to no other request', async () => {
  const seen: string[] = [];
  /** As services that read no body which they refused before they asked for it: its bytes are the next request to them. */
  const service = createServer((socket) => {
    let text = '';
    let isRefused = false;
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      if (isRefused) {
        seen.push('400');
        socket.end('HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n');
        return;
      }
      text += chunk.toString('latin1');
      const [head = '', body] = text.split('\r\n\r\n');
      if (body === undefined) return;
      const size = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      if (body.length < size) return;
      text = '';
      const digest = createHash('md5').update(body, 'latin1').digest('hex');
      isRefused = /expect: 100-continue/i.test(head) && seen.length < 2;
      seen.push(seen.length < 2 ? '403' : '200');
      socket.write(
        seen.at(-1) === '403'
          ? 'HTTP/1.1 403 Forbidden\r\ncontent-length: 34\r\n\r\n<Error><Code>Denied</Code></Error>'
          : `HTTP/1.1 200 OK\r\netag: "${digest}"\r\ncontent-length: 0\r\n\r\n`,
      );
    });
  });
  await once(service.listen(0, '127.0.0.1'), 'listening');
  const { port } = service.address() as AddressInfo; // it listens at a port
  try {
    const addresses: UploadOptions['addresses'] = async (numbers) =>
      numbers.map((number) => `http://127.0.0.1:${port}/part/${number}`);
    const sent = await upload(pieces([Buffer.alloc(100, 'x')]), options({ addresses }), signal);
    expect([sent.bytes, seen]).toEqual([100, ['403', '403', '200']]);
  } finally {
    service.close();
  }
});
