import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import { environmentNetwork } from '../../controllers/rollout/environment-network.ts';
import { idleContainer, inContainer, numbered } from '../harness/database-client.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import type { DatabaseEngine } from '../harness/database-images.ts';
import { docker } from '../harness/engine.ts';
import type { Installation } from '../harness/installation.ts';
import { databaseTown, LiveDatabase, liveEngines } from '../harness/live-database.ts';

const KiB = 1024;
const patientMs = 120_000;
const doublings = 14;
const rows = 2 ** doublings;
/** Whether the engine removes all that nothing uses, of everybody, and not only what is of this test. */
const isWholePrune = process.env['WHOLE_PRUNE'] === '1';

/** What a client is asked by its arguments, and where the figure is in its answer. */
type Question = readonly [args: readonly string[], figure: RegExp];

interface Dialect {
  /** Makes {@link rows} rows of 1 KiB. */
  fill: readonly string[];
  connections: Question;
  maxConnections: Question;
  uptime: Question;
  /** What its databases take. */
  storage: Question;
  /** By how much the storage may differ, where it changes all the time. */
  storageMargin: number;
  /** What is typed into a terminal, as a keyboard sends it, and what is shown of the answer alone. */
  typed: readonly [line: string, shown: string];
  /** What it logs once at each end that is asked for. */
  lastLine: RegExp;
}

