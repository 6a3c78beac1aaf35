import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probeBucket } from '../../network/bucket-probe.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { createAuthority } from '../harness/certificates.ts';
import type { Authority, Certificate } from '../harness/certificates.ts';
import { smallS3 } from '../harness/small-s3.ts';
import type { Instead, S3Call, SmallS3 } from '../harness/small-s3.ts';
import { longTag } from '../layer-report.ts';

let s3: SmallS3;
let authority: Authority;
let certificate: Certificate;

beforeAll(async () => {
  s3 = await smallS3();
  authority = await createAuthority();
  certificate = await authority.issue('localhost');
});
afterAll(async () => {
  await s3[Symbol.asyncDispose]();
  await authority[Symbol.asyncDispose]();
});

const probe = (changes: Partial<BucketPlace> = {}, signal = AbortSignal.timeout(40_000)) =>
  probeBucket(
    {
      endpoint: s3.endpoint,
      region: 'eu-central-1',
      bucket: 'backups',
      prefix: 'shop',
      accessKey: 'AKIDEXAMPLE',
      secretKey: 'secret-of-the-test',
      pathStyle: true,
      ca: undefined,
      storageClass: undefined,
      allowed: [s3.host],
      ...changes,
    },
    'one',
    signal,
  );

/** The trouble of a probe while the server answers one call otherwise. */
async function troubleWith(call: S3Call, instead: Instead) {
  s3.instead = (asked) => (asked === call ? instead : undefined);
  try {
    const { trouble } = await probe();
    return trouble;
  } finally {
    s3.instead = () => undefined;
  }
}

