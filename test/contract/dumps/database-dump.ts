import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Credentials, Dump, RestoreByCommand } from '../../../databases/engine.ts';
import { engines } from '../../../databases/engines.ts';
import { DumpFault, restoreInput, wholeDump } from '../../../databases/whole-dump.ts';
import { type DatabaseEngine, ensureDatabaseImage } from '../../harness/database-images.ts';
import { docker } from '../../harness/engine.ts';
import { until } from '../../harness/until.ts';

const makeMs = 30 * 60_000;
const readyMs = 120_000;
const testMs = 3 * readyMs;
const printable = Array.from({ length: 0x7f - 0x20 }, (_, index) => String.fromCharCode(0x20 + index)).join('');
const cuts = 40;

/** What a database is filled with, and how its content is looked at, by the client of its engine. */
export interface Content {
  /** Statements that the client reads from its standard input, logged in with `fillAs`. */
  fill: string | Buffer;
  fillAs: readonly string[];
  /** The program and what it reads; its output is the same of two databases with the same content. */
  looks: readonly { command: readonly string[]; input: string }[];
  /** Turns a dump into one that is whole and has a part that no server takes, and what is said of that. */
  spoil?: (dump: string) => string;
  complaint?: RegExp;
  /** A client of the image that logs in as its user at a host, with the password in its environment. */
  login: (credentials: Credentials, host: string) => { env: Record<string, string>; command: readonly string[] };
}

/** A container of an engine as the product begins it. */
interface Instance {
  id: string;
  /** Runs a program in it, with an end to its input after these bytes. */
  run(command: readonly string[], input?: AsyncIterable<Uint8Array> | string | Buffer): Promise<Ended>;
}

interface Ended {
  exitCode: number;
  output: Buffer;
  errors: string;
}

/**
 * That a dump of an engine, taken from a server with content of every kind, gives a new server the same content and leaves it
 * its own password, and that a dump that is not whole is never taken for one.
 */
