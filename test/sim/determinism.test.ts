import { expect, test } from 'vitest';
import { keys, parseKey } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { revision } from '../../store/revision.ts';
import { allControllers } from '../harness/all-controllers.ts';
import { World } from '../harness/world.ts';
import { longTag } from '../layer-report.ts';
import { scenarios } from './scenarios.ts';
import type { Scenario } from './scenarios.ts';

const histories = new Map<string, string[]>();

async function runOf(scenario: Scenario): Promise<string[]> {
  await using world = await World.create(7);
  await scenario.run(world, await scenario.prepare(world));
  return await history(world);
}

for (const [n, scenario] of scenarios.entries())
  test(`the same seed gives the same history: ${scenario.name}`, { tags: n % 3 === 0 ? [] : [longTag] }, async () => {
    const first = await runOf(scenario);
    histories.set(scenario.name, first);
    expect(await runOf(scenario)).toEqual(first);
  });

/** Kinds with a controller of which no scenario makes an object, and where they are tested. */
const elsewhere: Partial<Record<KindName, string>> = {
  invite: 'It is mail: test/controllers/invite',
};

test('every kind that has a controller is in a scenario', async () => {
  const written = new Set<string>();
  for (const scenario of scenarios)
    for (const line of histories.get(scenario.name) ?? (await runOf(scenario))) {
      const key = parseKey(line.slice(line.indexOf(' ') + 1));
      if (key?.area === 'observed') written.add(key.kind);
    }
  const missing = allControllers.map(({ kind }) => kind).filter((kind) => !written.has(kind));
  expect(missing.toSorted(), 'Add a scenario to test/sim/scenarios.ts that makes an object of each kind').toEqual(
    Object.keys(elsewhere).toSorted(),
  );
});

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
