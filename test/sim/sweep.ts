import { describe, test } from 'vitest';
import { scenarios } from './scenarios.ts';
import { expectSameEnd, undisturbed } from './simulate.ts';
import type { Kind } from './simulate.ts';

const seed = 1;

/**
 * Runs every scenario with that disturbance at every `every`-th of its transactions, beginning with `from`, each in a
 * world of its own: it must end as it does undisturbed. The kinds take turns, so that every transaction is disturbed in
 * some way; all of them are disturbed in every way by `test/long/simulation.test.ts`.
 */
export function sweep(kind: Kind, { every, from }: { every: number; from: number }): void {
  describe(`ends as if nothing had been, whenever: ${kind}`, () => {
    test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))('%s', async (_, scenario) => {
      const expected = await undisturbed(scenario, seed);
      for (let at = from; at <= expected.transactions; at += every)
        await expectSameEnd(scenario, seed, [{ kind, at }], expected);
    });
  });
}