const whereIsTheCursor = '\u001b[6n';
const doubling = 'INSERT INTO filling SELECT * FROM filling; ';
const ofMysql = (before = ''): Dialect => ({
  fill: [
    'app',
    '-e',
    `CREATE TABLE filling (t varchar(1024)); INSERT INTO filling VALUES (repeat('x', 1024)); ${doubling.repeat(doublings)}`,
  ],
  connections: [['-BNe', "SHOW GLOBAL STATUS LIKE 'Threads_connected'"], /(\d+)$/],
  maxConnections: [['-BNe', 'SELECT @@max_connections'], /^(\d+)$/],
  uptime: [['-BNe', "SHOW GLOBAL STATUS LIKE 'Uptime'"], /(\d+)$/],
  storage: [
    [
      '-BNe',
      `${before}SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = 'app'`,
    ],
    /^(\d+)$/,
  ],
  storageMargin: 0,
  typed: ['select 1;\r', '1 row in set'],
  lastLine: /Shutdown complete\b/,
});
const dialects: Readonly<Record<DatabaseEngine, Dialect>> = {
  postgres: {
    fill: ['-c', `CREATE TABLE filling AS SELECT repeat('x', 1024) FROM generate_series(1, ${rows})`],
    connections: [['-XqtAc', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"], /^(\d+)$/],
    maxConnections: [['-XqtAc', 'SHOW max_connections'], /^(\d+)$/],
    uptime: [['-XqtAc', 'SELECT extract(epoch FROM now() - pg_postmaster_start_time())::int'], /^(\d+)$/],
    storage: [['-XqtAc', 'SELECT sum(pg_database_size(datname)) FROM pg_database WHERE NOT datistemplate'], /^(\d+)$/],
    storageMargin: 0,
    typed: ['select 1;\r', '(1 row)'],
    lastLine: /database system is shut down/,
  },
  mysql: ofMysql('SET SESSION information_schema_stats_expiry = 0; '),
  mariadb: ofMysql(),
  redis: {
    fill: ['EVAL', `for n = 1, ${rows} do redis.call('SET', 'filling:' .. n, string.rep('x', 1024)) end`, '0'],
    connections: [['INFO', 'clients'], /^connected_clients:(\d+)/m],
    maxConnections: [['CONFIG', 'GET', 'maxclients'], /(\d+)$/],
    uptime: [['INFO', 'server'], /^uptime_in_seconds:(\d+)/m],
    storage: [['INFO', 'memory'], /^used_memory:(\d+)/m],
    storageMargin: 256 * KiB,
    typed: ['PING\r', 'PONG'],
    lastLine: /bye bye/,
  },
};

const Metrics = z.object({ connections: z.int(), max_connections: z.int(), uptime_seconds: z.int() });
const Storage = z.object({
  used_bytes: z.number(),
  volume_bytes: z.number(),
  databases: z.array(z.object({ name: z.string(), bytes: z.number() })),
});
const LogFrame = z.object({ seq: z.int(), message: z.string() });
const Frame = z.looseObject({ type: z.string() });

/** Lines that are written at once, and how often. */
const chunk = 20;
const everyMs = 15;
/** Lines that each container has written at least, and those of the last one. */
const lines = 1_500;

describe.each(liveEngines)('a database of %s', (type) => {
  const dialect = dialects[type];
  let town: Installation;
  let database: LiveDatabase;

  beforeAll(async () => {
    town = await databaseTown([type]);
    database = await LiveDatabase.create(town, type, { name: `O'Brien's "first" shop` });
    await database.is('running');
  }, 600_000);
  afterAll(() => town[Symbol.asyncDispose]());

  async function figure([args, shown]: Question): Promise<number> {
    const answer = (await database.ask(args)).trim();
    const [, text] = shown.exec(answer) ?? [];
    if (text === undefined) throw new Error(`Its client answered ${answer}`);
    return Number(text);
  }

  it('tells of its connections what its own client tells', async () => {
    const metrics = async () => Metrics.parse(await town.client.request('GET', `${database.path}/metrics`));
    const { command, env } = numbered[type].client(await database.credentials());
    await using beside = await idleContainer(await ensureDatabaseImage(type), environmentNetwork(town.environment.id));
    const held = Array.from({ length: 3 }, () => inContainer(beside.id, command, env));
    try {
      for (const { stdin, stdout } of held) {
        stdin.write(type === 'redis' ? 'PING\n' : 'SELECT 1;\n');
        await once(stdout, 'data');
      }
      // who asks is connected, too, and now and then the query that shows whether it is ready
      await town.until('all say the same', async () => {
        const [told, known] = [(await metrics()).connections, await figure(dialect.connections)];
        return told === known && known === held.length + 1;
      });
      const { max_connections: most, uptime_seconds: uptime } = await metrics();
      expect(most).toBe(await figure(dialect.maxConnections));
      expect(Math.abs(uptime - (await figure(dialect.uptime)))).toBeLessThanOrEqual(5);
    } finally {
      for (const child of held) child.kill('SIGKILL');
    }
  });

  it('tells of its storage what its own client tells, also once more was written, and what lies on the disk', async () => {
    const storage = async () => Storage.parse(await town.client.request('GET', `${database.path}/storage`));
    const before = await storage();
    await database.ask(dialect.fill);
    const path = await docker('volume', 'inspect', '--format', '{{.Mountpoint}}', database.volume);
    const onDisk = async (): Promise<number> =>
      Number.parseInt((await promisify(execFile)('du', ['--summarize', '--block-size=1', path])).stdout, 10);
    const after = await town.until(
      'its storage is as its client says',
      async () => {
        const [told, known] = [await storage(), await figure(dialect.storage)];
        return (
          told.used_bytes >= before.used_bytes + 0.9 * rows * KiB &&
          Math.abs(told.used_bytes - known) <= dialect.storageMargin &&
          told
        );
      },
      60_000,
    );
    expect(after.databases.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(after.used_bytes);
    await town.until('its volume is as the disk says', async () => {
      const [told, known] = [(await storage()).volume_bytes, await onDisk()];
      return told > 0.5 * rows * KiB && Math.abs(told - known) <= 64 * KiB;
    });
  });

  it('gives a terminal that is logged in', async () => {
    const made = await town.client.request('POST', `${database.path}/terminal`, {});
    const { sessionId } = z.object({ sessionId: z.string() }).parse(made);
    const socket = await town.client.socket(`/ws/terminal/${sessionId}`, { output: 'binary' });
    const closed = once(socket, 'close');
    let shown = '';
    const press = (text: string): void => socket.send(JSON.stringify({ type: 'input', data: text }));
    socket.on('message', (data: Buffer, isBinary) => {
      if (!isBinary) return;
      const text = data.toString();
      shown += text;
      // a program asks where the cursor is, and each terminal answers
      for (let n = text.split(whereIsTheCursor).length; n > 1; n -= 1) press('\u001b[1;80R');
    });
    socket.resume();
    const [line, answer] = dialect.typed;
    const shows = async (what: string, isShown: () => boolean): Promise<void> => {
      await town
        .until(`it shows ${what}`, async () => isShown())
        .catch((cause: unknown) => {
          throw new Error(`It shows ${shown}`, { cause });
        });
    };
    await shows('its prompt', () => /[>#] /.test(shown));
    press(line);
    await shows('the answer', () => shown.includes(answer));
    expect(shown).not.toMatch(/password/i);
    socket.close();
    await closed;
  });

  it('has each line of its log once in its stream, through a restart and a crash', async () => {
    const got = follow(await town.client.socket(`/ws/databases/${database.id}/logs`, { tail: '0' }));
    await town.until('the stream has begun', async () => got.others.has('ready'));
    const ends = [() => database.verb('restart'), async () => docker('kill', await database.container())];
    const written = new Map<string, number>();
    for (const [at, end] of [...ends, undefined].entries()) {
      const begun = await start();
      const pid = Number(await docker('inspect', '--format', '{{.State.Pid}}', await database.container()));
      const writer = write(pid, `of-${at}`, end === undefined ? lines : Infinity);
      await town.until('lines are written', async () => writer.count() >= lines, patientMs);
      await end?.();
      await writer.ended;
      written.set(`of-${at}`, writer.count());
      if (end !== undefined)
        await town.until(
          'it was started again',
          async () => ![begun, undefined].includes(await start().catch(() => undefined)),
          patientMs,
        );
      await database.is('running');
    }
    await town.until('all lines came', async () => got.of('of-2').length >= lines, patientMs).catch(() => undefined);

    for (const [name, count] of written) {
      const numbers = got.of(name);
      expect(numbers.length, name).toBeGreaterThanOrEqual(count);
      expect(numbers, name).toEqual(numbers.map((_, index) => index + 1));
    }
    expect(got.messages.filter((message) => dialect.lastLine.test(message)).length).toBe(1);
    expect(got.isOrdered()).toBe(true);
    expect([...got.others]).toEqual(['ready']);
    console.log(`${type}: ${got.messages.length} lines, of them ${JSON.stringify([...written])} numbered ones`);
    got.socket.close();
  });

  /** Which start of which container its process is of; `undefined` if it does not run. */
  async function start(): Promise<string | undefined> {
    const format = '{{.State.Running}} {{.Id}} {{.State.StartedAt}}';
    const state = await docker('inspect', '--format', format, await database.container());
    return state.startsWith('true ') ? state : undefined;
  }

  /** Writes numbered lines where the process of the database writes, until there are so many or it has ended. */
  function write(pid: number, name: string, most: number) {
    let count = 0;
    const ended = (async (): Promise<void> => {
      while (count < most) {
        const next = Array.from({ length: chunk }, (_, at) => `${name} ${count + 1 + at}\n`);
        const isWritten = await writeWhole(`/proc/${pid}/fd/1`, next.join(''));
        if (isWritten === undefined) return;
        if (isWritten) count += chunk;
        await delay(everyMs); // as a program that writes now and then
      }
    })();
    return { count: () => count, ended };
  }

  /** Writes a short text to a pipe, all or nothing of it; answers whether, `undefined`: nobody is there any more. */
  async function writeWhole(path: string, text: string): Promise<boolean | undefined> {
    try {
      await using pipe = await open(path, constants.O_WRONLY | constants.O_NONBLOCK);
      await pipe.write(text);
      return true;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException; // of the file system
      if (code === 'EAGAIN') return false;
      if (['ENOENT', 'ENXIO', 'EPIPE', 'ESRCH'].includes(code)) return undefined;
      throw error;
    }
  }

  /** What a live reader gets. */
  function follow(socket: WebSocket) {
    const [messages, others] = [new Array<string>(), new Set<string>()];
    let [last, isOrdered] = [0, true];
    socket.on('message', (data: Buffer) => {
      const frame: unknown = JSON.parse(data.toString());
      const { type: kind } = Frame.parse(frame);
      if (kind !== 'log') return void others.add(kind);
      const { seq, message } = LogFrame.parse(frame);
      isOrdered &&= seq > last;
      last = seq;
      messages.push(message);
    });
    socket.resume();
    return {
      socket,
      messages,
      others,
      isOrdered: () => isOrdered,
      of: (name: string): number[] =>
        messages.filter((message) => message.startsWith(`${name} `)).map((message) => Number(message.split(' ')[1])),
    };
  }

  /** What is left by an engine that was told to remove all that nothing runs of, but for the image that no registry has. */
  async function prune(): Promise<string> {
    const image = await ensureDatabaseImage(type);
    const holder = await docker('run', '--detach', '--entrypoint', 'sleep', image, 'infinity');
    try {
      return await docker('system', 'prune', '--all', '--volumes', '--force');
    } finally {
      await docker('rm', '--force', holder);
    }
  }

  async function pruneOwn(): Promise<string> {
    const all = (await docker('volume', 'prune', '--help')).includes('--all') ? ['--all'] : [];
    const own = ['--force', '--filter', `label=${labels.server}=${town.server.id}`];
    await docker('container', 'prune', ...own);
    await docker('network', 'prune', ...own);
    return docker('volume', 'prune', ...all, ...own);
  }

  it('has its data when it is started after the engine of containers was cleaned up', async () => {
    const before = await figure(dialect.storage);
    await database.verb('stop');
    await database.is('stopped');
    const removed = await (isWholePrune ? prune() : pruneOwn());
    expect(removed).not.toContain(database.volume);
    await database.verb('start');
    await database.is('running');
    expect(await figure(dialect.storage)).toBeGreaterThan(0.9 * before);
  });

  it('leaves nothing', async () => {
    await database.delete();
    expect(await database.containers()).toEqual([]);
    const own = await docker('volume', 'ls', '--quiet', '--filter', `label=${labels.server}=${town.server.id}`);
    expect(own).toBe('');
  });
});
