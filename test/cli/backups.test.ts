import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import { desiredState } from '../harness/states.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

const unlimited = { perMinute: 0, burst: 1 };

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi({ config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  cli = await CommandLine.open();
  const server = (await owner.post('/servers', { name: 'one' })).data.id;
  await owner.post('/projects', { name: 'shop', default_server_id: server });
  const destination = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  for (const name of ['nightly', 'second'])
    await owner.post('/settings/backup-destinations', {
      ...destination,
      name,
      access_key: 'AKIDOFTHETEST',
      secret_key: 'sesame',
    });
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const environment = () => ({
  SETPOINT_URL: world.url,
  SETPOINT_TENANT: 'default',
  SETPOINT_TOKEN: owner.token ?? '',
});
const run = (...argv: string[]) => cli.run(argv, '', environment());
const output = (out: string) => ({ code: 0, out: expect.stringMatching(out), err: '' });
const failed = (err: string) => ({ code: 1, out: '', err: `${err}\n` });

async function database(name: string, fields: object = {}): Promise<string> {
  const project = (await owner.get('/projects?q=shop')).data[0].id;
  const { data } = await owner.post('/databases', { project_id: project, name, type: 'postgres', ...fields });
  await world.observe('database', data.id, { phase: 'running' });
  return data.id;
}

type Observed = { phase: 'completed' | 'failed' } & Record<string, unknown>;

/** Ends the next object of a list, as its controller would, once a command that waits has made it. */
async function ends(kind: 'backup' | 'restore', of: string, observed: Observed): Promise<string> {
  const pending = async () =>
    (await owner.get(`/${kind}s?status=pending`)).data.find((one: Record<string, string>) =>
      [one['resource_id'], one['database_id'], one['name']].includes(of),
    );
  await until(`a ${kind} is asked for`, async () => (await pending()) !== undefined);
  const { id } = await pending();
  await world.observe(kind, id, { finished_at: '2030-01-01T00:00:00.000Z', ...observed } as never);
  return id;
}

async function backupOf(name: string, id: string): Promise<string> {
  const [, made] = await Promise.all([
    run('backup', name, '--to', 'nightly'),
    ends('backup', id, { phase: 'completed', size_bytes: 3 * 1024 * 1024 }),
  ]);
  return made;
}

describe('backup', () => {
  it('waits for the end and prints what is in the bucket', async () => {
    const id = await database('orders');
    const [printed, made] = await Promise.all([
      run('backup', 'orders', '--to', 'second', '--project', 'shop'),
      ends('backup', id, { phase: 'completed', size_bytes: 3 * 1024 * 1024 }),
    ]);
    expect(printed).toEqual(output(`^backup ${made} of orders is completed: 3.0 MiB in its bucket\n$`));
    expect((await run('get', 'backups')).out).toMatch(
      /^OF +KIND +PROJECT +ENVIRONMENT +STATUS +TRIGGER +SIZE +PROVEN +EXPIRES +AGE +ID\norders +database +shop +production +completed +manual +3\.0 MiB /,
    );
    expect((await run('describe', 'backup', made)).out).toMatch(/trigger +manual\nobject_key +default\//);
    expect(await run('delete', 'backup', made, '--yes', '--no-wait')).toEqual(
      output(`^backup orders is being deleted\n$`),
    );
    expect((await owner.get(`/backups/${made}`)).data.status).toBe('deleting');
  });

  it('ends with the reason where it failed', async () => {
    const id = await database('broken');
    const error = { code: 'backup_failed', message: 'pg_dumpall ended with 1' };
    const [printed] = await Promise.all([
      run('backup', 'broken', '--to', 'nightly'),
      ends('backup', id, { phase: 'failed', error }),
    ]);
    expect(printed).toEqual(failed('The backup of broken failed: pg_dumpall ended with 1'));
  });

  it('with --no-wait returns as soon as it is asked for', async () => {
    await database('hasty');
    expect(await run('backup', 'hasty', '--to', 'nightly', '--no-wait')).toEqual(
      output('^backup [0-9a-f-]{36} of hasty is pending: setpoint describe backup [0-9a-f-]{36}\n$'),
    );
  });

  it('is refused with what to do', { tags: [longTag] }, async () => {
    const id = await database('refused');
    expect((await run('backup', 'refused')).err).toContain('there are 2: name one');
    expect((await run('backup', 'refused', '--to', 'third')).err).toContain('No backup-destination is called third');
    expect(await run('backup', 'refused', '--keep', '3')).toEqual(
      failed('--timezone, --keep and --verify are of a schedule: name its times by --every'),
    );
    expect((await run('backup', 'refused', '--every', '@daily', '--keep', '0')).err).toContain('1 to 365');
    expect((await run('backup', 'nowhere')).err).toContain('No database, volume or application is called nowhere');
    await owner.post(`/databases/${id}/stop`);
    expect((await run('backup', 'refused', '--to', 'nightly')).err).toMatch(/start it first/);
  });
});

describe('db archive', () => {
  it('names the destination, the times and how many base backups stay', async () => {
    const id = await database('archived');
    const wanted = ['--to', 'second', '--every', '0 */6 * * *', '--keep', '3'];
    expect(await run('db', 'archive', 'archived', ...wanted)).toEqual(
      output('^database archived restarts, and what it writes from then on is archived\n$'),
    );
    const destinations = (await owner.get('/settings/backup-destinations')).data;
    expect((await owner.get(`/databases/${id}`)).data).toMatchObject({
      backup_mode: 'pitr',
      backup_destination_id: destinations.find((it: { name: string }) => it.name === 'second').id,
      backup_schedule: '0 */6 * * *',
      backup_retention_count: 3,
    });
  });
});

describe('backup --every', () => {
  it('makes a schedule, which is listed, described and deleted while its backups stay', async () => {
    await database('daily');
    const every = ['--every', '30 3 * * *', '--timezone', 'Europe/Berlin', '--keep', '14'];
    const made = await run('backup', 'daily', '--to', 'nightly', ...every);
    expect(made).toEqual(
      output('^backup-schedule [0-9a-f-]{36} is created: daily is backed up at 30 3 \\* \\* \\* Europe/Berlin\n$'),
    );
    const [, id = ''] = /([0-9a-f-]{36})/.exec(made.out) ?? [];
    expect((await run('get', 'backup-schedules')).out).toMatch(
      /^OF +PROJECT +ENVIRONMENT +WHEN +STATUS +NEXT +LAST SUCCESS +AGE +ID\ndaily +shop +production +30 3 \* \* \* Europe\/Berlin +active /,
    );
    expect((await run('describe', 'schedule', id)).out).toMatch(/retention_count +14/);
    expect((await run('delete', 'schedule', id, '--no-wait')).err).toContain(
      'Delete backup-schedule daily; its backups stay?',
    );
    expect((await run('delete', 'schedule', id, '--yes', '--no-wait')).code).toBe(0);
  });

  it('is refused for times that there are not', async () => {
    await database('never');
    const every = (...words: string[]) => run('backup', 'never', '--to', 'nightly', '--every', ...words);
    expect((await every('never')).err).toContain('five fields');
    expect((await every('@daily', '--timezone', 'Europe/Nowhere')).err).toContain(
      'There is no time zone Europe/Nowhere',
    );
  });
});

describe('schedule', () => {
  it('backs up now, and is paused until it goes on', async () => {
    const of = await database('weekly');
    const made = await run('backup', 'weekly', '--to', 'nightly', '--every', '@weekly');
    const [, id = ''] = /([0-9a-f-]{36})/.exec(made.out) ?? [];
    expect(await run('schedule', 'pause', 'weekly')).toEqual(output(`^backup-schedule ${id} of weekly is paused\n$`));
    expect((await owner.get(`/backup-schedules/${id}`)).data).toMatchObject({ is_paused: true, status: 'paused' });
    expect(await run('schedule', 'resume', id)).toEqual(output(`^backup-schedule ${id} of weekly is active`));
    expect((await owner.get(`/backup-schedules/${id}`)).data).toMatchObject({ is_paused: false, status: 'active' });
    const [printed, backup] = await Promise.all([
      run('schedule', 'run', 'weekly'),
      ends('backup', of, { phase: 'completed', size_bytes: 1024 * 1024 }),
    ]);
    expect(printed).toEqual(output(`^backup ${backup} of weekly is completed: 1.0 MiB in its bucket\n$`));
    expect((await owner.get(`/backups/${backup}`)).data).toMatchObject({ schedule_id: id });
  });

  it('is refused for another word, and for what has none', async () => {
    expect(await run('schedule', 'stop', 'weekly')).toEqual(failed('It must be run, pause or resume: got stop'));
    await database('unscheduled');
    expect((await run('schedule', 'run', 'unscheduled')).err).toContain(
      'No backup-schedule is called unscheduled: there is weekly',
    );
  });
});

describe('restore', () => {
  it('asks before it restores in place, waits for the end, and is listed', async () => {
    const id = await database('accounts');
    const backup = await backupOf('accounts', id);
    const { requested_at: at } = (await owner.get(`/backups/${backup}`)).data;
    expect(await run('restore', backup)).toEqual(
      failed(
        `Restore database accounts as it was at ${at}? What was written since is in its former volume for a week, and is not served any more. There is no terminal to answer at: repeat the command with --yes`,
      ),
    );
    const asked = cli.atTerminal(['restore', backup], environment());
    await asked.prints('[y/N]');
    asked.type('n\n');
    expect((await asked.ended()).out).toContain('Nothing was changed');
    expect((await owner.get('/restores')).data).toEqual([]);

    const [printed, made] = await Promise.all([
      run('restore', backup, '--yes'),
      ends('restore', id, { phase: 'completed' }),
    ]);
    expect(printed).toEqual(output(`^restore ${made} is completed: database accounts serves what was restored\n$`));
    expect((await run('get', 'restores')).out).toMatch(
      new RegExp(
        `^OF +PROJECT +ENVIRONMENT +STATUS +TRIAL +BACKUP +FINISHED +AGE +ID\naccounts +shop +production +completed +${backup} `,
      ),
    );
    expect((await run('describe', 'restore', made)).out).toMatch(/backup_id +[0-9a-f-]{36}/);
    expect((await run('delete', 'restore', made, '--yes')).err).toContain('Cannot delete a restore by itself');
  });

  it('that failed ends with the reason and with what the database serves', async () => {
    const id = await database('sorry');
    const backup = await backupOf('sorry', id);
    const error = { code: 'restore_failed', message: 'What the bucket has is no whole dump' };
    const [printed] = await Promise.all([
      run('restore', 'sorry', '-y'),
      ends('restore', id, { phase: 'failed', error }),
    ]);
    expect(printed).toEqual(
      failed(
        'The restore of sorry failed: What the bucket has is no whole dump. Database sorry has the data from before, and is running',
      ),
    );
    const cancelled = {
      code: 'cancelled',
      message: 'The restore was cancelled: the database serves what it served before',
    };
    const [ended] = await Promise.all([
      run('restore', backup, '-y'),
      ends('restore', id, { phase: 'failed', error: cancelled }),
    ]);
    expect(ended).toEqual(failed(`The restore of sorry failed: ${cancelled.message}`));
  });

  it(
    'makes a new database without a question, which serves nothing where that failed',
    { tags: [longTag] },
    async () => {
      const backup = await backupOf('source', await database('source'));
      const [printed] = await Promise.all([
        run('restore', backup, '--as', 'copy'),
        ends('restore', 'copy', { phase: 'completed' }),
      ]);
      expect(printed).toEqual(output('is completed: database copy serves what was restored\n$'));
      const error = { code: 'timeout', message: 'It took too long' };
      const [late] = await Promise.all([
        run('restore', backup, '--as', 'slow'),
        ends('restore', 'slow', { phase: 'failed', error }),
      ]);
      expect(late).toEqual(
        failed(
          'The restore of slow failed: It took too long. Database slow was made for it, and serves nothing: delete it',
        ),
      );
    },
  );

  it('goes into another database by its name, and returns at once with --no-wait', { tags: [longTag] }, async () => {
    const backup = await backupOf('from', await database('from'));
    const into = await database('into');
    expect(await run('restore', backup, '--into', 'into', '--yes', '--no-wait')).toEqual(
      output('^restore [0-9a-f-]{36} of into is pending: setpoint describe restore [0-9a-f-]{36}\n$'),
    );
    expect((await owner.get('/restores?status=pending')).data[0].database_id).toBe(into);
  });

  it('is refused with what to do', async () => {
    const backup = await backupOf('gone', await database('gone'));
    await database('cache', { type: 'redis' });
    expect((await run('restore', backup, '--into', 'cache', '--yes')).err).toContain(
      'it is of postgres, and the database is of redis',
    );
    expect((await run('restore', backup, '--into', 'gone', '--as', 'copy')).err).toContain('cannot be used with');
    expect((await run('restore', 'nothing')).err).toContain('No backup is called nothing');
    const project = (await owner.get('/projects?q=shop')).data[0].id;
    const orphan = desiredState('backup', { project_id: project, name: 'lost' });
    await world.create('backup', crypto.randomUUID(), orphan);
    expect(await run('restore', 'lost', '--yes')).toEqual(
      failed('Database lost is gone: restore the backup into a new one by --as, or into another one by --into'),
    );
  });
});

describe('verify', () => {
  it('waits for the end of the trial, and says whether the backup is proven', async () => {
    const id = await database('tried');
    const backup = await backupOf('tried', id);
    const [printed] = await Promise.all([run('verify', backup), ends('restore', id, { phase: 'completed' })]);
    expect(printed).toEqual(
      output(`^backup ${backup} of tried is proven: all of it was restored and read, and is removed again\n$`),
    );
    const error = { code: 'no_space', message: 'The disk is full' };
    const [refused] = await Promise.all([run('verify', backup), ends('restore', id, { phase: 'failed', error })]);
    expect(refused).toEqual(failed(`Backup ${backup} is not proven: The disk is full`));
    expect((await run('backup', 'tried', '--verify', '7d')).err).toContain('are of a schedule');
  });
});