describe('a probe of a bucket', () => {
  it('writes, reads, lists, deletes and uploads in parts, below the prefix, and leaves nothing', async () => {
    s3.calls.length = 0;
    expect(await probe()).toEqual({ trouble: undefined, isClockOff: false });
    expect(s3.calls.map(({ call }) => call)).toEqual([
      'PutObject',
      'GetObject',
      'ListObjectsV2',
      'ListMultipartUploads',
      'DeleteObject',
      'CreateMultipartUpload',
      'UploadPart',
      'ListParts',
      'CompleteMultipartUpload',
      'DeleteObject',
    ]);
    expect(s3.calls[0]?.path).toMatch(/^\/backups\/shop\/\.setpoint-probe\/one\/[0-9a-f]{16}$/);
    expect([s3.objects.size, s3.uploads.size]).toEqual([0, 0]);
  });

  it('asks for the storage class, and signs for the region', async () => {
    s3.calls.length = 0;
    await probe({ storageClass: 'STANDARD_IA', prefix: '' });
    const [written] = s3.calls;
    expect(written?.headers['x-amz-storage-class']).toBe('STANDARD_IA');
    expect(written?.headers.authorization).toContain('/eu-central-1/s3/aws4_request');
    expect(written?.path).toMatch(/^\/backups\/\.setpoint-probe\/one\//);
    expect(s3.calls.find(({ call }) => call === 'CreateMultipartUpload')?.headers['x-amz-storage-class']).toBe(
      'STANDARD_IA',
    );
  });

  it.each<[S3Call, Instead, string]>([
    ['PutObject', { code: 'SignatureDoesNotMatch', status: 403 }, 'wrong_secret'],
    ['PutObject', { code: 'InvalidAccessKeyId', status: 403 }, 'unknown_key'],
    ['PutObject', { code: 'Unauthorized', status: 401 }, 'keys_refused'],
    ['PutObject', { code: 'NoSuchBucket', status: 404 }, 'no_bucket'],
    ['PutObject', { code: 'AccessDenied', status: 403 }, 'may_not_write'],
    ['GetObject', { code: 'AccessDenied', status: 403 }, 'may_not_read'],
    ['ListObjectsV2', { code: 'AccessDenied', status: 403 }, 'may_not_list'],
    ['ListMultipartUploads', { code: 'AccessDenied', status: 403 }, 'may_not_list'],
    ['DeleteObject', { code: 'AccessDenied', status: 403 }, 'may_not_delete'],
    ['CreateMultipartUpload', { code: 'AccessDenied', status: 403 }, 'may_not_upload'],
    ['ListParts', { code: 'AccessDenied', status: 403 }, 'may_not_upload'],
    ['ListParts', { body: '<ListPartsResult></ListPartsResult>', status: 200 }, 'not_listed'],
    ['CompleteMultipartUpload', { code: 'AccessDenied', status: 403 }, 'may_not_upload'],
    [
      'PutObject',
      { code: 'PermanentRedirect', status: 301, headers: { 'x-amz-bucket-region': 'us-west-2' } },
      'wrong_region',
    ],
    [
      'PutObject',
      { code: 'AuthorizationHeaderMalformed', status: 400, fields: { Region: 'us-west-2' } },
      'wrong_region',
    ],
    ['PutObject', { body: '', status: 307, headers: { location: 'http://169.254.169.254/' } }, 'wrong_region'],
    ['PutObject', { code: 'InvalidStorageClass', status: 400 }, 'bad_storage_class'],
    ['GetObject', { code: 'InvalidObjectState', status: 403 }, 'not_readable_at_once'],
    ['PutObject', { code: 'QuotaExceeded', status: 403 }, 'no_space'],
    ['PutObject', { code: 'RequestTimeTooSkewed', status: 403 }, 'clock_wrong'],
    ['PutObject', { code: 'InternalError', status: 500 }, 'provider_trouble'],
    ['PutObject', { code: 'SlowDown', status: 503 }, 'provider_trouble'],
    ['PutObject', 'cut', 'cut_off'],
    ['PutObject', { body: '<html>Not here</html>', status: 405 }, 'not_s3'],
    ['PutObject', { body: 'Not here', status: 404 }, 'not_s3'],
    ['GetObject', { body: 'something else', status: 200 }, 'reads_differently'],
    ['GetObject', 'endless', 'not_s3'],
    ['ListObjectsV2', { body: '<ListBucketResult></ListBucketResult>', status: 200 }, 'not_listed'],
    ['ListObjectsV2', { body: '<html><p>Welcome</html>', status: 200 }, 'not_s3'],
    ['ListObjectsV2', 'endless', 'not_s3'],
    ['PutObject', { code: 'SomethingNew', status: 400 }, 'unexpected'],
  ])('whose %s is answered with %j ends with %s', async (call, instead, code) => {
    const trouble = await troubleWith(call, instead);
    expect(trouble).toMatchObject({ code });
    expect(trouble?.message).not.toContain('sent-by-the-service');
    if (call !== 'DeleteObject') expect([s3.objects.size, s3.uploads.size]).toEqual([0, 0]);
    s3.objects.clear();
  });

  it('removes what earlier probes left, and nothing else', async () => {
    const folder = '/backups/shop/.setpoint-probe/one/';
    const others = [`${folder}of-a-probe-beside`, '/backups/shop/.setpoint-probe/two/old', '/backups/shop/dump'];
    for (const path of [`${folder}old`, ...others]) {
      s3.objects.set(path, Buffer.from('x'));
      if (path !== others[0]) s3.written.set(path, new Date(Date.now() - 2 * 3_600_000));
    }
    expect((await probe()).trouble).toBeUndefined();
    expect([...s3.objects.keys()]).toEqual(others);
    s3.objects.clear();
    s3.written.clear();
  });

  it('is not misled by a request of an earlier probe that is carried out late', async () => {
    s3.calls.length = 0;
    expect(await troubleWith('PutObject', 'cut')).toMatchObject({ code: 'cut_off' });
    const late = s3.calls[0]!.path;
    s3.instead = (call) => {
      if (call === 'GetObject') s3.objects.set(late, Buffer.from('of the earlier one'));
      return undefined;
    };
    expect((await probe()).trouble).toBeUndefined();
    s3.instead = () => undefined;
    expect([...s3.objects.keys()]).toEqual([late]);
    s3.objects.clear();
  });

  it('tells the same words each time, and which region the bucket is in', async () => {
    const instead = {
      code: 'AuthorizationHeaderMalformed',
      status: 400,
      fields: { Region: 'us-west-2', RequestId: '17' },
    };
    const first = await troubleWith('PutObject', instead);
    const again = await troubleWith('PutObject', { ...instead, fields: { ...instead.fields, RequestId: '18' } });
    expect(first).toEqual(again);
    expect(first?.message).toContain('set region to us-west-2');
  });

  it('ends at the deadline of a call that is not answered, or answered without end', { tags: [longTag] }, async () => {
    await using silent = await smallS3();
    await using slow = await smallS3();
    silent.instead = (call) => (call === 'GetObject' ? 'hang' : undefined);
    slow.instead = (call) => (call === 'GetObject' ? 'dribble' : undefined);
    const probes = [silent, slow].map(({ endpoint, host }) => probe({ endpoint, allowed: [host] }));
    for (const { trouble } of await Promise.all(probes))
      expect(trouble).toMatchObject({ code: 'timeout', isPassing: true });
  });

  it('ends when it is cancelled', async () => {
    const cancelled = new AbortController();
    s3.instead = (call) => {
      if (call === 'GetObject') cancelled.abort(new Error('Not wanted any more'));
      return call === 'GetObject' ? 'hang' : undefined;
    };
    await expect(probe({}, cancelled.signal)).rejects.toThrow('Not wanted any more');
    s3.instead = () => undefined;
    expect(s3.objects.size).toBe(0);
  });

  it('sees that the clocks differ, and goes on', async () => {
    s3.aheadMs = 10 * 60_000;
    expect(await probe()).toEqual({ trouble: undefined, isClockOff: true });
    s3.aheadMs = 0;
  });

  it('says that nothing listens, and that a name has no address', async () => {
    expect((await probe({ endpoint: 'http://127.0.0.1:1', allowed: ['127.0.0.1:1'] })).trouble).toMatchObject({
      code: 'refused',
      isPassing: true,
    });
    expect((await probe({ endpoint: 'https://nowhere.invalid' })).trouble).toMatchObject({ code: 'no_name' });
  });

  it('trusts an authority that it is given, and no other', async () => {
    const [key, cert, ca] = await Promise.all(
      [certificate.key, certificate.cert, certificate.ca].map((path) => readFile(path, 'utf8')),
    );
    await using secure = await smallS3({ tls: { key: key!, cert: cert! } });
    const host = secure.host.replace('127.0.0.1', 'localhost');
    const at = { endpoint: `https://${host}`, allowed: [host, secure.host] };
    expect((await probe({ ...at, ca })).trouble).toBeUndefined();
    expect((await probe(at)).trouble).toMatchObject({ code: 'not_trusted', message: expect.stringContaining('as ca') });
    const other = await probe({ ...at, ca, endpoint: secure.endpoint });
    expect(other.trouble).toMatchObject({ code: 'not_trusted', message: expect.stringContaining('other names') });
  });

  it('says that an endpoint does not speak TLS', async () => {
    const { trouble } = await probe({ endpoint: s3.endpoint.replace('http:', 'https:') });
    expect(trouble).toMatchObject({ code: 'no_tls' });
  });

  it('SEC-10 reaches this machine and private networks only where the endpoint is named, and metadata never', async () => {
    s3.calls.length = 0;
    const tls = (endpoint: string, allowed: string[] = []) => probe({ endpoint, allowed });
    for (const endpoint of [s3.endpoint.replace('http:', 'https:'), 'https://10.1.2.3', 'https://localhost:1'])
      expect((await tls(endpoint)).trouble).toMatchObject({ code: 'not_allowed', isPassing: false });
    // a name beside it, another port, and plain http to a public address
    expect((await tls(s3.endpoint, ['127.0.0.1'])).trouble).toMatchObject({ code: 'not_allowed' });
    expect((await tls('http://192.0.2.1')).trouble).toMatchObject({ code: 'not_allowed' });
    for (const host of ['169.254.169.254', '[::ffff:169.254.169.254]', '[fd00:ec2::254]'])
      expect((await tls(`http://${host}`, [new URL(`http://${host}`).host])).trouble).toMatchObject({
        code: 'not_allowed',
      });
    expect(s3.calls).toEqual([]);
  });
});
