import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { labels } from '../../agent/runtime/runtime.ts';
import { environmentNetwork } from '../../controllers/rollout/environment-network.ts';
import { idleContainer, inContainer } from '../harness/database-client.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import { docker } from '../harness/engine.ts';
import type { Installation } from '../harness/installation.ts';
import { databaseTown, LiveDatabase } from '../harness/live-database.ts';

const patientMs = 120_000;
/** Each printable character of ASCII. */
const password = Array.from({ length: 95 }, (_, n) => String.fromCharCode(32 + n)).join('');
const filling = 2_000;
/** What a program writes to a terminal to learn that. */
const whereIsTheCursor = '\u001b[6n';
const KiB = 1024;
/** Documents that are acknowledged before the database dies. */
const beforeDeath = 100;
/** A client that gets no answer for so long has lost its connection without knowing it. */
const answerMs = 10_000;

const Credentials = z.object({ internal_connection_string: z.string() });
const Metrics = z.object({ connections: z.int(), max_connections: z.int(), uptime_seconds: z.int() });
const Storage = z.object({
  used_bytes: z.number(),
  volume_bytes: z.number(),
  databases: z.array(z.object({ name: z.string(), bytes: z.number() })),
});

/** The image has the protocol of MongoDB and its own client in front of another document database. */
describe('a database of MongoDB, by its protocol', () => {
  let town: Installation;
  let database: LiveDatabase;
  let beside: Awaited<ReturnType<typeof idleContainer>>;
  let before: string[];

  /** All volumes of the engine: also those without a name, which an image declares. */
  const volumes = async (): Promise<string[]> => (await docker('volume', 'ls', '--quiet')).split('\n').toSorted();

  beforeAll(async () => {
    town = await databaseTown(['mongodb']);
    before = await volumes();
    database = await LiveDatabase.create(town, 'mongodb', { password });
    await database.is('running');
    beside = await idleContainer(await ensureDatabaseImage('mongodb'), environmentNetwork(town.environment.id));
  }, 900_000);
  afterAll(async () => {
    await beside?.[Symbol.asyncDispose]();
    await town?.[Symbol.asyncDispose]();
  });

  const address = async (): Promise<string> =>
    Credentials.parse(await town.client.request('GET', `${database.path}/credentials`)).internal_connection_string;

  /** What mongosh prints in another container of the environment, which connects by the address of the credentials. */
  async function ask(script: string, at?: string): Promise<string> {
    return docker('exec', beside.id, 'mongosh', '--quiet', at ?? (await address()), '--eval', script);
  }

  /** Writes so many documents more, one after the other; each was acknowledged when this resolves. */
  let written = 0;
  async function write(count: number): Promise<void> {
    const script = `for (let n = ${written}; n < ${written + count}; n++) db.numbers.insertOne({ _id: n })`;
    await ask(`${script}; print('done')`);
    written += count;
  }
  const found = async (): Promise<string> =>
    ask('print(db.numbers.find().sort({ _id: 1 }).toArray().map(({ _id }) => _id).join())');
  const all = (): string => Array.from({ length: written }, (_, n) => n).join(',');

  /** Lets the database die while documents are written, each once the last one was acknowledged: all of these are there. */
  async function dieWhileWriting(die: (container: string) => Promise<unknown>): Promise<void> {
    const container = await database.container();
    const script = `for (let n = ${written}; ; n++) { db.numbers.insertOne({ _id: n }); print(n); }`;
    const child = inContainer(beside.id, ['mongosh', '--quiet', await address(), '--eval', script]);
    const ended = once(child, 'close');
    const lines = createInterface(child.stdout);
    let acknowledged = written;
    let died: Promise<unknown> | undefined;
    for await (const line of lines) {
      if (line !== String(acknowledged)) continue;
      acknowledged += 1;
      if (acknowledged !== written + beforeDeath) continue;
      died = die(container);
      setTimeout(() => lines.close(), answerMs);
    }
    child.kill('SIGKILL');
    await ended;
    await died;
    expect(acknowledged).toBeGreaterThanOrEqual(written + beforeDeath);
    const numbers = await town.until('it answers again', async () => (await found()).split(','), patientMs);
    // one more may have been on its way
    expect(numbers.length === acknowledged || numbers.length === acknowledged + 1).toBe(true);
    written = numbers.length;
    expect(numbers.join()).toBe(all());
  }

  it('is ready as its user, and takes documents by the address of its credentials, with its password alone', async () => {
    await write(150);
    expect(await found()).toBe(all());
    await ask(`db.numbers.updateOne({ _id: 7 }, { $set: { name: 'seven' } }); db.numbers.deleteOne({ _id: 149 })`);
    written -= 1;
    expect(await ask(`print(db.numbers.findOne({ name: 'seven' })._id, db.numbers.countDocuments())`)).toBe('7 149');

    const other = new URL(await address());
    other.password = 'of nobody';
    await expect(ask('print(db.numbers.countDocuments())', other.href)).rejects.toThrow('Authentication failed');
    other.username = '';
    other.password = '';
    await expect(ask('print(db.numbers.countDocuments())', other.href)).rejects.toThrow('requires authentication');
  });

  it('says what it uses as its own client does', async () => {
    const metrics = Metrics.parse(await town.client.request('GET', `${database.path}/metrics`));
    const known = await ask(
      'const { connections: it, uptime } = db.serverStatus(); print([it.current + it.available, uptime].join())',
    );
    const [most, uptime] = known.split(',').map(Number);
    expect(metrics.max_connections).toBe(most);
    expect(Math.abs(metrics.uptime_seconds - (uptime ?? Number.NaN))).toBeLessThanOrEqual(15);
    expect(metrics.connections).toBeGreaterThan(0);

    const storage = async () => Storage.parse(await town.client.request('GET', `${database.path}/storage`));
    const empty = await storage();
    await ask(
      `db.filling.insertMany(Array.from({ length: ${filling} }, (_, n) => ({ _id: n, text: 'x'.repeat(${KiB}) })))`,
    );
    const full = await town.until('its storage has grown', async () => {
      const now = await storage();
      return now.used_bytes >= empty.used_bytes + 0.9 * filling * KiB && now;
    });
    expect(full.databases.map(({ name }) => name)).toContain('app');
    expect(full.databases.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(full.used_bytes);
    await town.until('its volume has grown', async () => (await storage()).volume_bytes >= full.used_bytes, patientMs);
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
    const shows = (what: string): Promise<unknown> =>
      town
        .until(`it shows ${what}`, async () => stripVTControlCharacters(shown).includes(what))
        .catch((cause: unknown) => {
          throw new Error(`It shows ${shown}`, { cause });
        });
    await shows('app> ');
    press('db.runCommand({ ping: 1 })\r');
    await shows('{ ok: 1 }');
    expect(shown).not.toContain(password);
    socket.close();
    await closed;
  });

  it('has each document that it acknowledged when its process is killed, and when its container is removed', async () => {
    const killed = await database.container();
    const pid = Number(await docker('inspect', '--format', '{{.State.Pid}}', killed));
    await dieWhileWriting(async () => process.kill(pid, 'SIGKILL'));
    await database.is('running');
    await dieWhileWriting((container) => docker('rm', '--force', '--volumes', container));
    expect(await database.container()).not.toBe(killed);
    await database.is('running');
  });

  it('is stopped by its own end, and started with its documents', async () => {
    await database.verb('stop');
    await database.is('stopped');
    expect(await database.containers()).toEqual([]);
    const logs = JSON.stringify(await town.client.request('GET', `${database.path}/logs`));
    expect(logs).toContain('database system is shut down');
    await database.verb('start');
    await database.is('running');
    expect(await found()).toBe(all());
  });

  it('does not begin on an empty volume when its own was removed', async () => {
    const lost = await LiveDatabase.create(town, 'mongodb', { name: 'lost' });
    await lost.is('running');
    await lost.verb('stop');
    await lost.is('stopped');
    await docker('volume', 'rm', lost.volume);
    await lost.verb('start');
    const { conditions } = await lost.is('error');
    expect(conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ reason: 'DataLost' });
    expect(await lost.containers()).toEqual([]);
    expect(await volumes()).not.toContain(lost.volume);
    await lost.delete();
  });

  it('leaves nothing when it is deleted', async () => {
    await database.delete();
    expect(await database.containers()).toEqual([]);
    expect(await docker('volume', 'ls', '--quiet', '--filter', `label=${labels.server}=${town.server.id}`)).toBe('');
    const ofOthers = await docker('inspect', '--format', '{{range .Mounts}}{{.Name}} {{end}}', beside.id);
    expect(await volumes()).toEqual([...before, ...ofOthers.trim().split(' ')].toSorted());
  });
});
