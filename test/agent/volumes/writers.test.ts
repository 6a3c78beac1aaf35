import { afterEach, beforeEach, expect, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { AgentWorld } from '../agent-world.ts';
import { mounting, volume } from './items.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
  await world.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const data = volume();

const isReady = (item: WireAssignment) => () => world.report(item)?.ready === true;
const running = () => world.engine.containers.filter(({ state }) => state === 'running');

/** Fails once two containers that may write to the volume run. */
function watchWriters(): string[] {
  const broken: string[] = [];
  const { engine } = world;
  const original = engine.start.bind(engine);
  engine.start = async (id) => {
    await original(id);
    if (running().length > 1) broken.push(`${running().length} writers`);
  };
  return broken;
}

test('two services never write to one volume at once, whatever is desired', async () => {
  const broken = watchWriters();
  const [one, two] = [mounting({ alias: 'one' }), mounting({ alias: 'two' })];
  await world.snapshot(data, one, two);
  await world.until('one runs', () => running().length === 1);
  await world.pass(60_000, 500);
  const [first, second] = isReady(one)() ? [one, two] : [two, one];
  expect(world.report(second)?.error).toEqual({
    code: 'volume_in_use',
    message: 'Another instance writes to a volume that this one mounts: this one starts once the other has ended',
  });
  await world.delta([{ ...first, generation: 2, run: 'stopped' }]);
  await world.until('the other one runs', isReady(second));
  expect(broken).toEqual([]);
});

test('a container from before a restart of the agent keeps the volume that it writes to', async () => {
  const broken = watchWriters();
  const [one, two] = [mounting({ alias: 'one' }), mounting({ alias: 'two' })];
  await world.snapshot(data, one);
  await world.until('it runs', isReady(one));
  await world.stop();
  await world.start();
  await world.snapshot(data, two, one);
  await world.pass(60_000, 500);
  expect([isReady(one)(), isReady(two)()]).toEqual([true, false]);
  await world.delta([], [one.id]);
  await world.until('the other one runs', isReady(two));
  expect(broken).toEqual([]);
});

test('a service that mounts it no more leaves it once its container is replaced', async () => {
  const [one, two] = [mounting({ alias: 'one' }), mounting({ alias: 'two' })];
  await world.snapshot(data, one);
  await world.until('it runs', isReady(one));
  await world.delta([two]);
  await world.pass(5_000);
  expect(isReady(two)()).toBe(false);
  const { spec, ...rest } = one;
  if (spec.type !== 'service') throw new Error('Must be a service');
  await world.delta([{ ...rest, generation: 2, spec_hash: 'hash-2', spec: { ...spec, mounts: [] } }]);
  await world.until('both run', () => isReady(one)() && isReady(two)());
});

test('services that only read share a volume', async () => {
  const [one, two] = [mounting({ alias: 'one', readOnly: true }), mounting({ alias: 'two', readOnly: true })];
  await world.snapshot(data, one, two);
  await world.until('both run', () => isReady(one)() && isReady(two)());
});
