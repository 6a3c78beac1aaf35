import {
  CreateBucketCommand,
  ListMultipartUploadsCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { download } from '../../agent/transfer/download.ts';
import { upload } from '../../agent/transfer/upload.ts';
import type { Uploaded, UploadOptions } from '../../agent/transfer/upload.ts';
import {
  abortOldUploads,
  abortUpload,
  beginUpload,
  completeUpload,
  deleteObjects,
  listParts,
  putObject,
  readObject,
  signParts,
  signRead,
  statObject,
  WrongObject,
} from '../../network/bucket-objects.ts';
import { openBucket } from '../../network/bucket.ts';
import type { Bucket, BucketPlace } from '../../network/bucket.ts';
import { minPartBytes } from '../../network/multipart.ts';
import { systemClock } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway } from '../harness/s3-gateway.ts';
import { TcpProxy } from '../harness/tcp-proxy.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

/** The first run on an engine makes the image. */
const makeMs = 10 * 60_000;
const mebibyte = 1024 * 1024;

let gateway: S3Gateway;
/** The way of all bytes to the gateway. */
let wire: TcpProxy;
let bucket: Bucket;
let key: string;
let id: string;
let n = 0;

beforeAll(async () => {
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: 'backups' }));
  wire = await TcpProxy.start(Number(new URL(gateway.endpoint).port));
  bucket = await openBucket(place());
}, makeMs);
afterAll(async () => {
  bucket[Symbol.dispose]();
  await wire[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});
beforeEach(async () => {
  n += 1;
  key = `object-${n}`;
  id = await beginUpload(bucket, key, signal());
});

const place = (changes: Partial<BucketPlace> = {}): BucketPlace => ({
  endpoint: `http://${wire.host}`,
  region: 'us-east-1',
  bucket: 'backups',
  prefix: 'shop',
  ...gateway.keys,
  pathStyle: true,
  ca: undefined,
  storageClass: undefined,
  allowed: [wire.host],
  ...changes,
});
const signal = (): AbortSignal => AbortSignal.timeout(40_000);
/** Pauses pass 200 times as fast, silences 20 times. */
const hasty: Clock = { ...systemClock, timer: (ms, fn) => systemClock.timer(ms / (ms < 60_000 ? 200 : 20), fn) };
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const options = (changes: Partial<UploadOptions> = {}): UploadOptions => ({
  addresses: (numbers, over) => signParts(bucket, { key, id }, numbers, 600, over),
  partBytes: minPartBytes,
  clock: systemClock,
  random: Math.random,
  ...changes,
});
const chunked = (bytes: Buffer): Readable =>
  Readable.from(
    Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, at) => bytes.subarray(at * 65_536, (at + 1) * 65_536)),
    { objectMode: false },
  );
const complete = (sent: Uploaded) => completeUpload(bucket, { key, id }, sent, signal());
const read = (
  sent: { bytes: number; sha256: string },
  changes: { clock?: Clock; random?: () => number } = {},
): Readable =>
  download(
    {
      address: (over) => signRead(bucket, key, 600, over),
      bytes: sent.bytes,
      sha256: sent.sha256,
      clock: hasty,
      random: Math.random,
      ...changes,
    },
    signal(),
  );

/** Counts how often something was tried again. */
function counted(): { random: () => number; times: number } {
  const it = {
    times: 0,
    random: () => {
      it.times += 1;
      return 0;
    },
  };
  return it;
}

