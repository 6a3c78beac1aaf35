import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { download } from '../../../agent/transfer/download.ts';
import { upload } from '../../../agent/transfer/upload.ts';
import { systemClock } from '../../../time/clock.ts';
import { createAuthority } from '../../harness/certificates.ts';
import type { Authority } from '../../harness/certificates.ts';
import { partServer } from './part-server.ts';
import type { PartServer } from './part-server.ts';

let authority: Authority;
let ca: string;
let server: PartServer;
beforeAll(async () => {
  authority = await createAuthority();
  const files = await authority.issue('bucket');
  const [key, cert] = await Promise.all([readFile(files.key, 'utf8'), readFile(files.cert, 'utf8')]);
  ca = await readFile(files.ca, 'utf8');
  server = await partServer({ key, cert });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
});

const { signal } = new AbortController();
const send = (bytes: Buffer, trusted: string | undefined) =>
  upload(
    (async function* () {
      yield bytes;
    })(),
    {
      addresses: async (numbers) => numbers.map((number) => `${server.endpoint}/part/${number}`),
      partBytes: 1_000_000,
      ca: trusted,
      clock: systemClock,
      random: Math.random,
    },
    signal,
  );

test('bytes go over TLS both ways, with the authority of the bucket', async () => {
  const bytes = Buffer.alloc(2_500_000, 'bytes of a backup');
  expect(await send(bytes, ca)).toMatchObject({ bytes: bytes.length, parts: 3 });
  expect(Buffer.concat([1, 2, 3].map((number) => server.parts.get(number) ?? Buffer.alloc(0))).equals(bytes)).toBe(
    true,
  );
  server.object = bytes;
  const options = {
    address: async () => `${server.endpoint}/object`,
    ca,
    bytes: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    clock: systemClock,
    random: Math.random,
  };
  expect((await buffer(download(options, signal))).equals(bytes)).toBe(true);
});

test('a bucket of an authority that is not trusted is sent nothing', async () => {
  server.requests = 0;
  await expect(send(Buffer.alloc(10), undefined)).rejects.toMatchObject({
    code: 'transfer_failed',
    retryable: false,
    message: expect.stringMatching(
      /does not trust the certificate of localhost:\d+ .*set ca of the backup destination/,
    ),
  });
  expect(server.requests).toBe(0);
});
