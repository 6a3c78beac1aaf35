import { describe, test } from 'vitest';
import { randomDisturbances, randomScenario } from '../sim/random-disturbances.ts';
import { expectSameEnd, kinds, undisturbed } from '../sim/simulate.ts';
import { sweep } from '../sim/sweep.ts';

for (const kind of kinds) sweep(kind, { every: 1, from: 1 });

describe('a random scenario ends as if nothing had been, disturbed up to four times', () => {
  const [first, count, group] = [1, 500, 50];
  const groups = Array.from({ length: count / group }, (_, n) => first + n * group);

  test.each(groups)(`seeds from %i on, ${group} of them`, async (from) => {
    for (let seed = from; seed < from + group; seed += 1) {
      const scenario = randomScenario(seed);
      const expected = await undisturbed(scenario, seed);
      await expectSameEnd(scenario, seed, randomDisturbances(seed, expected.transactions), expected);
    }
  });
});