describe('an upload', () => {
  test.each([0, 1, minPartBytes, 200_000_000])('of %i bytes is in the bucket as it was sent', async (size) => {
    const bytes = randomBytes(size);
    const sent = await upload(chunked(bytes), options(), signal());
    expect(sent).toMatchObject({ bytes: size, sha256: sha256(bytes), parts: Math.ceil(size / minPartBytes) || 1 });
    const stored = await complete(sent);
    expect(stored).toEqual({ bytes: size, etag: sent.etag });
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
    // what the control plane does again, as after its end in the middle
    expect(await complete(sent)).toEqual(stored);
    await expect(completeUpload(bucket, { key, id }, { ...sent, bytes: size + 1 }, signal())).rejects.toMatchObject({
      code: 'object_differs',
    });
  });

  test('goes on after the gateway was frozen', async () => {
    const bytes = randomBytes(40 * mebibyte);
    const tries = counted();
    async function* source(): AsyncGenerator<Buffer> {
      yield bytes.subarray(0, 20 * mebibyte);
      await gateway.freeze();
      yield bytes.subarray(20 * mebibyte);
    }
    const sending = upload(source(), options({ clock: hasty, random: tries.random }), signal());
    try {
      await until('the upload was in trouble', async () => tries.times >= 6);
    } finally {
      await gateway.thaw();
    }
    const sent = await sending;
    await complete(sent);
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
  });

  test('goes on after its connections were cut', { tags: [longTag] }, async () => {
    const bytes = randomBytes(40 * mebibyte);
    let tries = 0;
    const random = (): number => {
      tries += 1;
      if (wire.cuts < 5) wire.cutAfterRequests(mebibyte * tries);
      return 0;
    };
    wire.cutAfterRequests(10 * mebibyte);
    const sent = await upload(chunked(bytes), options({ clock: hasty, random }), signal());
    expect(wire.cuts).toBeGreaterThanOrEqual(5);
    await complete(sent);
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
  });

  test('asks for other addresses when they have expired', async () => {
    const bytes = randomBytes(20 * mebibyte);
    let calls = 0;
    const addresses: UploadOptions['addresses'] = async (numbers, over) => {
      calls += 1;
      if (calls > 1) return signParts(bucket, { key, id }, numbers, 600, over);
      const signingDate = new Date(Date.now() - 3_600_000);
      return Promise.all(
        numbers.map((PartNumber) =>
          getSignedUrl(
            bucket.client,
            new UploadPartCommand({ Bucket: 'backups', Key: `shop/${key}`, UploadId: id, PartNumber }),
            { expiresIn: 60, signingDate },
          ),
        ),
      );
    };
    const sent = await upload(chunked(bytes), options({ addresses, clock: hasty }), signal());
    expect(calls).toBeGreaterThan(1);
    await complete(sent);
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
  });

  test('whose addresses are all refused fails, and shows none of them', async () => {
    const wrong = await openBucket(place({ secretKey: 'not-this-one' }));
    const addresses: UploadOptions['addresses'] = (numbers, over) => signParts(wrong, { key, id }, numbers, 600, over);
    const sending = upload(chunked(randomBytes(100)), options({ addresses, clock: hasty }), signal());
    await expect(sending).rejects.toMatchObject({
      code: 'transfer_failed',
      retryable: false,
      message: expect.stringMatching(/refuses the signed address \(SignatureDoesNotMatch, 403\), .* check the keys/),
    });
    await expect(sending).rejects.not.toThrow(/Signature=|Credential|http:/);
    wrong[Symbol.dispose]();
  });

  test('of which a byte was changed on its way is refused by its MD5, and sent again', async () => {
    const bytes = randomBytes(9 * mebibyte);
    const tries = counted();
    wire.changeAfter(3 * mebibyte);
    const sent = await upload(chunked(bytes), options({ random: tries.random }), signal());
    expect(wire.willChange).toBe(false);
    expect(tries.times).toBe(1);
    await complete(sent);
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
  });

  test('waits for the control plane while that gives no addresses', async () => {
    const bytes = randomBytes(20 * mebibyte);
    let calls = 0;
    const addresses: UploadOptions['addresses'] = async (numbers, over) => {
      calls += 1;
      if (calls <= 6) throw new Error('the control plane is away');
      return signParts(bucket, { key, id }, numbers, 600, over);
    };
    const sent = await upload(chunked(bytes), options({ addresses, clock: hasty }), signal());
    await complete(sent);
    expect((await buffer(read(sent))).equals(bytes)).toBe(true);
  });

  test('that was cancelled leaves nothing open, and its parts are aborted', async () => {
    const cancel = new AbortController();
    const source = chunked(randomBytes(40 * mebibyte));
    const sending = upload(source, options({ progress: () => cancel.abort(new Error('cancelled')) }), cancel.signal);
    await expect(sending).rejects.toThrow('cancelled');
    expect(source.destroyed).toBe(true);
    expect((await listParts(bucket, { key, id }, signal())).length).toBeGreaterThan(0);
    await abortUpload(bucket, { key, id }, signal());
    await abortUpload(bucket, { key, id }, signal());
    await expect(listParts(bucket, { key, id }, signal())).rejects.toMatchObject({ code: 'upload_gone' });
    bucket[Symbol.dispose]();
    await until('every connection is closed', async () => wire.connections === 0);
    bucket = await openBucket(place());
  });

  test('that was aborted fails at once', async () => {
    await abortUpload(bucket, { key, id }, signal());
    await expect(upload(chunked(randomBytes(100)), options(), signal())).rejects.toMatchObject({
      code: 'transfer_failed',
      retryable: false,
      message: expect.stringContaining('it was aborted, or completed'),
    });
    await expect(complete({ bytes: 100, sha256: '', parts: 1, md5s: [], etag: undefined })).rejects.toMatchObject({
      code: 'upload_gone',
    });
  });

  test(
    'of which an attempt before it left parts with higher numbers is refused by this gateway, in plain words',
    { tags: [longTag] },
    async () => {
      const before = await upload(chunked(randomBytes(3 * minPartBytes)), options(), signal());
      expect(before.parts).toBe(3);
      const sent = await upload(chunked(randomBytes(minPartBytes + 100)), options(), signal());
      expect((await listParts(bucket, { key, id }, signal())).map(({ number }) => number)).toEqual([1, 2, 3]);
      await expect(complete(sent)).rejects.toMatchObject({
        code: 'parts_differ',
        message: expect.stringContaining('from an attempt that was interrupted'),
      });
      expect(await statObject(bucket, key, signal())).toBeUndefined();
      await abortUpload(bucket, { key, id }, signal());
    },
  );

  test('of which the bucket has other parts than were sent is not completed', async () => {
    const sent = await upload(chunked(randomBytes(100)), options(), signal());
    const [address = ''] = await signParts(bucket, { key, id }, [1], 60, signal());
    expect((await fetch(address, { method: 'PUT', body: randomBytes(100) })).status).toBe(200);
    const completing = complete(sent);
    await expect(completing).rejects.toBeInstanceOf(WrongObject);
    await expect(completing).rejects.toMatchObject({ code: 'parts_differ' });
    expect(await statObject(bucket, key, signal())).toBeUndefined();
    await abortUpload(bucket, { key, id }, signal());
  });
});

