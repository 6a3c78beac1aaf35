import { expect, test } from 'vitest';
import { scenarioNamed, simulate } from './simulate.ts';
import { sweep } from './sweep.ts';

sweep('freeze-leader', { every: 96, from: 1, turn: 1 });

test('a leader that wakes after its term writes nothing more: its fence stops it', async () => {
  let fenced = 0;
  for (const at of [1, 4, 7]) {
    const outcome = await simulate(scenarioNamed('deploy anew and roll back'), 1, [{ kind: 'freeze-leader', at }]);
    fenced += outcome.fenced;
  }
  expect(fenced).toBeGreaterThan(0);
});
