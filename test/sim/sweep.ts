import { describe, test } from 'vitest';
import { scenarios } from './scenarios.ts';
import type { Scenario } from './scenarios.ts';
import { expectSameEnd, undisturbed } from './simulate.ts';
import type { Kind, Outcome } from './simulate.ts';
import { longTag } from '../layer-report.ts';

const seed = 1;

/** The undisturbed runs, which the files of a process share. */
const known = new Map<string, Promise<Outcome>>();

function expectedOf(scenario: Scenario): Promise<Outcome> {
  let expected = known.get(scenario.name);
  if (expected === undefined) known.set(scenario.name, (expected = undisturbed(scenario, seed)));
  return expected;
}

/** How many scenarios share the transactions between them: one of them is disturbed at its first, the next at its second … */
const sharing = 4;

/**
 * Runs scenarios with that disturbance at every `every`-th of their transactions, beginning with `from`, each in a
 * world of its own: it must end as it does undisturbed. The kinds take turns, and so do the scenarios: one half of them
 * bears this kind of disturbance in `make test`, the half that `turn` names, and the other half among the long tests; without it all of them do. In
 * every way at every transaction they are disturbed by `test/long/simulation.test.ts`.
 */
export function sweep(kind: Kind, { every, from, turn }: { every: number; from: number; turn?: 0 | 1 }): void {
  describe(`ends as if nothing had been, whenever: ${kind}`, () => {
    for (const [n, scenario] of scenarios.entries()) {
      const first = from + Math.floor((every / sharing) * (n % sharing));
      test(scenario.name, { tags: turn === undefined || n % 2 === turn ? [] : [longTag] }, async () => {
        const expected = await expectedOf(scenario);
        // a scenario that is over before is disturbed at its last transaction
        for (let at = Math.min(first, expected.transactions); at <= expected.transactions; at += every)
          await expectSameEnd(scenario, seed, [{ kind, at }], expected);
      });
    }
  });
}
