import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probeBucket } from '../../network/bucket-probe.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { smallS3 } from '../harness/small-s3.ts';
import type { SmallS3 } from '../harness/small-s3.ts';

const unlimited = { perMinute: 0, burst: 1 };
const path = '/settings/backup-destinations';
const accessKey = 'AKIDOFTHETEST';
const secretKey = 'secret-of-the-test/+=';

let s3: SmallS3;
let other: SmallS3;
let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  s3 = await smallS3();
  other = await smallS3();
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited },
    logLevel: 'trace',
    probeBucket,
  });
  owner = await world.owner();
  const set = await owner.put('/settings', { backup_endpoints: [s3.host, other.host.toUpperCase()] });
  expect(set.data.backup_endpoints).toEqual([s3.host, other.host]);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;
const detailOf = ({ body }: Answer) => body.error?.details?.[0];
const create = (fields: object = {}): Promise<Answer> =>
  owner.post(path, {
    name: aName(),
    provider: 'custom',
    endpoint: s3.endpoint,
    bucket: 'backups',
    access_key: accessKey,
    secret_key: secretKey,
    ...fields,
  });

describe('a backup destination', () => {
  it('is kept once its bucket could be used, and never shows its keys', async () => {
    const made = await create({ path_prefix: 'shop/all' });
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({
      provider: 'custom',
      endpoint: s3.endpoint,
      region: 'us-east-1',
      path_style: true,
      path_prefix: 'shop/all',
      access_key: '****TEST',
      account_id: null,
      last_probe_at: null,
      status: 'pending',
    });
    for (const { body } of [made, await owner.get(`${path}/${made.data.id}`), await owner.get(path)]) {
      expect(JSON.stringify(body)).not.toContain(secretKey);
      expect(JSON.stringify(body)).not.toContain(accessKey);
    }
    expect(s3.calls.at(-1)?.path).toMatch(/^\/backups\/shop\/all\/\.setpoint-probe\//);
    expect(s3.objects.size).toBe(0);
  });

  it('shows nothing of an access key that is short', async () => {
    expect((await create({ access_key: 'TESTKEY' })).data.access_key).toBe('****');
  });

  it.each([
    ['SignatureDoesNotMatch', 'secret_key', 'wrong_secret'],
    ['InvalidAccessKeyId', 'access_key', 'unknown_key'],
    ['NoSuchBucket', 'bucket', 'no_bucket'],
    ['AccessDenied', 'access_key', 'may_not_write'],
    ['PermanentRedirect', 'region', 'wrong_region'],
    ['InvalidStorageClass', 'storage_class', 'bad_storage_class'],
    ['SomethingNew', 'endpoint', 'unexpected'],
  ])('is refused where S3 says %s, with the field and what to do', async (code, field, reason) => {
    s3.instead = (call) => (call === 'PutObject' ? { code, status: 403 } : undefined);
    const refused = await create();
    s3.instead = () => undefined;
    expect([refused.status, detailOf(refused)?.field, detailOf(refused)?.reason]).toEqual([400, field, reason]);
    expect(JSON.stringify(refused.body)).not.toContain('sent-by-the-service');
  });

  it.each([
    [{ endpoint: 'https://10.0.0.7' }, 'endpoint', 'not_allowed'],
    [{ endpoint: 'http://192.0.2.1' }, 'endpoint', 'not_allowed'],
    [{ endpoint: 'https://s3.example.com/path' }, 'endpoint', undefined],
    [{ endpoint: 'https://user:word@s3.example.com' }, 'endpoint', undefined],
    [{ endpoint: 'ftp://s3.example.com' }, 'endpoint', undefined],
    [{ endpoint: null }, 'endpoint', 'provider'],
    [{ provider: 'azure' }, 'provider', undefined],
    [{ provider: 's3', endpoint: null }, 'region', 'provider'],
    [{ provider: 's3', endpoint: null, region: 'EU_1' }, 'region', 'provider'],
    [{ provider: 'r2', endpoint: null }, 'account_id', 'provider'],
    [{ provider: 'r2', account_id: '0'.repeat(32) }, 'endpoint', 'provider'],
    [{ account_id: '0'.repeat(32) }, 'account_id', 'provider'],
    [{ bucket: 'Backups' }, 'bucket', undefined],
    [{ bucket: 'a..b' }, 'bucket', undefined],
    [{ path_prefix: '/shop' }, 'path_prefix', undefined],
    [{ path_prefix: 'shop/../..' }, 'path_prefix', undefined],
    [{ ca: 'no certificate' }, 'ca', undefined],
    [{ access_key: 'with space' }, 'access_key', undefined],
    [{ description: 'no such field' }, 'description', undefined],
  ])('is refused with the field: %j', async (fields, field, reason) => {
    s3.calls.length = 0;
    const refused = await create(fields);
    expect([refused.status, detailOf(refused)?.field]).toEqual([400, field]);
    if (reason !== undefined) expect(detailOf(refused)?.reason).toBe(reason);
    expect(s3.calls).toEqual([]);
  });

  it('SEC-14 is bound to its endpoint: another one, or another authority or access key, needs the secret anew', async () => {
    const { id } = (await create()).data;
    other.calls.length = 0;
    for (const fields of [{ endpoint: other.endpoint }, { access_key: 'ANOTHERKEY12' }]) {
      const alone = await owner.put(`${path}/${id}`, fields);
      expect([alone.status, detailOf(alone)?.field, detailOf(alone)?.reason]).toEqual([400, 'secret_key', 'required']);
    }
    expect(other.calls).toEqual([]);
    const moved = await owner.put(`${path}/${id}`, { endpoint: other.endpoint, secret_key: secretKey });
    expect([moved.status, moved.data.endpoint]).toEqual([200, other.endpoint]);
    // the access key was kept
    expect(other.calls[0]?.headers.authorization).toContain(accessKey);
    const rotated = await owner.put(`${path}/${id}`, { access_key: 'ANOTHERKEY12', secret_key: 'another' });
    expect([rotated.status, rotated.data.access_key]).toEqual([200, '****EY12']);
    expect(other.calls.at(-1)?.headers.authorization).toContain('ANOTHERKEY12');
  });

  it('is probed with what a change makes of it, and stays as it was where that cannot be used', async () => {
    const { id } = (await create()).data;
    s3.calls.length = 0;
    s3.instead = () => ({ code: 'NoSuchBucket', status: 404 });
    const refused = await owner.put(`${path}/${id}`, { bucket: 'elsewhere' });
    s3.instead = () => undefined;
    expect([refused.status, detailOf(refused)?.field]).toEqual([400, 'bucket']);
    expect(s3.calls[0]?.path).toMatch(/^\/elsewhere\//);
    expect((await owner.get(`${path}/${id}`)).data.bucket).toBe('backups');
    expect((await owner.put(`${path}/${id}`, { bucket: 'elsewhere' })).data.bucket).toBe('elsewhere');
  });

  it('takes back an answer that it gave, and is not probed for a new name alone', async () => {
    const { data } = await create({ storage_class: 'STANDARD_IA' });
    s3.calls.length = 0;
    const same = await owner.put(`${path}/${data.id}`, data);
    expect([same.status, same.data.resource_version]).toEqual([200, data.resource_version]);
    const renamed = await owner.put(`${path}/${data.id}`, { name: aName(), labels: { team: 'blue' } });
    expect(renamed.status).toBe(200);
    expect(s3.calls).toEqual([]);
    const cleared = await owner.put(`${path}/${data.id}`, { storage_class: null, path_prefix: 'below' });
    expect(cleared.data).toMatchObject({ storage_class: null, path_prefix: 'below' });
    expect(s3.calls[0]?.headers['x-amz-storage-class']).toBeUndefined();
  });

  it('shows what its controller found', async () => {
    const { id } = (await create()).data;
    const message = 'Endpoint s3.example.com has no bucket backups: make it there, or correct bucket';
    await world.observe(
      'backup_destination',
      id,
      {
        phase: 'unreachable',
        probed_at: '2030-01-01T00:00:00.000Z',
        failures: 1,
        trouble: { code: 'no_bucket', message },
        is_clock_off: false,
      },
      [{ type: 'Reachable', status: 'false', reason: 'NoBucket', message }],
    );
    await world.settled();
    const { data } = await owner.get(`${path}/${id}`);
    expect(data).toMatchObject({ status: 'unreachable', last_probe_at: '2030-01-01T00:00:00.000Z' });
    expect(data.conditions).toMatchObject([{ type: 'Reachable', reason: 'NoBucket', message }]);
    const found = (await owner.get(`${path}?status=unreachable`)).data.map((it: { id: string }) => it.id);
    expect(found).toEqual([id]);
  });

  it('is seen by owners and admins of projects as name and provider, and by no other user', async () => {
    const { data } = await create({ bucket: 'of-the-tenant' });
    const user = await world.user();
    expect((await user.get(path)).status).toBe(403);
    await user.post('/projects', { name: aName() });
    const seen = await user.get(`${path}/${data.id}`);
    expect(seen.data).toEqual({ id: data.id, name: data.name, provider: 'custom' });
    const listed = await user.get(path);
    expect(Object.keys(listed.data[0])).toEqual(['id', 'name', 'provider']);
    // a search tells nothing about what is not shown
    expect((await user.get(`${path}?q=of-the-tenant`)).data).toEqual([]);
    expect((await user.put(`${path}/${data.id}`, { name: aName() })).status).toBe(403);
    expect((await user.delete(`${path}/${data.id}`)).status).toBe(403);
  });

  it('has a name of its own, and is deleted without a trace, while what is in its bucket stays', async () => {
    const { data } = await create();
    expect((await create({ name: data.name })).status).toBe(409);
    s3.calls.length = 0;
    expect((await owner.delete(`${path}/${data.id}`)).status).toBe(204);
    expect((await owner.get(`${path}/${data.id}`)).status).toBe(404);
    expect(s3.calls).toEqual([]);
  });

  it('shows its keys in no log, audit record and record of the store', async () => {
    const { id } = (await create()).data;
    const audit = JSON.stringify((await owner.get('/audit?limit=500')).body);
    expect(audit).toContain(id);
    const stored = JSON.stringify(await entriesOf(world.store));
    for (const text of [...world.logged, audit, stored]) {
      expect(text).not.toContain(secretKey);
      expect(text).not.toContain(accessKey);
    }
  });
});
