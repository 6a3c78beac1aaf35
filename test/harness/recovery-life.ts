import { setTimeout as delay } from 'node:timers/promises';
import { CreateBucketCommand, DeleteObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { ensureDatabaseImage } from './database-images.ts';
import { docker, instancesOf } from './engine.ts';
import { Installation } from './installation.ts';
import { s3Gateway } from './s3-gateway.ts';
import type { S3Gateway } from './s3-gateway.ts';

const patientMs = 240_000;
const markMs = 50;

const RecoveryWindow = z.object({
  available: z.boolean(),
  earliest_time: z.string().nullable(),
  latest_time: z.string().nullable(),
  gaps: z.array(z.object({ from: z.string(), to: z.string() })),
  windows: z.array(z.object({ earliest_time: z.string(), latest_time: z.string() })),
});
const Recovered = z.object({
  database_id: z.string(),
  internal_host: z.string().nullable(),
  former_volume_id: z.string().nullable(),
});

/**
 * Databases that are brought to instants, on a real engine and a real bucket. An instant is in the bucket within a minute, and
 * each recovery waits for one.
 *
 * @param instants how many, chosen at random
 * @param isWhole also switches, faults of the bucket, and the end of the archive
 */
export function describeRecovery({ instants, isWhole }: { instants: number; isWhole: boolean }): void {
  describe('a database whose writes are archived', { timeout: 3_600_000 }, () => live(instants, isWhole));
}

function live(instants: number, isWhole: boolean): void {
  let town: Installation;
  let gateway: S3Gateway;
  let database: ApiObject;
  let base: string;

  beforeAll(async () => {
    const image = await ensureDatabaseImage('postgres');
    gateway = await s3Gateway();
    await gateway.client().send(new CreateBucketCommand({ Bucket: 'recovery' }));
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--engine-images', `postgres=${image}`] });
    await town.client.request('PUT', '/api/v1/settings', { backup_endpoints: [gateway.host] });
    await town.client.object('POST', '/api/v1/settings/backup-destinations', {
      name: 'recovery',
      provider: 'custom',
      endpoint: gateway.endpoint,
      bucket: 'recovery',
      access_key: gateway.keys.accessKey,
      secret_key: gateway.keys.secretKey,
    });
    database = await town.client.object('POST', '/api/v1/databases', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'orders',
      type: 'postgres',
    });
    base = `/api/v1/databases/${database.id}`;
    await running(database.id);
    await sql(database.id, 'ALTER SYSTEM SET track_commit_timestamp = on');
    await sql(database.id, 'CREATE TABLE marks (n serial)');
    expect((await recoveryWindow()).available).toBe(false);
    const before = await instancesOf(database.id);
    const changed = await town.client.object('PUT', base, { backup_mode: 'pitr' });
    expect(changed).toMatchObject({ backup_mode: 'pitr', pitr_enabled: true });
    await running(database.id);
    expect(await instancesOf(database.id)).not.toEqual(before);
    await town.until('there is a window', async () => (await recoveryWindow()).available, patientMs);
  }, 600_000);
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  async function running(id: string): Promise<void> {
    await town.until(
      'the database runs',
      async () => {
        const now = await town.client.object('GET', `/api/v1/databases/${id}`);
        const isReady = now.conditions?.some(({ type, status }) => type === 'Ready' && status === 'true') === true;
        return now.status === 'running' && isReady && now.observed_generation === now.generation;
      },
      patientMs,
    );
  }

  async function sql(id: string, text: string): Promise<string> {
    // the newest first: what is beside the one that serves is younger
    const container = (await instancesOf(id)).at(-1) ?? '';
    return (await docker('exec', container, 'psql', '-XqtA', '-v', 'ON_ERROR_STOP=1', '-c', text)).trim();
  }

  const recoveryWindow = async () => RecoveryWindow.parse(await town.client.request('GET', `${base}/recovery-window`));

  /** Waits until that instant can be recovered to. */
  async function reaches(instant: number): Promise<void> {
    await town.until(
      `the window comes to ${new Date(instant).toISOString()}`,
      async () => Date.parse((await recoveryWindow()).latest_time ?? '') > instant,
      patientMs,
    );
  }

  async function ended(id: string, status: string): Promise<z.infer<typeof Recovered> & ApiObject> {
    let last: unknown;
    await town.until(
      `restore ${id} is ${status}`,
      async () => {
        last = await town.client.object('GET', `/api/v1/restores/${id}`);
        const { status: now, error } = z.object({ status: z.string(), error: z.unknown() }).parse(last);
        if (now === 'failed' && status !== 'failed') throw new Error(JSON.stringify(error));
        return now === status;
      },
      patientMs,
    );
    return { ...(last as ApiObject), ...Recovered.parse(last) };
  }

  /** Marks with the time of their commits, made for so long. */
  async function mark(ms: number): Promise<void> {
    const rounds = Math.ceil(ms / markMs);
    await sql(
      database.id,
      `DO $$ BEGIN FOR n IN 1..${rounds} LOOP INSERT INTO marks DEFAULT VALUES; COMMIT; PERFORM pg_sleep(${markMs / 1000}); END LOOP; END $$`,
    );
  }

  /** The marks that were committed up to an instant, by the record that the database itself keeps of its commits. */
  const marksUntil = (id: string, instant: number): Promise<string> =>
    sql(
      id,
      `SELECT count(*), coalesce(max(n), 0) FROM marks WHERE pg_xact_commit_timestamp(xmin) <= '${new Date(instant).toISOString()}'`,
    );
  const allMarks = (id: string): Promise<string> => sql(id, 'SELECT count(*), coalesce(max(n), 0) FROM marks');

  it('can be brought to any instant of its window, and to none outside', async () => {
    const begun = Date.now();
    await mark(10_000);
    const over = Date.now();
    await reaches(over);
    const now = await recoveryWindow();
    const [earliest, latest] = [now.earliest_time ?? '', now.latest_time ?? ''];
    for (const outside of [Date.parse(earliest) - 1000, Date.parse(latest) + 3_600_000]) {
      const refused = town.client.request('POST', `${base}/pitr-clone`, {
        target_time: new Date(outside).toISOString(),
        new_name: 'outside',
      });
      await expect(refused).rejects.toThrow(`Must be within the recovery window: ${earliest} to `);
    }
    const ends = isWhole ? [Date.parse(earliest), Date.parse(latest)] : [];
    const within = Array.from({ length: instants }, () => begun + Math.floor(Math.random() * (over - begun)));
    const targets = [...within, ...ends];
    for (const [index, target] of targets.entries()) {
      const asked = await town.client.object('POST', `${base}/pitr-clone`, {
        target_time: new Date(target).toISOString(),
        new_name: `copy-${index}`,
      });
      const { database_id: copy } = await ended(asked.id, 'completed');
      await running(copy);
      expect(await allMarks(copy)).toBe(await marksUntil(database.id, target));
      expect(await town.client.object('GET', `/api/v1/databases/${copy}`)).toMatchObject({ backup_mode: 'none' });
      await town.client.request('DELETE', `/api/v1/databases/${copy}`);
    }
  });

  if (!isWhole) return;

  it('is recovered beside what serves, and serves it when somebody says so, and goes back', async () => {
    await mark(500);
    const target = Date.now();
    const wanted = await allMarks(database.id);
    await delay(100);
    await sql(database.id, 'DELETE FROM marks');
    await reaches(target);
    const asked = await town.client.object('POST', `${base}/pitr`, { target_time: new Date(target).toISOString() });
    await expect(
      town.client.request('POST', `${base}/pitr`, { target_time: new Date(target).toISOString() }),
    ).rejects.toThrow('has not ended');
    const ready = await ended(asked.id, 'ready_to_switch');
    expect(await sql(database.id, 'SELECT count(*) FROM marks')).toBe('0');
    const container = (await instancesOf(database.id)).at(-1) ?? '';
    const look = await docker(
      'exec',
      '-e',
      `PGHOST=${ready.internal_host}`,
      container,
      'psql',
      '-XqtA',
      '-c',
      'SELECT count(*), coalesce(max(n), 0) FROM marks',
    );
    expect(look.trim()).toBe(wanted);

    await town.client.request('POST', `${base}/switch`);
    const { former_volume_id: former } = await ended(asked.id, 'completed');
    await running(database.id);
    expect(await allMarks(database.id)).toBe(wanted);

    // another archive has begun, and the former one is still there to be recovered from
    const switched = Date.now();
    await reaches(switched);
    expect((await recoveryWindow()).windows.length).toBe(2);

    await town.client.request('POST', `${base}/switch`, { volume_id: former });
    await town.until(
      'it serves its former data',
      async () => (await allMarks(database.id).catch(() => '')) === '0|0',
      patientMs,
    );
  });

  it('waits for a bucket that is away, and loses nothing', async () => {
    await reaches(Date.now());
    await gateway.freeze();
    const away = Date.now();
    await mark(1000);
    const behind = (): Promise<boolean> =>
      town.client
        .object('GET', base)
        .then(
          ({ conditions }) =>
            conditions?.some(({ type, status }) => type === 'Archived' && status === 'false') === true,
        );
    await town.until('it is told that the archive is behind', behind, 600_000);
    expect(Date.parse((await recoveryWindow()).latest_time ?? '')).toBeLessThan(away + 60_000);
    await gateway.thaw();
    await reaches(Date.now());
    await town.until('it is not behind any more', async () => !(await behind()), patientMs);
    const { gaps, windows } = await recoveryWindow();
    expect(gaps.length).toBe(windows.length - 1);
    const asked = await town.client.object('POST', `${base}/pitr-clone`, {
      target_time: windows.at(-1)?.latest_time,
      new_name: 'after',
    });
    const { database_id: copy } = await ended(asked.id, 'completed');
    await running(copy);
    expect(await allMarks(copy)).toBe(await allMarks(database.id));
  });

  it('tells of a segment that the bucket has lost, and begins another window', async () => {
    const before = (await recoveryWindow()).windows;
    const latest = before.at(-1)?.latest_time ?? '';
    const { Contents = [] } = await gateway.client().send(new ListObjectsV2Command({ Bucket: 'recovery' }));
    const newest = Contents.toSorted((a, b) => Number(a.LastModified) - Number(b.LastModified)).at(-1)?.Key ?? '';
    const ofArchive = Contents.map(({ Key = '' }) => Key)
      .filter((key) => key.startsWith(newest.slice(0, newest.lastIndexOf('/'))) && /[0-9A-F]{24}\.zst$/.test(key))
      .toSorted();
    expect(ofArchive.length).toBeGreaterThan(1);
    await gateway.client().send(new DeleteObjectCommand({ Bucket: 'recovery', Key: ofArchive.at(-2) }));
    const asked = await town.client.object('POST', `${base}/pitr-clone`, { target_time: latest, new_name: 'lost' });
    const refused = await ended(asked.id, 'failed');
    expect(refused).toMatchObject({ error: { code: 'log_gone' } });
    await town.until(
      'another window has begun',
      async () => {
        const now = (await recoveryWindow()).windows.at(-1);
        return Date.parse(now?.earliest_time ?? '') > Date.parse(latest);
      },
      patientMs,
    );
    expect((await recoveryWindow()).gaps.at(-1)?.to).toBe((await recoveryWindow()).windows.at(-1)?.earliest_time);
  });

  it('is not archived any more when that is turned off, and can still be recovered', async () => {
    const { windows } = await recoveryWindow();
    const off = await town.client.object('PUT', base, { pitr_enabled: false });
    expect(off).toMatchObject({ backup_mode: 'none', backup_destination_id: null });
    await running(database.id);
    expect(await sql(database.id, 'SHOW archive_mode')).toBe('off');
    expect((await recoveryWindow()).windows.map(({ earliest_time }) => earliest_time)).toEqual(
      windows.map(({ earliest_time }) => earliest_time),
    );
    const asked = await town.client.object('POST', `${base}/pitr-clone`, {
      target_time: windows.at(-1)?.earliest_time,
      new_name: 'then',
    });
    await ended(asked.id, 'completed');
  });
}
