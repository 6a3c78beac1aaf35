import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { engines } from '../../databases/engines.ts';
import { clientFile } from '../../databases/option-file.ts';
import { CommandLine } from '../harness/command-line.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import type { DatabaseEngine } from '../harness/database-images.ts';
import { docker, instancesOf, machineAddress } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';

/** Dumps as the programs of each engine write them come in from each source. */
const execute = promisify(execFile);
const ofMysql = (dump: string) => ({
  write: [
    'app',
    '-e',
    "CREATE TABLE IF NOT EXISTS notes (n int, note text); INSERT INTO notes VALUES (1, 'it''s; \\\\')",
  ],
  count: ['app', '-BNe', 'SELECT count(*) FROM notes'],
  dumps: [[dump, `--defaults-file=${clientFile}`, '--user=root', 'app']],
});
const engineOf = {
  postgres: {
    write: ['-c', "CREATE TABLE IF NOT EXISTS notes (n int, note text); INSERT INTO notes VALUES (1, 'it''s; \\')"],
    count: ['-XqtAc', 'SELECT count(*) FROM notes'],
    dumps: [
      ['pg_dump', 'app'],
      ['pg_dump', '--inserts', 'app'],
      ['pg_dump', '--format=custom', 'app'],
    ],
  },
  mysql: ofMysql('mysqldump'),
  mariadb: ofMysql('mariadb-dump'),
  redis: { write: ['RPUSH', 'notes', '1'], count: ['LLEN', 'notes'], dumps: [engines.redis.dump?.command ?? []] },
} as const satisfies Readonly<Record<DatabaseEngine, unknown>>;

const compressed = { plain: (bytes: Buffer) => bytes, gzip: gzipSync, zstd: zstdCompressSync };

let served: Buffer = Buffer.alloc(0);
const server = createServer((_, response) => response.setHeader('content-length', served.length).end(served));
let address: string;
let cli: CommandLine;

beforeAll(async () => {
  address = await machineAddress();
  server.listen(0, address);
  await once(server, 'listening');
  cli = await CommandLine.open();
});
afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await cli[Symbol.asyncDispose]();
});

it.each(['postgres', 'mariadb', 'redis', 'mysql'] as const)(
  'a database of %s takes dumps from a file, an address and a path, compressed or not',
  async (type) => {
    const image = await ensureDatabaseImage(type);
    await using town = await Installation.start({
      store: 'sqlite',
      serverFlags: ['--engine-images', `${type}=${image}`],
      agentFlags: ['--import-networks', `${address}/32`],
    });
    const database = await town.client.object('POST', '/api/v1/databases?wait=120', {
      project_id: town.project.id,
      server_id: town.server.id,
      name: 'orders',
      type,
    });
    const { write, count, dumps } = engineOf[type];
    const inside = async (command: readonly string[]): Promise<Buffer> => {
      const [id = ''] = await instancesOf(database.id);
      const options = { encoding: 'buffer', maxBuffer: 64 * 1024 * 1024 } as const;
      return (await execute('docker', ['exec', id, ...command], options)).stdout;
    };
    const rows = async (): Promise<number> => Number((await inside([...engines[type].client, ...count])).toString());
    const { server: url, token = '' } = town.client.connection;
    const file = join(town.dir, 'orders.dump');
    const { port } = server.address() as AddressInfo;

    await inside([...engines[type].client, ...write]);
    const sources = {
      '--file': async (bytes: Buffer) => {
        await writeFile(file, bytes);
        return file;
      },
      '--url': async (bytes: Buffer) => {
        served = bytes;
        return `http://${address}:${port}/orders.dump`;
      },
      '--path': async (bytes: Buffer) => {
        await writeFile(join(town.dir, 'agent', 'imports', 'orders.dump'), bytes);
        return 'orders.dump';
      },
    };
    const ways = [
      ['--file', 'zstd'],
      ['--url', 'gzip'],
      ['--path', 'plain'],
    ] as const;
    for (const [index, [source, compression]] of ways.entries()) {
      const bytes = await inside(dumps[index % dumps.length] ?? []);
      await inside([...engines[type].client, ...write]);
      expect(await rows()).toBe(2);
      const at = await sources[source](compressed[compression](bytes));
      const imported = await cli.run(['db', 'import', 'orders', source, at, '--yes'], '', {
        SETPOINT_URL: url,
        SETPOINT_TOKEN: token,
      });
      expect(imported, `${source}, ${compression}`).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^restore \S+ is completed: database orders serves what was restored\n$/),
      });
      await town.until('the database has what was imported', async () => (await rows()) === 1);
    }
    expect(await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${database.id}`)).not.toContain('\n');
  },
  400_000,
);
