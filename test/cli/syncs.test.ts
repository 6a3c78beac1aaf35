import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { placeOfSecret } from '../../api/declared/sync-variables.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;
let place: { project: string; server: string };

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  cli = await CommandLine.open();
  place = await world.place(owner);
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const run = (...argv: string[]) => reading('', ...argv);
/** As `run`, with a text as standard input. */
const reading = (stdin: string, ...argv: string[]) =>
  cli.run(['sync', ...argv], stdin, {
    SETPOINT_URL: world.url,
    SETPOINT_TENANT: 'default',
    SETPOINT_TOKEN: owner.token ?? '',
  });

it('a sync is made, shown with its commits, paused, resumed and deleted', async () => {
  const missing = await run('create', 'shop', '--project', place.project, '--on', place.server);
  expect(missing).toMatchObject({ code: 1, err: 'A sync reads a repository: name it by --repository URL\n' });
  const url = 'https://git.example.test/shop.git';
  const at = ['--project', place.project, '--on', place.server, '--repository', url, '--path', 'deploy'];
  expect(await run('create', 'shop', ...at, '--interval', '60', '--no-prune', '--no-wait')).toEqual({
    code: 0,
    out: 'sync shop: pending; commit wanted: none is known yet, applied: none\n',
    err: '',
  });
  const [{ id, ...made }] = (await owner.get('/syncs')).data;
  expect(made).toMatchObject({ path: 'deploy', branch: 'main', interval_seconds: 60, prune: false, drift: 'warn' });
  const [wanted, applied] = ['b'.repeat(40), 'a'.repeat(40)];
  await world.observe('sync', id, {
    phase: 'waiting',
    commit_wanted: wanted,
    commit_applied: applied,
    head: { repository_url: url, tag_pattern: 'v1.*', tag: 'v1.2.0', commit: wanted },
    message: 'It waits for a person',
    differs: ['volumes.files'],
    needs_force: ['volumes.files'],
    runs: [
      {
        commit: wanted,
        at: '2026-01-01T00:00:00.000Z',
        outcome: 'waiting',
        message: 'It waits',
        steps: [],
        changes: 1,
      },
    ],
  });
  expect((await run('list')).out).toMatch(
    /^NAME +PROJECT +REPOSITORY +BRANCH +STATUS +WANTED +APPLIED .*\nshop .* main +waiting +bbbbbbbbbbbb +aaaaaaaaaaaa /,
  );
  expect((await run('show', 'shop')).out).toMatch(
    /^sync shop: waiting; commit wanted: bbbbbbbbbbbb, applied: aaaaaaaaaaaa\nIt waits for a person\n {2}setpoint sync run shop --commit bbbbbbbbbbbb --force volumes\.files\nCOMMIT .*\nbbbbbbbbbbbb .* waiting +1 +It waits\n$/i,
  );
  const tagged = await run('set', 'shop', '--set', 'TAG=1', '--tag-pattern', 'v1.*', '--no-wait');
  expect(tagged.out).toContain('commit wanted: v1.2.0 (bbbbbbbbbbbb), applied: aaaaaaaaaaaa\n');
  expect((await owner.get(`/syncs/${id}`)).data).toMatchObject({ branch: null, tag_pattern: 'v1.*' });
  expect((await run('set', 'shop', '--set', 'MODE=plain', '--branch', 'main', '--no-wait')).code).toBe(0);
  expect((await owner.get(`/syncs/${id}`)).data.variables).toEqual({ TAG: '1', MODE: 'plain' });
  const set = (stdin: string, ...argv: string[]) => reading(stdin, 'set', 'shop', ...argv, '--no-wait');
  expect((await set('first\nsecond\n', '--secret', 'KEY', '--unset', 'MODE')).code).toBe(0);
  const opened = async (name: string) => {
    const sealed = (await world.repo.get('sync', id))?.desired.secrets?.[name];
    const place = placeOfSecret('default', id, name);
    return sealed === undefined ? undefined : world.keyring.unseal(sealed, place);
  };
  expect(await opened('KEY')).toBe('first\nsecond');
  expect((await set('one\ntwo\n', '--secret', 'A', 'B', '--unset', 'KEY')).code).toBe(0);
  expect([await opened('A'), await opened('B'), await opened('KEY')]).toEqual(['one', 'two', undefined]);
  expect((await owner.get(`/syncs/${id}`)).data).toMatchObject({ variables: { TAG: '1' }, secret_names: ['A', 'B'] });
  expect(await set('\n', '--secret', 'KEY')).toMatchObject({ code: 1, err: expect.stringContaining('KEY is empty') });
  expect(await set('', '--unset', 'NONE')).toMatchObject({ code: 1, err: expect.stringContaining('secret NONE') });
  // what was planned is not of these variables
  expect(await run('run', 'shop', '--force', 'volumes.files', '--no-wait')).toMatchObject({
    code: 1,
    err: expect.stringContaining('was not planned since'),
  });
  expect(await run('rollback', 'shop', '--no-wait')).toMatchObject({
    code: 1,
    err: expect.stringContaining('nothing to roll back'),
  });
  const seen = {
    phase: 'in_sync' as const,
    commit_wanted: wanted,
    commit_applied: wanted,
    differs: [],
    needs_force: [],
  };
  await world.observe('sync', id, {
    ...seen,
    runs: [wanted, applied].map((commit) => ({
      commit,
      at: '2026-01-01T00:00:00.000Z',
      outcome: 'applied' as const,
      steps: [],
      changes: 1,
    })),
  });
  expect((await run('rollback', 'shop', '--to', 'aaaaaaaaaaaa', '--no-wait')).out).toMatch(
    /\nIt is pinned to aaaaaaaaaaaa: setpoint sync release shop follows the repository again\n/,
  );
  // the next one goes further back than the commit that was gone back to, and a commit that is applied in part is the present one
  const oldest = 'e'.repeat(40);
  const ran = (commit: string, outcome: 'applied' | 'partly') => ({
    commit,
    at: '2026-01-01T00:00:00.000Z',
    outcome,
    steps: [],
    changes: 1,
  });
  const all = [ran(wanted, 'applied'), ran(applied, 'applied'), ran(oldest, 'applied')];
  await world.observe('sync', id, { ...seen, commit_applied: applied, runs: [ran(applied, 'applied'), ...all] });
  expect((await run('rollback', 'shop', '--no-wait')).out).toContain('pinned to eeeeeeeeeeee');
  const { commit_applied: _applied, ...partly } = seen;
  await world.observe('sync', id, { ...partly, runs: [ran('c'.repeat(40), 'partly'), ...all] });
  expect((await run('rollback', 'shop', '--no-wait')).out).toContain('pinned to bbbbbbbbbbbb');
  expect((await run('release', 'shop', '--no-wait')).out).not.toContain('pinned');
  expect((await run('pause', 'shop', '--no-wait')).out).toMatch(/^sync shop: paused; /);
  expect(await run('run', 'shop', '--no-wait')).toMatchObject({ code: 1, err: expect.stringContaining('is paused') });
  expect((await run('resume', 'shop', '--no-wait')).out).toMatch(/^sync shop: in sync; /);
  const generation = (await world.repo.get('sync', id))?.meta.generation ?? 0;
  await world.observe('sync', id, { ...seen, runs: [], planned: { commit: wanted, generation } });
  const force = (commit: string) => run('run', 'shop', '--commit', commit, '--force', 'volumes.files', '--no-wait');
  expect(await force('aaaaaaaaaaaa')).toMatchObject({
    code: 1,
    err: expect.stringContaining('is not aaaaaaaaaaaa but bbbbbbbbbbbb'),
  });
  expect((await force('bbbbbbbbbbbb')).code).toBe(0);
  expect((await world.repo.get('sync', id))?.desired.request?.force).toEqual(['volumes.files']);
  expect(await run('delete', 'shop', '-y', '--no-wait')).toMatchObject({ out: 'sync shop is being deleted\n' });
});
