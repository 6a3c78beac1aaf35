import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { environmentNetwork } from '../../controllers/rollout/environment-network.ts';
import { idleContainer, inContainer, numbered, NumberWriter } from '../harness/database-client.ts';
import { ensureDatabaseImage } from '../harness/database-images.ts';
import type { DatabaseEngine } from '../harness/database-images.ts';
import { docker } from '../harness/engine.ts';
import type { Installation } from '../harness/installation.ts';
import { databaseTown, LiveDatabase, liveEngines } from '../harness/live-database.ts';

const writers = 3;
/** Numbers that are acknowledged before each kill, and after the last one. */
const between = 300;

/** How a database dies: by its process, by the engine of containers, and by the removal of its container. */
const deaths = [
  async (container: string): Promise<void> => {
    process.kill(Number(await docker('inspect', '--format', '{{.State.Pid}}', container)), 'SIGKILL');
  },
  async (container: string): Promise<void> => void (await docker('kill', container)),
  async (container: string): Promise<void> => void (await docker('rm', '--force', container)),
];

/** What an engine promises of what it acknowledged. */
interface Durability {
  type: DatabaseEngine;
  how: string;
  parameters?: Readonly<Record<string, string>>;
  /** It may forget what it acknowledged within this time before its death. */
  forgetsMs: number;
}
const whole = liveEngines.filter((type) => type !== 'redis');
const durabilities: readonly Durability[] = [
  ...whole.map((type) => ({ type, how: 'all that it acknowledged', forgetsMs: 0 })),
  { type: 'redis', how: 'all that it acknowledged two seconds before', forgetsMs: 2_000 },
  {
    type: 'redis',
    how: 'all that it acknowledged, with appendfsync=always',
    parameters: { appendfsync: 'always' },
    forgetsMs: 0,
  },
];
/** What was acknowledged before a death is read within this time. */
const onItsWayMs = 1_000;

describe('a database that is written to and killed', () => {
  let town: Installation;

  beforeAll(async () => {
    town = await databaseTown(liveEngines);
  }, 600_000);
  afterAll(() => town[Symbol.asyncDispose]());

  it.each(durabilities)(
    'of type $type has $how',
    async ({ type, parameters, forgetsMs }) => {
      const how = numbered[type];
      const database = await LiveDatabase.create(town, type, parameters && { parameters });
      await database.is('running');
      if (how.make !== undefined) await database.ask(how.make);
      const { command, env } = how.client(await database.credentials());
      await using beside = await idleContainer(
        await ensureDatabaseImage(type),
        environmentNetwork(town.environment.id),
      );
      const writer = new NumberWriter(how, writers, () => inContainer(beside.id, command, env));
      const killed: number[] = [];
      try {
        const more = async (): Promise<void> => {
          const least = writer.acknowledged.size + between;
          await town.until('rows are written', async () => writer.acknowledged.size >= least, 120_000);
        };
        for (const die of deaths) {
          await more();
          const container = await database.container();
          killed.push(performance.now());
          await die(container);
        }
        await more();
      } finally {
        await writer.stop();
      }

      const found = (await database.ask(how.all)).split('\n').map(Number);
      const there = new Set(found);
      expect(there.size).toBe(found.length);
      expect(found.every((n) => Number.isInteger(n) && n >= 0 && n < writer.sent)).toBe(true);
      const missing = [...writer.acknowledged].filter(([n]) => !there.has(n));
      const mayMiss = (at: number): boolean =>
        forgetsMs > 0 && killed.some((death) => at > death - forgetsMs && at < death + onItsWayMs);
      console.log(
        `${type} ${JSON.stringify(parameters ?? {})}: ${writer.acknowledged.size} rows were acknowledged, ` +
          `${found.length} are there, ${missing.length} of the acknowledged are not`,
      );
      expect(missing.filter(([, at]) => !mayMiss(at))).toEqual([]);
      await database.delete();
    },
    240_000,
  );
});
