import {
  CreateBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probeBucket } from '../../network/bucket-probe.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { s3Gateway } from '../harness/s3-gateway.ts';
import type { S3Gateway, S3Keys } from '../harness/s3-gateway.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

/** The first run on an engine makes the image. */
const makeMs = 10 * 60_000;

let gateway: S3Gateway;
let other: S3Keys;

beforeAll(async () => {
  gateway = await s3Gateway();
  await gateway.client().send(new CreateBucketCommand({ Bucket: 'backups' }));
  other = await gateway.user('other');
}, makeMs);
afterAll(() => gateway[Symbol.asyncDispose]());

const place = (changes: Partial<BucketPlace> = {}): BucketPlace => ({
  endpoint: gateway.endpoint,
  region: 'us-east-1',
  bucket: 'backups',
  prefix: 'shop',
  ...gateway.keys,
  pathStyle: true,
  ca: undefined,
  storageClass: undefined,
  allowed: [gateway.host],
  ...changes,
});
const probe = (changes: Partial<BucketPlace> = {}) => probeBucket(place(changes), 'one', AbortSignal.timeout(40_000));

/** What is in a bucket: objects, and uploads that were begun. */
async function contents(Bucket: string): Promise<(string | undefined)[]> {
  const client = gateway.client();
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
  return [...Contents, ...Uploads].map(({ Key }) => Key);
}

const actions = [
  'PutObject',
  'GetObject',
  'ListBucket',
  'ListBucketMultipartUploads',
  'DeleteObject',
  'AbortMultipartUpload',
  'ListMultipartUploadParts',
];

/** A bucket in which the other user may do all that a probe needs, without what is denied. */
async function shared(Bucket: string, denied: readonly string[]): Promise<void> {
  const client = gateway.client();
  await client.send(new CreateBucketCommand({ Bucket }));
  const statement = (Effect: 'Allow' | 'Deny', of: readonly string[]) => ({
    Effect,
    Principal: { AWS: ['arn:aws:iam:::user/other'] },
    Action: of.map((action) => `s3:${action}`),
    Resource: [`arn:aws:s3:::${Bucket}`, `arn:aws:s3:::${Bucket}/*`],
  });
  const Statement = [statement('Allow', actions), ...(denied.length > 0 ? [statement('Deny', denied)] : [])];
  const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
  await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
}

describe('a bucket of the real gateway', () => {
  it('can be used for all that backups need, and nothing is left in it', async () => {
    expect(await probe()).toEqual({ trouble: undefined, isClockOff: false });
    expect(await probe({ prefix: '', storageClass: 'STANDARD' })).toEqual({ trouble: undefined, isClockOff: false });
    expect(await contents('backups')).toEqual([]);
  });

  it.each([
    ['wrong_secret', { secretKey: 'not-this-one' }],
    ['unknown_key', { accessKey: 'AKOFNOBODY12' }],
    ['no_bucket', { bucket: 'of-nobody' }],
    ['bad_storage_class', { storageClass: 'OF_NOBODY' }],
  ] as const)('is refused with %s', async (code, changes) => {
    const { trouble } = await probe(changes);
    expect(trouble?.code).toBe(code);
  });

  it.each([
    ['PutObject', 'may_not_write', []],
    ['GetObject', 'may_not_read', []],
    ['ListBucket', 'may_not_list', []],
    ['ListBucketMultipartUploads', 'may_not_list', []],
    ['ListMultipartUploadParts', 'may_not_upload', []],
    // what may not be deleted stays
    ['DeleteObject', 'may_not_delete', [expect.stringMatching(/^shop\/\.setpoint-probe\/one\//)]],
  ] as const)('of another account is refused where its policy denies %s', async (action, code, left) => {
    const bucket = `without-${action.toLowerCase()}`;
    await shared(bucket, [action]);
    expect((await probe({ bucket, ...other })).trouble?.code).toBe(code);
    expect(await contents(bucket)).toEqual(left);
  });

  it('of another account can be used with the rights that the page of backups names', async () => {
    await shared('granted', []);
    expect((await probe({ bucket: 'granted', ...other })).trouble).toBeUndefined();
    expect(await contents('granted')).toEqual([]);
  });

  it('that is full is told so', async () => {
    const keys = await gateway.user('small');
    await gateway.client(keys).send(new CreateBucketCommand({ Bucket: 'small' }));
    await gateway.admin('quota', 'set', '--quota-scope=user', '--uid=small', '--max-objects=0');
    await gateway.admin('quota', 'enable', '--quota-scope=user', '--uid=small');
    expect((await probe({ bucket: 'small', ...keys })).trouble).toMatchObject({ code: 'no_space' });
  });

  it(
    'does not answer in time while the gateway is frozen, and can be used afterwards',
    { tags: [longTag] },
    async () => {
      // a gateway that goes on carries out what it was asked before, so that this probe may leave its object
      const bucket = 'frozen';
      await gateway.client().send(new CreateBucketCommand({ Bucket: bucket }));
      await gateway.freeze();
      const { trouble } = await probe({ bucket });
      await gateway.thaw();
      expect(trouble).toMatchObject({ code: 'timeout', isPassing: true });
      await until('the bucket can be used', async () => (await probe({ bucket })).trouble === undefined);
    },
  );
});

describe('a destination at the real gateway', () => {
  let world: ApiWorld;
  let owner: Client;
  const path = '/settings/backup-destinations';
  const body = (changes: object = {}) => ({
    name: 'nightly',
    provider: 'custom',
    endpoint: gateway.endpoint,
    bucket: 'backups',
    access_key: gateway.keys.accessKey,
    secret_key: gateway.keys.secretKey,
    ...changes,
  });

  beforeAll(async () => {
    world = await startApi({ probeBucket });
    owner = await world.owner();
    await owner.put('/settings', { backup_endpoints: [gateway.host] });
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  it('is kept with the right keys alone, and its keys are replaced by others that work', async () => {
    const wrong = await owner.post(path, body({ secret_key: 'not-this-one' }));
    expect([wrong.status, wrong.body.error?.details?.[0]?.field]).toEqual([400, 'secret_key']);
    const { status, data } = await owner.post(path, body());
    expect([status, data.access_key]).toEqual([201, `****${gateway.keys.accessKey.slice(-4)}`]);
    const replaced = { access_key: other.accessKey, secret_key: other.secretKey };
    const denied = await owner.put(`${path}/${data.id}`, replaced);
    expect([denied.status, denied.body.error?.details?.[0]?.reason]).toEqual([400, 'may_not_write']);
    await gateway.client(other).send(new CreateBucketCommand({ Bucket: 'of-the-other' }));
    const moved = await owner.put(`${path}/${data.id}`, { ...replaced, bucket: 'of-the-other' });
    expect([moved.status, moved.data.bucket]).toEqual([200, 'of-the-other']);
    expect((await owner.put(`${path}/${data.id}`, { path_prefix: 'a/b' })).status).toBe(200);
    expect((await owner.delete(`${path}/${data.id}`)).status).toBe(204);
    expect(await contents('backups')).toEqual([]);
  });
});
