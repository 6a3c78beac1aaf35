import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { Probe, Route } from '../../agent-protocol/workload.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import { AgentWorld, service } from './agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const served = { port: 8080, health: { path: '/healthz' }, publish_port: 8080, drain_seconds: 30 };

/** An instance that is ready behind its port, with a connection open. */
async function connected(spec: Parameters<typeof service>[1] = served): Promise<WireAssignment> {
  await world.start();
  const item = service({}, spec);
  await world.snapshot(item);
  await world.until('ready', () => world.report(item)?.ready === true, 20_000);
  world.container(item)!.connections = 1;
  return item;
}

const isUp = (item: WireAssignment): boolean => world.container(item)?.state === 'running';
const since = async (item: WireAssignment): Promise<number> => {
  const from = world.clock.monotonic();
  await world.until('ended', () => !isUp(item), 120_000, 250);
  return world.clock.monotonic() - from;
};
const stopped = (item: WireAssignment, generation = 2): WireAssignment => ({ ...item, generation, run: 'stopped' });

test('an instance that is stopped runs on until its last connection has ended, and says so', async () => {
  const item = await connected();
  await world.delta([stopped(item)]);
  await world.until('withdrawn', () => world.ports.machine.backends(8080)?.length === 0, 1_000);
  await world.pass(10_000, 250);
  expect(isUp(item)).toBe(true);
  expect(world.report(item)).toMatchObject({ generation: 2, phase: 'stopping', draining: true, ready: false });
  world.container(item)!.connections = 0;
  expect(await since(item)).toBeLessThanOrEqual(1_500);
  await world.until('reported', () => world.report(item)?.phase === 'stopped', 2_000);
  expect(world.report(item)).not.toHaveProperty('draining');
});

test('the last connection of an instance has as long as is set, and no longer', async () => {
  const item = await connected();
  await world.delta([stopped(item)]);
  const took = await since(item);
  expect(took).toBeGreaterThanOrEqual(29_000);
  expect(took).toBeLessThanOrEqual(31_000);
});

test('an instance without a connection, or without a port, ends at once', async () => {
  const item = await connected();
  world.container(item)!.connections = 0;
  await world.delta([stopped(item)]);
  expect(await since(item)).toBeLessThanOrEqual(1_000);
  const { port: _, health: __, publish_port: ___, ...worker } = served;
  const other = service({}, worker);
  await world.delta([other]);
  await world.until('ready', () => world.report(other)?.ready === true, 20_000);
  world.container(other)!.connections = 1;
  await world.delta([stopped(other)]);
  expect(await since(other)).toBeLessThanOrEqual(1_000);
});

test('an instance that is not ready is not waited for', async () => {
  world.engine.addImage('sick:1', { local: true, runs: { http: ({ runningMs }) => (runningMs < 5_000 ? 200 : 503) } });
  const item = await connected({ ...served, image: 'sick:1' });
  await world.until('unready', () => world.report(item)?.ready === false, 60_000, 250);
  await world.delta([stopped(item)]);
  expect(await since(item)).toBeLessThanOrEqual(1_000);
});

test('a removal goes on with the time of the stop before it, and less time counts at once', async () => {
  const item = await connected();
  await world.delta([stopped(item)]);
  await world.pass(20_000, 250);
  await world.delta([], [item.id]);
  const took = await since(item);
  expect(took).toBeGreaterThanOrEqual(8_000);
  expect(took).toBeLessThanOrEqual(11_000);

  const other = service({}, served);
  await world.delta([other]);
  await world.until('ready', () => world.report(other)?.ready === true, 20_000);
  world.container(other)!.connections = 1;
  await world.delta([stopped(other)]);
  await world.pass(5_000, 250);
  const shorter = service(other, { ...served, drain_seconds: 6 });
  await world.delta([stopped(shorter, 3)]);
  expect(await since(other)).toBeLessThanOrEqual(2_000);
});

test('a container that is replaced is drained before it ends', async () => {
  const item = await connected({ ...served, restart_token: 'a' });
  const id = world.container(item)!.id;
  await world.delta([{ ...service(item, { ...served, restart_token: 'b' }), generation: 2 }]);
  await world.pass(20_000, 250);
  expect(world.container(item)?.id).toBe(id);
  await world.until('replaced', () => world.report(item)?.ready === true && world.container(item)?.id !== id, 30_000);
});

test('an agent that starts during a drain gives the connections their time anew', async () => {
  const item = await connected();
  await world.delta([stopped(item)]);
  await world.pass(20_000, 250);
  await world.stop();
  await world.start();
  const took = await since(item);
  expect(took).toBeGreaterThanOrEqual(28_000);
  expect(took).toBeLessThanOrEqual(36_000);
});

