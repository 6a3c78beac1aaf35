import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SearchBucket } from '../../api/ground/bucket-probe.ts';
import { manifestOf } from '../../store/backup-manifest.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { desiredState } from '../harness/states.ts';

/** What a bucket has of another installation becomes backups of this one. */
const unlimited = { perMinute: 0, burst: 1 };
let world: ApiWorld;
let owner: Client;
let project: string;
let environment: string;
let server: string;
let destination: string;
let found: Awaited<ReturnType<SearchBucket>>;
let asked: Parameters<SearchBucket>[1][];

beforeAll(async () => {
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited },
    searchBucket: async (_, wanted) => {
      asked.push(wanted);
      return found;
    },
  });
  owner = await world.owner();
  server = (await owner.post('/servers', { name: 'one' })).data.id;
  const made = (await owner.post('/projects', { name: 'shop', default_server_id: server })).data;
  [project, environment] = [made.id, made.default_environment_id];
  const body = {
    name: 'store',
    provider: 'custom',
    endpoint: 'https://s3.example.test',
    bucket: 'backups',
    access_key: 'AKIDOFTHETEST',
    secret_key: 'sesame',
  };
  destination = (await owner.post('/settings/backup-destinations', body)).data.id;
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});
beforeEach(() => {
  asked = [];
  found = { objects: [] };
});

const seen = {
  phase: 'completed' as const,
  size_bytes: 500,
  dump_bytes: 900,
  checksum_sha256: 'ab'.repeat(32),
  started_at: '2029-12-31T00:00:00.000Z',
  finished_at: '2029-12-31T00:01:00.000Z',
};

/** The manifest that another installation wrote of a backup. */
function manifest(id: string, changes: object = {}): { key: string; content: string } {
  const desired = desiredState('backup', { name: 'orders' });
  const text = manifestOf(
    { meta: { id }, desired } as unknown as Parameters<typeof manifestOf>[0],
    {
      ...seen,
      conditions: [],
      observedGeneration: 1,
    } as unknown as Parameters<typeof manifestOf>[1],
  );
  const content = JSON.stringify({ ...JSON.parse(text), ...changes });
  return { key: `elsewhere/project/database/backups/${id}/manifest.json`, content };
}

const take = (body: object = {}) =>
  owner.post(`/settings/backup-destinations/${destination}/import`, { project_id: project, ...body });

describe('the import of backups', () => {
  it('takes up what its manifests describe, once, where the caller says', async () => {
    const id = crypto.randomUUID();
    found = { objects: [manifest(id)], next: 'elsewhere/z' };
    const { status, data } = await take({ after: 'elsewhere/a' });
    expect(status).toBe(200);
    expect(asked).toEqual([{ name: 'manifest.json', after: 'elsewhere/a', maxBytes: 65_536 }]);
    expect(data).toMatchObject({ known: 0, skipped: [], next: 'elsewhere/z' });
    expect(data.imported).toEqual([
      expect.objectContaining({
        id,
        name: 'orders',
        status: 'pending',
        kind: 'database',
        project_id: project,
        environment_id: environment,
        destination_id: destination,
        object_key: `elsewhere/project/database/backups/${id}/dump.zst`,
      }),
    ]);
    expect((await take()).data).toMatchObject({ imported: [], known: 1 });
  });

  it('leaves out what it cannot read, and says so', async () => {
    const ids = Array.from({ length: 4 }, () => crypto.randomUUID());
    const [one = '', two = '', three = '', four = ''] = ids;
    const engine = { type: 'mongodb', version: '8' };
    const objects = [
      { key: 'a/manifest.json', content: 'no json' },
      { key: 'b/manifest.json', content: '{"format":"another/1"}' },
      { key: 'c/manifest.json' },
      manifest(one, { checksum_sha256: '../..' }),
      manifest('no-uuid'),
      manifest(two, { engine }),
      manifest(three, { size_bytes: -1 }),
      manifest(four),
    ];
    found = { objects };
    const { data } = await take();
    expect(data.imported.map((it: { id: string }) => it.id)).toEqual([four]);
    expect(data.skipped).toEqual([
      ...[0, 1, 2, 3, 4].map((at) => ({ manifest_key: objects[at]?.key, reason: 'not_readable' })),
      { manifest_key: objects[5]?.key, reason: 'no_backups' },
      { manifest_key: objects[6]?.key, reason: 'not_readable' },
    ]);
  });

  it('takes what the database was set to, of which a new one has what this release takes', async () => {
    const id = crypto.randomUUID();
    const settings = { memory_limit: '1g', require_tls: true };
    const parameters = { max_connections: '50', of_a_later_release: '1', work_mem: 'much' };
    found = { objects: [manifest(id, { settings: { ...settings, parameters } })] };
    expect((await take()).data.imported).toHaveLength(1);
    await world.observe('backup', id, { phase: 'completed' });
    const { data, status } = await owner.post(`/backups/database/${id}/restore`, { new_name: 'orders-again' });
    expect(status).toBe(201);
    const made = (await owner.get(`/databases/${data.database_id}`)).data;
    expect(made).toMatchObject({ ...settings, parameters: { max_connections: '50' } });
  });

  it('leaves out what is of an object of another project', async () => {
    const other = (await owner.post('/projects', { name: 'elsewhere', default_server_id: server })).data;
    const body = { project_id: other.id, name: 'orders', type: 'postgres' };
    const database = (await owner.post('/databases', body)).data;
    const names = { name: 'orders', database_user: 'app', database_name: 'app' };
    const id = crypto.randomUUID();
    found = { objects: [manifest(id, { database: { id: database.id, ...names } })] };
    const skipped = { manifest_key: found.objects[0]?.key, reason: 'of_another_project' };
    expect((await take()).data).toMatchObject({ imported: [], skipped: [skipped] });
    expect((await take({ project_id: other.id })).data.imported).toMatchObject([{ id }]);
  });

  it('is refused with the words of the bucket, into no project, and to whom is no admin', async () => {
    found = { trouble: { code: 'no_bucket', message: 'There is no bucket backups' } };
    expect(await take()).toMatchObject({
      status: 409,
      body: { error: { message: 'Cannot list the bucket. There is no bucket backups' } },
    });
    expect((await take({ project_id: crypto.randomUUID() })).status).toBe(404);
    const user = await world.user();
    expect(
      (await user.post(`/settings/backup-destinations/${destination}/import`, { project_id: project })).status,
    ).toBe(403);
  });
});
