import { afterAll, beforeAll, expect, test } from 'vitest';
import { completeUpload } from '../../network/bucket-objects.ts';
import { openBucket } from '../../network/bucket.ts';
import { smallS3 } from '../harness/small-s3.ts';
import type { SmallS3 } from '../harness/small-s3.ts';

let s3: SmallS3;
beforeAll(async () => {
  s3 = await smallS3();
});
afterAll(() => s3[Symbol.asyncDispose]());

test('an upload is completed with its first parts, and those that an attempt before it left are left out', async () => {
  using bucket = await openBucket({
    endpoint: s3.endpoint,
    region: 'eu-central-1',
    bucket: 'backups',
    prefix: '',
    accessKey: 'AKIDEXAMPLE',
    secretKey: 'secret-of-the-test',
    pathStyle: true,
    ca: undefined,
    storageClass: undefined,
    allowed: [s3.host],
  });
  const part = (number: number): string =>
    `<Part><PartNumber>${number}</PartNumber><Size>4</Size><ETag>"${String(number).repeat(32)}"</ETag></Part>`;
  s3.instead = (call) =>
    call === 'ListParts'
      ? { status: 200, body: `<ListPartsResult>${[1, 2, 3].map(part).join('')}</ListPartsResult>` }
      : undefined;
  const signal = AbortSignal.timeout(40_000);
  const wanted = { bytes: 8, parts: 2, etag: undefined };
  // what this server makes of an upload is another object, which is found afterwards
  await expect(completeUpload(bucket, { key: 'dump', id: 'one' }, wanted, signal)).rejects.toMatchObject({
    code: 'object_differs',
  });
  const [asked] = s3.calls.filter(({ call }) => call === 'CompleteMultipartUpload');
  expect([...(asked?.text.matchAll(/<PartNumber>(\d+)</g) ?? [])].map(([, number]) => number)).toEqual(['1', '2']);
});
