import { expect, test } from 'vitest';
import { keys } from '../../store/keys.ts';
import { revision } from '../../store/revision.ts';
import { World } from '../harness/world.ts';
import { scenarios } from './scenarios.ts';

test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
  'the same seed gives the same history: %s',
  async (_, scenario) => {
    const run = async (): Promise<string[]> => {
      await using world = await World.create(7);
      await scenario.run(world, await scenario.prepare(world));
      return await history(world);
    };
    expect(await run()).toEqual(await run());
  },
);

/** Every key that was written, in order. */
async function history(world: World): Promise<string[]> {
  const written: string[] = [];
  const last = await world.store.revision();
  for await (const batch of world.store.watch(keys.all, revision(1), AbortSignal.timeout(10_000))) {
    written.push(...batch.events.map(({ key, revision: at }) => `${at} ${key}`));
    if (batch.revision >= last) break;
  }
  return written;
}
