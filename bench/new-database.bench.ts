import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureDatabaseImage } from '../test/harness/database-images.ts';
import type { DatabaseEngine } from '../test/harness/database-images.ts';
import { docker } from '../test/harness/engine.ts';
import { databaseTown, LiveDatabase, liveEngines } from '../test/harness/live-database.ts';
import type { Bench } from './bench.ts';
import { timed } from './measure.ts';

const rounds = 5;
const timeoutMs = 120_000;
const password = 'of the benchmark';

/** What `docker run` is told for a database of that type, and the query that shows that it is ready. */
interface Raw {
  folder: string;
  env: Readonly<Record<string, string>>;
  arguments?: readonly string[];
  ready: readonly string[];
}
const ofMysql = (prefix: string, client: string): Raw => ({
  folder: '/var/lib/mysql',
  env: {
    [`${prefix}_ROOT_PASSWORD`]: password,
    [`${prefix}_USER`]: 'app',
    [`${prefix}_PASSWORD`]: password,
    [`${prefix}_DATABASE`]: 'app',
  },
  ready: [client, '-h', '127.0.0.1', '-u', 'app', `-p${password}`, 'app', '-e', 'SELECT 1'],
});
const raws: Readonly<Record<DatabaseEngine, Raw>> = {
  postgres: {
    folder: '/var/lib/postgresql/data',
    env: { POSTGRES_USER: 'app', POSTGRES_PASSWORD: password, POSTGRES_DB: 'app', PGPASSWORD: password },
    ready: ['psql', '-h', '127.0.0.1', '-U', 'app', '-d', 'app', '-c', 'SELECT 1'],
  },
  mysql: ofMysql('MYSQL', 'mysql'),
  mariadb: ofMysql('MARIADB', 'mariadb'),
  redis: {
    folder: '/data',
    env: { REDISCLI_AUTH: password },
    arguments: ['redis-server', '--appendonly', 'yes', '--requirepass', password],
    ready: ['redis-cli', '-h', '127.0.0.1', '-e', 'PING'],
  },
};

/** A new database until it answers a query over TCP: by Setpoint, and by `docker run` of the same image on a new volume. */
export const bench: Bench = {
  id: 'P1',
  async run({ compare }) {
    await using town = await databaseTown(liveEngines);
    for (const type of liveEngines)
      await compare({
        what: `a new database of ${type}, from the call until it is running; raw: docker run, docker exec of its query`,
        unit: 's',
        rounds,
        raw: () => runRaw(type),
        ours: async () => {
          let made: LiveDatabase | undefined;
          const ms = await timed(async () => {
            made = await LiveDatabase.create(town, type);
            await made.is('running');
          });
          await made?.delete();
          return ms / 1000;
        },
      });
  },
};

/** Resolves with the seconds until the query is answered. */
async function runRaw(type: DatabaseEngine): Promise<number> {
  const { folder, env, arguments: args = [], ready } = raws[type];
  const image = await ensureDatabaseImage(type);
  const name = `setpoint-bench-${randomBytes(4).toString('hex')}`;
  const variables = Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]);
  try {
    const ms = await timed(async () => {
      await docker('volume', 'create', name);
      const mount = ['--volume', `${name}:${folder}`];
      await docker('run', '--detach', '--name', name, ...mount, ...variables, image, ...args);
      const end = performance.now() + timeoutMs;
      const answers = () =>
        docker('exec', name, ...ready).then(
          () => true,
          () => false,
        );
      while (!(await answers())) {
        if (performance.now() > end) throw new Error(`${type} was not ready in time`);
        await delay(20);
      }
    });
    return ms / 1000;
  } finally {
    await docker('rm', '--force', '--volumes', name).catch(() => undefined);
    await docker('volume', 'rm', name).catch(() => undefined);
  }
}
