import { expect } from 'vitest';
import type { MockContainer } from '../../agent/runtime/mock/mock-container.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import type { FinalState } from '../harness/final-state.ts';
import { finalState } from '../harness/final-state.ts';
import type { Machine } from '../harness/world.ts';
import { World } from '../harness/world.ts';
import type { Scenario } from './scenarios.ts';
import { scenarios } from './scenarios.ts';

export const kinds = [
  'fail-before-commit',
  'lose-answer',
  'kill-control-plane',
  'kill-agent',
  'freeze-leader',
  'kill-leader',
] as const;

/**
 * What happens at one transaction: it fails before it commits, it commits and its answer is lost, or it commits and a
 * process dies or freezes at that instant. The last two have a second replica take over.
 */
export type Kind = (typeof kinds)[number];

export interface Disturbance {
  kind: Kind;
  /** Counted from 1 at the beginning of the scenario. */
  at: number;
}

export interface Outcome {
  state: FinalState;
  /** Transactions that were asked for between the beginning and the end of the scenario. */
  transactions: number;
  /** Laws that did not hold at some instant. */
  broken: string[];
  /** Transactions of a deposed leader that its fence stopped. */
  fenced: number;
}

/** Long enough for every lease to expire and every deadline between processes to pass. */
const restMs = 60_000;
const frozenMs = 15_000;
/** After a frost, a timer comes before the answers that it waits for: the time of a drain is over at once. */
const tolerated = /A reconcile does not end although its queue closed/;

/** Runs a scenario to the world's rest, disturbed as the test asks. */
export async function simulate(
  scenario: Scenario,
  seed: number,
  disturbances: readonly Disturbance[] = [],
): Promise<Outcome> {
  await using world = await World.create(seed);
  const place = await scenario.prepare(world);
  const broken = new Set<string>();
  const look = watchLaws(world, scenario, broken);
  const before = world.store.transactions;
  if (disturbances.some(({ kind }) => kind === 'freeze-leader' || kind === 'kill-leader')) await addReplica(world);
  for (const { kind, at } of disturbances) disturb(world, kind, world.store.transactions + at, place.machine);
  await scenario.run(world, place);
  const transactions = world.store.transactions - before;
  await world.rest(restMs);
  look();
  const isRight = (fault: string): boolean => tolerated.test(fault) || scenario.errors?.test(fault) === true;
  for (const fault of world.faults) if (!isRight(fault)) broken.add(`An error was logged: ${fault}`);
  return { state: await finalState(world), transactions, broken: [...broken], fenced: world.fenced };
}

async function addReplica(world: World): Promise<void> {
  const plane = world.startPlane();
  await world.until('the second replica is ready', () => plane.replica !== undefined);
  await world.pass(1000);
}

function disturb(world: World, kind: Kind, k: number, machine: Machine): void {
  // Both ways in which the leases of a dead process end, in turns.
  world.leasesOutlive = (k >> 1) % 2 === 0;
  switch (kind) {
    case 'fail-before-commit':
    case 'lose-answer':
      world.store.at(k, kind);
      return;
    case 'kill-control-plane':
      world.store.at(k, () => {
        for (const plane of world.planes.toReversed()) {
          world.killPlane(plane);
          world.startPlane();
        }
      });
      return;
    case 'kill-leader':
      world.store.at(k, () => {
        const plane = world.leading;
        if (plane === undefined) return;
        world.killPlane(plane);
        world.clock.timer(5000, () => world.startPlane());
      });
      return;
    case 'freeze-leader':
      world.store.at(k, () => {
        const process = world.leading?.process;
        process?.freeze();
        world.clock.timer(frozenMs, () => process?.thaw());
      });
      return;
    case 'kill-agent':
      world.store.at(k, () => {
        if (machine.process === undefined) return;
        world.killAgent(machine);
        world.clock.timer(500, () => world.startAgent(machine));
      });
  }
}

/** How many containers an assignment may have: a function is answered by the one before until the next one answers. */
function mostOf(one: MockContainer | undefined): number {
  return one?.mutable.labels[labels.type] === 'function' ? 2 : 1;
}

/** Looks at the engines at every change of theirs; the answer looks once more. */
function watchLaws(world: World, { running, answering = 0 }: Scenario, broken: Set<string>): () => void {
  const look = (): void => {
    for (const { engine } of world.machines) {
      const alive = engine.containers.filter((it) => it.state === 'running');
      for (const [id, twins] of Map.groupBy(engine.containers, (it) => it.mutable.labels[labels.assignment]))
        if (twins.length > mostOf(twins[0])) broken.add(`${twins.length} containers of assignment ${id}`);
      for (const [id, all] of Map.groupBy(alive, (it) => it.mutable.labels[labels.workload]))
        if (all.length > running) broken.add(`${all.length} instances of workload ${id}, at most ${running} may run`);
      const answers = alive.filter((it) => it.answer(8080, '/health') === 200).length;
      if (answers < answering) broken.add(`${answers} instances answer, ${answering} did`);
    }
  };
  world.watchEngines = look;
  return look;
}

/** How to see one run again. */
export function repro(scenario: Scenario, seed: number, disturbances: readonly Disturbance[]): string {
  const faults = disturbances.map(({ kind, at }) => `${kind}@${at}`).join(',');
  return `SIM_SCENARIO='${scenario.name}' SIM_SEED=${seed} SIM_FAULT=${faults} npm run -s node -- test/sim/replay.ts`;
}

/** @throws Error unless the run ends as the undisturbed one did and no law was broken on the way. */
export async function expectSameEnd(
  scenario: Scenario,
  seed: number,
  disturbances: readonly Disturbance[],
  undisturbed: Outcome,
): Promise<Outcome> {
  const again = repro(scenario, seed, disturbances);
  let outcome: Outcome;
  try {
    outcome = await simulate(scenario, seed, disturbances);
  } catch (error) {
    throw new Error(`It did not end: ${again}`, { cause: error });
  }
  expect(outcome.broken, again).toEqual([]);
  expect(outcome.state, again).toEqual(undisturbed.state);
  return outcome;
}

/** The undisturbed run. @throws Error if it breaks a law or leaves something behind. */
export async function undisturbed(scenario: Scenario, seed: number): Promise<Outcome> {
  const outcome = await simulate(scenario, seed);
  expect(outcome.broken, repro(scenario, seed, [])).toEqual([]);
  expect(outcome.state.leftovers, repro(scenario, seed, [])).toEqual([]);
  return outcome;
}

/** @throws Error if there is none of that name. */
export function scenarioNamed(name: string): Scenario {
  const found = scenarios.find((it) => it.name === name);
  if (found === undefined)
    throw new Error(`There is no scenario ${name}: ${scenarios.map((it) => it.name).join(', ')}`);
  return found;
}
