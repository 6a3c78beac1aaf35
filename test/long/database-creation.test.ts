import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labels } from '../../agent/runtime/runtime.ts';
import type { DatabaseType } from '../../databases/engine.ts';
import { docker } from '../harness/engine.ts';
import type { Installation } from '../harness/installation.ts';
import { databaseTown, LiveDatabase, liveEngines } from '../harness/live-database.ts';

const types: readonly DatabaseType[] = [...liveEngines, 'mongodb'];
/** When a program is killed, as parts of the time that a creation takes alone. */
const instants = [0.15, 0.6];

describe('the creation of a database', () => {
  let town: Installation;

  beforeAll(async () => {
    town = await databaseTown(types);
  }, 600_000);
  afterAll(() => town[Symbol.asyncDispose]());

  /** The volumes of the server, and those without a name, which an image declares. */
  const volumes = async (): Promise<string[]> => {
    const all = (await docker('volume', 'ls', '--format', '{{.Name}} {{.Labels}}')).split('\n');
    const own = all.filter(
      (line) => line.includes(`${labels.server}=${town.server.id}`) || /^[0-9a-f]{64} /.test(line),
    );
    return own.map((line) => line.split(' ')[0] ?? '').toSorted();
  };

  it.each(types)(
    'of %s ends with one container and one volume, whenever agent and control plane are killed',
    async (type) => {
      const before = await volumes();
      const begun = performance.now();
      const first = await LiveDatabase.create(town, type);
      await first.is('running');
      const tookMs = performance.now() - begun;
      console.log(`${type}: ready after ${(tookMs / 1000).toFixed(1)} s`);
      await first.delete();

      const programs = { agent: town.agent, 'control plane': town.replicas[0]!.program };
      for (const [victim, program] of Object.entries(programs))
        for (const instant of instants) {
          const where = `the ${victim} was killed after ${Math.round(instant * tookMs)} ms`;
          const database = await LiveDatabase.create(town, type);
          await delay(instant * tookMs); // the instant of the kill is the point of the test
          await program.restart();
          await town.ready();
          await database.is('running');
          const container = await database.container();
          const mounts = await docker('inspect', '--format', '{{range .Mounts}}{{.Name}} {{end}}', container);
          // an image may declare a volume of its own beside that of the data
          const mounted = mounts.split(' ').filter((name) => name !== '');
          expect(mounted, where).toContain(database.volume);
          expect(await volumes(), where).toEqual([...before, ...mounted].toSorted());
          await database.delete();
          expect(await database.containers(), where).toEqual([]);
          expect(await volumes(), where).toEqual(before);
        }
    },
    300_000,
  );
});
