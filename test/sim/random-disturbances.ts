import { seeded } from '../harness/seeded.ts';
import type { Scenario } from './scenarios.ts';
import { scenarios } from './scenarios.ts';
import type { Disturbance } from './simulate.ts';
import { kinds } from './simulate.ts';

/** A scenario and one to four disturbances that follow from the seed; `transactions`: how many the scenario has. */
export function randomScenario(seed: number): Scenario {
  return pick(scenarios, seeded(seed).uniform());
}

export function randomDisturbances(seed: number, transactions: number): Disturbance[] {
  const { uniform } = seeded(seed ^ 0x5eed);
  return Array.from({ length: 1 + Math.floor(uniform() * 4) }, () => ({
    kind: pick(kinds, uniform()),
    at: 1 + Math.floor(uniform() * transactions * 1.2),
  }));
}

function pick<T>(from: readonly T[], at: number): T {
  const found = from[Math.floor(at * from.length)];
  if (found === undefined) throw new RangeError(`Must be in [0, 1): ${at}`);
  return found;
}