describe('a download', () => {
  const bytes = randomBytes(20 * mebibyte);
  const of = { bytes: bytes.length, sha256: sha256(bytes) };
  const put = (body: Buffer) =>
    gateway.client().send(new PutObjectCommand({ Bucket: 'backups', Key: `shop/${key}`, Body: body }));

  beforeEach(() => put(bytes));

  /** What a reader gets until the stream fails: its error, and whether it ended before. */
  async function failed(stream: Readable): Promise<{ error: Error; hasEnded: boolean }> {
    let hasEnded = false;
    stream.on('end', () => (hasEnded = true));
    stream.resume();
    const [error] = (await once(stream, 'error')) as [Error];
    return { error, hasEnded };
  }

  test('goes on where its connection was cut', async () => {
    let cuts = 0;
    // the next cut is prepared before the connection that it is for: what was read is no sign of it
    const random = (): number => {
      cuts += 1;
      if (cuts < 5) wire.cutAfter(3 * mebibyte);
      return 0;
    };
    wire.cutAfter(mebibyte);
    const got = await buffer(read(of, { random }));
    expect(cuts).toBe(5);
    expect(got.equals(bytes)).toBe(true);
  });

  test('of an object that is shorter or longer than expected fails before its first byte', async () => {
    const failure = (size: number) => ({
      hasEnded: false,
      error: expect.objectContaining({
        code: 'transfer_failed',
        message: expect.stringContaining(`has ${size} bytes, and not ${bytes.length}`),
      }),
    });
    await put(bytes.subarray(1));
    expect(await failed(read(of))).toEqual(failure(bytes.length - 1));
    await put(Buffer.concat([bytes, Buffer.alloc(1)]));
    expect(await failed(read(of))).toEqual(failure(bytes.length + 1));
  });

  test('of an object of which one byte is another fails and does not end', async () => {
    const other = Buffer.from(bytes);
    other[7_000_000] = (other[7_000_000] ?? 0) ^ 1;
    await put(other);
    const { error, hasEnded } = await failed(read(of));
    expect(error).toMatchObject({ code: 'transfer_failed', retryable: false });
    expect(error.message).toContain('SHA-256');
    expect(hasEnded).toBe(false);
  });

  test('of an object that is replaced in the middle fails', async () => {
    const stream = read(of);
    stream.once('readable', () => undefined);
    await once(stream, 'readable');
    await put(randomBytes(bytes.length));
    wire.cut();
    const { error, hasEnded } = await failed(stream);
    expect(error.message).toContain('was changed while it was read');
    expect(hasEnded).toBe(false);
  });

  test('of an object that is not there fails at once', async () => {
    await deleteObjects(bucket, [key, 'of-nobody'], signal());
    const { error } = await failed(read(of));
    expect(error).toMatchObject({ code: 'transfer_failed', retryable: false });
  });

  test('that nobody reads holds no more than its buffer, and closes its connection when it is destroyed', async () => {
    bucket[Symbol.dispose]();
    bucket = await openBucket(place());
    await until('no connection is open', async () => wire.connections === 0);
    const stream = read(of);
    await once(stream, 'readable');
    expect(wire.connections).toBe(1);
    stream.destroy();
    await until('every connection is closed', async () => wire.connections === 0);
  });
});

