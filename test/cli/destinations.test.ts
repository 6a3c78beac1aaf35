import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { probeBucket } from '../../network/bucket-probe.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import { smallS3 } from '../harness/small-s3.ts';
import type { SmallS3 } from '../harness/small-s3.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let s3: SmallS3;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi({ probeBucket });
  owner = await world.owner();
  s3 = await smallS3();
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const environment = () => ({
  SETPOINT_URL: world.url,
  SETPOINT_TENANT: 'default',
  SETPOINT_TOKEN: owner.token ?? '',
});
const run = (argv: readonly string[], stdin = '') => cli.run(argv, stdin, environment());
const find = async (name: string) => (await owner.get(`/settings/backup-destinations?q=${name}`)).data[0];

it('a bucket is kept, shown, changed and deleted; its secret key is read from standard input', async () => {
  const at = ['--provider', 'minio', '--endpoint', s3.endpoint, '--bucket', 'backups'];
  const create = ['create', 'destination', 'nightly', ...at, '--access-key', 'AKIDOFTHETEST'];
  const early = await run(create, 'sesame\n');
  expect([early.code, early.err]).toEqual([1, expect.stringContaining('in the setting backup_endpoints')]);
  const set = await run(['settings', 'set', `backup_endpoints=${s3.host}`]);
  expect(set.out).toMatch(new RegExp(`^backup_endpoints +${s3.host}$`, 'm'));

  const made = await run(create, 'sesame\n');
  expect(made).toEqual({
    code: 0,
    out: 'backup-destination nightly is created: bucket backups was written to, read, listed and deleted from\n',
    err: '',
  });
  expect((await run(['get', 'destinations'])).out).toMatch(/nightly +minio +backups +pending /);
  const described = await run(['describe', 'destination', 'nightly']);
  expect(described.out).toContain('****TEST');
  expect(described.out).not.toContain('sesame');

  const changed = await run(['set', 'destination', 'nightly', '--path-prefix', 'shop', '--storage-class', 'COLD']);
  expect(changed).toEqual({ code: 0, out: 'backup-destination nightly is changed\n', err: '' });
  expect(await find('nightly')).toMatchObject({ path_prefix: 'shop', storage_class: 'COLD' });
  const rotated = await run(
    ['set', 'backup-destination', 'nightly', '--access-key', 'AKIDOFLATER0', '--secret-key', '--storage-class', 'none'],
    'another\n',
  );
  expect([rotated.code, rotated.err]).toEqual([0, '']);
  expect(await find('nightly')).toMatchObject({ access_key: '****TER0', storage_class: null });

  const refused = await run(['set', 'destination', 'nightly', '--endpoint', 'https://s3.example.com']);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('secret_key is required')]);
  const deleted = await run(['delete', 'destination', 'nightly', '--yes']);
  expect(deleted.code).toBe(0);
  expect(await find('nightly')).toBeUndefined();
});

it('a destination without what it needs is refused before anything is asked', async () => {
  const incomplete = await run(['create', 'destination', 'one', '--provider', 's3']);
  expect([incomplete.code, incomplete.err]).toEqual([1, expect.stringContaining('--bucket and --access-key')]);
  expect((await run(['create', 'destination', 'one', '--provider', 'azure'])).code).not.toBe(0);
});