export function testDump(type: DatabaseEngine, content: Content): void {
  const engine = engines[type];
  const version = engine.versions[0];
  const before: Credentials = { ...engine.usual, password: printable };
  const after: Credentials = { ...engine.usual, password: `${printable.slice(1)} rotated` };

  describe(`a dump of ${type}`, { timeout: testMs }, () => {
    const dump = dumpOf(type);
    const things = new AsyncDisposableStack();
    let image: string;
    let source: Instance;
    /** Servers that nothing was restored to yet. */
    let fresh: Instance[];
    let bytes: Buffer;

    beforeAll(async () => {
      image = await ensureDatabaseImage(type);
      const isLate = dump.restore.by === 'files';
      const starts = [before, ...(isLate ? [] : [after, after, after])].map((credentials) => start(credentials));
      [source, ...fresh] = (await Promise.all(starts)) as [Instance, ...Instance[]];
      const filled = await source.run(content.fillAs, content.fill);
      expect([filled.exitCode, filled.errors]).toEqual([0, '']);
      bytes = await taken();
    }, makeMs);
    afterAll(() => things.disposeAsync());

    /** A container with a volume of its own, which may have files before its first start. */
    async function start(credentials: Credentials, files?: Awaited<ReturnType<typeof filesOf>>): Promise<Instance> {
      const volume = `setpoint-test-${randomUUID()}`;
      await docker('volume', 'create', volume);
      things.defer(async () => void (await docker('volume', 'rm', volume)));
      if (files !== undefined)
        await place(files, await docker('volume', 'inspect', '--format', '{{.Mountpoint}}', volume));
      const { env, files: settings } = engine.configuration(credentials, version);
      const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
      const mounts = await settingsFolder(settings);
      const data = ['--volume', `${volume}:${engine.dataPath(version)}`];
      const id = await docker('run', '--detach', ...data, ...mounts, ...variables, image, ...(engine.command ?? []));
      things.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
      const explain = (): Promise<string> => docker('logs', '--tail', '20', id);
      const state = await until(
        `${type} answers`,
        async () => {
          if ((await docker('inspect', '--format', '{{.State.Running}}', id)) !== 'true') return 'ended';
          await docker('exec', id, ...engine.ready);
          return 'running';
        },
        { timeoutMs: readyMs, explain },
      );
      if (state === 'ended') throw new Error(`${type} ended: ${await docker('logs', '--tail', '20', id)}`);
      return { id, run: (command, input = '') => runIn(id, command, input) };
    }

    async function settingsFolder(settings: Readonly<Record<string, string>>): Promise<string[]> {
      const folder = await mkdtemp(join(tmpdir(), 'setpoint-dump-'));
      things.defer(() => rm(folder, { recursive: true }));
      await chmod(folder, 0o755);
      const mounts = Object.entries(settings).map(async ([path, content]) => {
        await writeFile(join(folder, basename(path)), content);
        return ['--volume', `${join(folder, basename(path))}:${path}:ro`];
      });
      return (await Promise.all(mounts)).flat();
    }

    async function taken(): Promise<Buffer> {
      const child = spawn('docker', ['exec', source.id, ...dump.command], { stdio: ['ignore', 'pipe', 'pipe'] });
      const [whole, errors, [exitCode]] = await Promise.all([
        buffer(Readable.from(wholeDump(child.stdout, dump.end))),
        text(child.stderr),
        once(child, 'close'),
      ]);
      expect(exitCode, errors).toBe(0);
      return whole;
    }

    /** Restores as the agent does, and answers with what went wrong. */
    async function restored(restore: RestoreByCommand, to: Instance, from: Buffer): Promise<string | undefined> {
      if (restore.prepare !== undefined) {
        const prepared = await to.run(restore.prepare);
        expect([prepared.exitCode, prepared.errors]).toEqual([0, '']);
      }
      let cut: string | undefined;
      async function* input() {
        try {
          yield* restoreInput(chunks(from), dump.end, restore);
        } catch (error) {
          if (!(error instanceof DumpFault)) throw error;
          cut = error.message;
        }
      }
      const { exitCode, output, errors } = await to.run(restore.command, input());
      const fault = restore.fault({
        exitCode,
        output: output.subarray(-4096).toString(),
        errors,
        hasMoreErrors: false,
      });
      // a program that did not read what follows a dump never says that all is restored
      if (cut !== undefined) expect(fault).toBeDefined();
      return cut ?? fault;
    }

    async function look(at: Instance): Promise<string[]> {
      return Promise.all(
        content.looks.map(async ({ command, input }) => {
          const { exitCode, output, errors } = await at.run(command, input);
          expect([exitCode, errors]).toEqual([0, '']);
          return output.toString('latin1');
        }),
      );
    }

    async function mayLogIn(to: Instance, credentials: Credentials): Promise<boolean> {
      const host = await docker('inspect', '--format', '{{.NetworkSettings.IPAddress}}', to.id);
      const { env, command } = content.login(credentials, host);
      const variables = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
      const child = spawn('docker', ['exec', ...variables, to.id, ...command], { stdio: 'ignore' });
      const [exitCode] = await once(child, 'close');
      return exitCode === 0;
    }

    test('gives a new server all that it was taken from, and leaves it its password', async () => {
      const to =
        dump.restore.by === 'files'
          ? await start(after, filesOf(dump.restore, bytes))
          : (fresh.pop() ?? (await start(after)));
      if (dump.restore.by === 'command') expect(await restored(dump.restore, to, bytes)).toBeUndefined();
      const seen = await look(source);
      expect(seen.join('').length).toBeGreaterThan(100);
      expect(await look(to)).toEqual(seen);
      await docker('restart', to.id);
      await until(`${type} answers again`, () => docker('exec', to.id, ...engine.ready), { timeoutMs: readyMs });
      expect(await look(to)).toEqual(seen);
      const checked = await to.run(dump.check);
      expect(checked.exitCode, checked.errors).toBe(0);
      expect([await mayLogIn(to, after), await mayLogIn(to, before)]).toEqual([true, false]);
    });

    test('is not whole when it is cut anywhere', async () => {
      const places = [0, 1, bytes.length - 1, ...Array.from({ length: cuts }, () => randomBelow(bytes.length))];
      for (const place of places) {
        const read = buffer(Readable.from(wholeDump(chunks(bytes.subarray(0, place)), dump.end)));
        await expect(read, `cut at ${place} of ${bytes.length}`).rejects.toThrow(DumpFault);
      }
    });

    const { restore } = dump;
    if (restore.by === 'command') {
      test('is not restored when it is cut, or when a part of it is refused', async () => {
        const [one, other] = [fresh.pop() ?? (await start(after)), fresh.pop() ?? (await start(after))];
        // between two statements, where no program sees that something is missing
        const end = bytes.lastIndexOf('\n\n', bytes.length / 2) + 2;
        expect(await restored(restore, one, bytes.subarray(0, end))).toMatch(/^The dump is cut/);
        const spoiled = content.spoil?.(bytes.toString('latin1')) ?? '';
        expect(spoiled).not.toBe(bytes.toString('latin1'));
        expect(await restored(restore, other, Buffer.from(spoiled, 'latin1'))).toMatch(content.complaint ?? /^$/);
      });
    } else {
      test('is not whole when any byte of it is another one', async () => {
        for (let count = 0; count < cuts; count += 1) {
          const changed = Buffer.from(bytes);
          const place = randomBelow(bytes.length);
          changed[place] = (changed[place] ?? 0) ^ (1 << randomBelow(8));
          const read = buffer(Readable.from(wholeDump(chunks(changed), dump.end)));
          await expect(read, `byte ${place} of ${bytes.length}`).rejects.toThrow(DumpFault);
        }
      });

      test('does not let a server begin that has a part of it', async () => {
        const cut = bytes.subarray(0, Math.floor(bytes.length / 2));
        await expect(start(after, filesOf(restore, cut))).rejects.toThrow('Short read');
      });
    }
  });
}