describe('a bucket', () => {
  test('gives back what was put, up to a bound', async () => {
    await putObject(bucket, key, '{"a":1}', signal());
    expect(String(await readObject(bucket, key, 7, signal()))).toBe('{"a":1}');
    await expect(readObject(bucket, key, 6, signal())).rejects.toMatchObject({ code: 'object_too_large' });
    expect(await readObject(bucket, 'of-nobody', 6, signal())).toBeUndefined();
    expect(await statObject(bucket, key, signal())).toMatchObject({ bytes: 7 });
    await deleteObjects(bucket, [key], signal());
    expect(await statObject(bucket, key, signal())).toBeUndefined();
  });

  test('has its trouble in words', async () => {
    using wrong = await openBucket(place({ bucket: 'of-nobody' }));
    await expect(beginUpload(wrong, key, signal())).rejects.toMatchObject({
      name: 'BucketFailure',
      trouble: { code: 'no_bucket', isPassing: false },
    });
  });

  test('of another account serves with the rights that the page of backups names', async () => {
    const keys = await gateway.user('other');
    const client = gateway.client();
    await client.send(new CreateBucketCommand({ Bucket: 'granted' }));
    const Action = [
      'PutObject',
      'GetObject',
      'ListBucket',
      'DeleteObject',
      'AbortMultipartUpload',
      'ListMultipartUploadParts',
      'ListBucketMultipartUploads',
    ].map((action) => `s3:${action}`);
    const Resource = ['arn:aws:s3:::granted', 'arn:aws:s3:::granted/*'];
    const Statement = [{ Effect: 'Allow', Principal: { AWS: ['arn:aws:iam:::user/other'] }, Action, Resource }];
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
    await client.send(new PutBucketPolicyCommand({ Bucket: 'granted', Policy }));
    using granted = await openBucket(place({ bucket: 'granted', ...keys }));
    const own = { key, id: await beginUpload(granted, key, signal()) };
    const addresses: UploadOptions['addresses'] = (numbers, over) => signParts(granted, own, numbers, 60, over);
    const sent = await upload(chunked(randomBytes(100)), options({ addresses }), signal());
    await completeUpload(granted, own, sent, signal());
    await beginUpload(granted, 'left', signal());
    const old = { below: '', before: new Date(Date.now() + 3_600_000), most: 5 };
    expect(await abortOldUploads(granted, old, signal())).toEqual({ aborted: 1, more: false });
    await deleteObjects(granted, [key], signal());
  });

  test('loses the uploads that are old enough, a bounded number at a time', async () => {
    for (const name of ['a/1', 'a/2', 'a/3', 'b/1']) await beginUpload(bucket, name, signal());
    const hour = 3_600_000;
    const old = (before: number, most: number) =>
      abortOldUploads(bucket, { below: 'a/', before: new Date(Date.now() + before), most }, signal());
    expect(await old(-hour, 10)).toEqual({ aborted: 0, more: false });
    expect(await old(hour, 2)).toEqual({ aborted: 2, more: true });
    expect(await old(hour, 2)).toEqual({ aborted: 1, more: false });
    const { Uploads = [] } = await gateway.client().send(new ListMultipartUploadsCommand({ Bucket: 'backups' }));
    expect(Uploads.map(({ Key }) => Key)).toContain('shop/b/1');
    expect(Uploads.filter(({ Key }) => Key?.startsWith('shop/a/'))).toEqual([]);
  });

  test('signs no more addresses than are bounded, and only of parts that there can be', async () => {
    const sign = (numbers: number[]) => signParts(bucket, { key, id }, numbers, 60, signal());
    await expect(sign(Array.from({ length: 101 }, (_, at) => at + 1))).rejects.toThrow(RangeError);
    await expect(sign([0])).rejects.toThrow(RangeError);
    const [address = ''] = await sign([1]);
    const { host, searchParams } = new URL(address);
    expect(host).toBe(wire.host);
    expect([...searchParams.keys()].filter((name) => /checksum/i.test(name))).toEqual([]);
    expect(searchParams.get('X-Amz-SignedHeaders')).toBe('host');
  });
});