test('a stop that is taken back during the drain leaves the instance in service', async () => {
  const item = await connected();
  const id = world.container(item)!.id;
  await world.delta([stopped(item)]);
  await world.pass(10_000, 250);
  await world.delta([{ ...item, generation: 3 }]);
  await world.until('ready', () => world.report(item)?.generation === 3 && world.report(item)?.ready === true, 5_000);
  expect(world.container(item)?.id).toBe(id);
  expect(world.ports.machine.backends(8080)).toHaveLength(1);
  await world.delta([stopped(item, 4)]);
  expect(await since(item)).toBeGreaterThanOrEqual(29_000);
});

test('the health check of its image decides where that is to, and 10 s of life where the image has none', async () => {
  const health = (runningMs: number) => (runningMs < 15_000 ? ('starting' as const) : ('healthy' as const));
  world.engine.addImage('checked:1', { local: true, runs: { health } });
  await world.start();
  const readyAfter = async (image: string, image_check: boolean): Promise<number> => {
    const item = service({}, { image, image_check });
    await world.delta([item]);
    await world.until('running', () => world.report(item)?.phase === 'running', 2_000);
    const from = world.clock.monotonic();
    await world.until('ready', () => world.report(item)?.ready === true, 30_000, 250);
    return world.clock.monotonic() - from;
  };
  await world.snapshot();
  expect(await readyAfter('checked:1', true)).toBeGreaterThanOrEqual(14_500);
  expect(await readyAfter('checked:1', false)).toBeLessThan(11_000);
  expect(await readyAfter('web:1', true)).toBeLessThan(11_000);
});

test('another time until an instance is stable counts for one that runs, and does not interrupt it', async () => {
  const item = await connected({ ...served, min_healthy_seconds: 600 });
  await world.pass(15_000, 500);
  expect(world.report(item)).toMatchObject({ ready: true, stable: false });
  const changes = world.ports.history.length;
  await world.delta([{ ...service(item, { ...served, min_healthy_seconds: 20 }), generation: 2 }]);
  await world.until('stable', () => world.report(item)?.stable === true, 6_000);
  await world.delta([{ ...service(item, { ...served, min_healthy_seconds: 600 }), generation: 3 }]);
  await world.pass(1_000);
  expect(world.report(item)).toMatchObject({ generation: 3, ready: true, stable: true });
  expect(new Set(world.ports.history.slice(changes - 1)).size).toBe(1);
});

/** Leads a domain to the workload of an instance. */
const routesTo = (item: WireAssignment): WireAssignment => ({
  ...service({ workload_id: item.workload_id, service: 'routes' }),
  spec: { type: 'routes', routes: [Route.parse({ host: 'www.example.test', tls: 'off', service: item.service })] },
});
const { publish_port: _, ...domainOnly } = served;

describe('an instance that only a domain leads to', () => {
  it('is drained when it is removed without a stop before', async () => {
    const item = await connected(domainOnly);
    await world.delta([routesTo(item)]);
    await world.pass(10_000, 250);
    await world.delta([], [item.id]);
    await world.pass(10_000, 250);
    expect(isUp(item)).toBe(true);
    expect(world.report(item)).toMatchObject({ phase: 'stopping', draining: true });
    world.container(item)!.connections = 0;
    expect(await since(item)).toBeLessThanOrEqual(1_500);
  });

  it('is drained when it is removed while the proxy may still choose it after a stop', async () => {
    const item = await connected(domainOnly);
    await world.delta([routesTo(item)]);
    await world.pass(10_000, 250);
    await world.delta([stopped(item)]);
    await world.pass(500);
    await world.delta([], [item.id]);
    await world.pass(5_000, 250);
    expect(isUp(item)).toBe(true);
  });
});

test('an instance that a new agent is to end goes on until no port leads to it', async () => {
  // each look at whether it is ready takes longer than its end
  const runs = { programs: () => ({ takesMs: 3_000 }) };
  world.engine.addImage('slow:1', { local: true, runs });
  const probe = Probe.parse({ type: 'command', command: ['/bin/check'], timeout_seconds: 5 });
  const spec = { image: 'slow:1', port: 8080, publish_port: 8080, probe };
  await world.start();
  const old = service({}, spec);
  const next = service({ workload_id: old.workload_id }, spec);
  await world.snapshot(old, next);
  await world.until('both are ready', () => world.ports.machine.backends(8080)?.length === 2, 30_000);
  await world.stop();

  const runtime = mockRuntime(world.engine);
  const ledTo: boolean[] = [];
  const address = world.container(old)!.address!;
  const stop: typeof runtime.stop = (id, graceSeconds, signal) => {
    ledTo.push(world.ports.machine.backends(8080)?.some((one) => one.address === address) === true);
    return runtime.stop(id, graceSeconds, signal);
  };
  await world.start({}, { ...runtime, stop });
  await world.snapshot(next);
  await world.delta([stopped(old)]);
  await world.until('it has ended', () => !isUp(old), 30_000);
  expect(ledTo).toEqual([false]);
  expect(world.ports.machine.backends(8080)).toHaveLength(1);
});