function dumpOf(type: DatabaseEngine): Dump {
  const { dump } = engines[type];
  if (dump === undefined) throw new Error(`${type} has no dump`);
  return dump;
}

function filesOf(restore: Extract<Dump['restore'], { by: 'files' }>, bytes: Buffer) {
  const files = restore.files.map(({ path, content }) => ({
    path,
    bytes: content.by === 'dump' ? bytes : content.text,
  }));
  return { owner: restore.owner, files };
}

async function place({ owner, files }: ReturnType<typeof filesOf>, folder: string): Promise<void> {
  for (const { path, bytes } of files) {
    const made = await mkdir(dirname(join(folder, path)), { recursive: true });
    if (made !== undefined) await chown(made, owner, owner);
    await writeFile(join(folder, path), bytes, { mode: 0o600 });
    await chown(join(folder, path), owner, owner);
  }
}

async function runIn(id: string, command: readonly string[], input: Parameters<Instance['run']>[1]): Promise<Ended> {
  const child = spawn('docker', ['exec', '--interactive', id, ...command], { stdio: 'pipe' });
  const source = typeof input === 'string' || input instanceof Buffer ? [input] : (input ?? []);
  const [output, errors, [exitCode]] = await Promise.all([
    buffer(child.stdout),
    text(child.stderr),
    once(child, 'close'),
    // a program that ended has no use for the rest of its input
    pipeline(Readable.from(source), child.stdin).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    }),
  ]);
  return { exitCode: Number(exitCode), output, errors };
}

/** Pieces of the sizes that come from a pipe, or one byte long. */
async function* chunks(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < bytes.length;) {
    const length = 1 + randomBelow(64 * 1024);
    yield bytes.subarray(offset, offset + length);
    offset += length;
  }
}

function randomBelow(limit: number): number {
  return Math.floor(Math.random() * limit);
}
