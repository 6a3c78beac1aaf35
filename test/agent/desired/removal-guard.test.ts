import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { RemovalGuard } from '../../../agent/desired/removal-guard.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { AgentWorld, service } from '../agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

async function running(count: number): Promise<WireAssignment[]> {
  await world.start();
  const items = Array.from({ length: count }, () => service());
  await world.snapshot(...items);
  await world.until('all run', () => items.every((it) => world.report(it)?.phase === 'running'), 60_000);
  return items;
}

const left = (): number => world.engine.containers.length;

describe('of a control plane that did not prove itself', () => {
  test('an empty snapshot removes nothing, and of one that did it removes all', async () => {
    const items = await running(3);
    world.agent.backend.trusts(false);
    await world.snapshot();
    await world.pass(60_000);
    expect(left()).toBe(3);
    expect(items.map((it) => world.report(it)?.phase)).toEqual(['running', 'running', 'running']);
    world.agent.backend.trusts(true);
    await world.snapshot();
    await world.until('all are gone', () => left() === 0, 60_000);
  });

  test('deltas remove up to half by name, and of one that did they remove all', async () => {
    const items = await running(5);
    const ids = items.map((it) => it.id);
    world.agent.backend.trusts(false);
    await world.delta([], ids);
    await world.pass(60_000);
    expect(left()).toBe(5);
    await world.delta([], ids.slice(0, 1));
    await world.delta([], ids.slice(1, 2));
    await world.delta([], ids.slice(2, 3));
    await world.until('half is gone', () => left() === 3, 60_000);
    await world.pass(60_000);
    expect(left()).toBe(3);
    world.agent.backend.trusts(true);
    await world.delta([], ids);
    await world.until('all are gone', () => left() === 0, 60_000);
  });
});

test('a guard admits half within an hour, and two in any case', async () => {
  const clock = new FakeClock();
  const guard = new RemovalGuard(clock);
  expect([guard.admits(6, 10), guard.admits(5, 10), guard.admits(1, 5)]).toEqual([false, true, false]);
  await clock.advance(3_600_001);
  expect([guard.admits(2, 5), guard.admits(1, 3)]).toEqual([true, false]);
  await clock.advance(3_600_001);
  expect([guard.admits(2, 2), guard.admits(1, 1)]).toEqual([true, false]);
});
