import { afterEach, expect, test } from 'vitest';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { AgentWorld, nameOf, network, service } from './agent-world.ts';
import type { Death } from './mortal-runtime.ts';
import { mortalRuntime } from './mortal-runtime.ts';

let world: AgentWorld;
afterEach(() => world[Symbol.asyncDispose]());

const healthy = { port: 8080, health: { path: '/healthz' } };
const ids = ['a', 'b', 'c', 'd', 'e'].map((letter) => `${letter.repeat(8)}-0000-4000-8000-000000000000`);

function item(index: number, generation: number, changes: Partial<WireAssignment>, spec = {}): WireAssignment {
  const workload = `${ids[index]!.slice(0, 35)}1`;
  return service(
    { id: ids[index]!, generation, workload_id: workload, ...changes },
    { ...healthy, alias: `app${index}`, ...spec },
  );
}

/** The first state and the last one: one service stays, one is replaced, one stops, one goes, one comes. */
const first = [item(0, 1, {}, { publish_port: 80 }), item(1, 1, {}), item(2, 1, {}), item(3, 1, {})];
const last = [
  item(0, 1, {}, { publish_port: 80 }),
  item(1, 2, { spec_hash: 'hash-2' }, { env: { GREETING: 'two' } }),
  item(2, 2, { run: 'stopped' }),
  item(4, 1, {}, { image: 'remote:1' }),
];

/** Fails the test as soon as two containers of one assignment run side by side. */
function watchTwins(): string[] {
  const twins: string[] = [];
  const { engine } = world;
  const check = (): void => {
    const running = engine.containers
      .filter(({ name, state }) => name !== 'stranger' && state === 'running')
      .map((it) => it.mutable.labels[labels.assignment]);
    for (const id of new Set(running)) if (running.filter((it) => it === id).length > 1) twins.push(String(id));
  };
  void (async () => {
    for await (const _ of engine.events(new AbortController().signal)) check();
  })();
  return twins;
}

async function foreign(): Promise<string> {
  const it = await world.engine.foreign({
    name: 'stranger',
    image: 'web:1',
    labels: { [labels.server]: world.server, [labels.assignment]: ids[0]! },
    env: {},
    networks: [{ name: 'bridge', aliases: ['x'] }],
    restart: 'no',
  });
  return it.id;
}

function reached(): boolean {
  return [last[0]!, last[1]!, last[3]!].every((it) => {
    const report = world.report(it);
    return report?.ready === true && report.generation === it.generation;
  });
}

async function finish(): Promise<unknown> {
  await world.until(
    'the last state',
    () => reached() && world.report(last[2]!)?.phase === 'stopped' && gone(),
    60_000,
    250,
  );
  return {
    containers: world.engine.containers
      .map((it) => ({
        name: it.name,
        state: it.state,
        env: it.mutable.env,
      }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    ports: world.ports.machine.backends(80)?.length,
    phases: last.map((it) => world.report(it)?.phase),
  };
}

function gone(): boolean {
  const report = world.report(first[3]!);
  return (
    report?.gone === true ||
    (report === undefined && !world.engine.containers.some(({ name }) => name === nameOf(first[3]!)))
  );
}

async function begin(death: Death | undefined): Promise<ReturnType<typeof mortalRuntime>> {
  const mortal = mortalRuntime(world.engine, death);
  await world.start({}, mortal.runtime);
  await world.snapshot(...first);
  return mortal;
}

async function journey(
  death: Death | undefined,
): Promise<{ end: unknown; calls: number; twins: string[]; stranger: string }> {
  world = await AgentWorld.create();
  world.engine.addImage('remote:1', { pullTakesMs: 300 });
  const stranger = await foreign();
  const twins = watchTwins();
  const mortal = await begin(death);
  let dead = false;
  void mortal.dead.then(() => (dead = true));
  await world.until(
    'the first state',
    () => dead || first.every((it) => world.report(it)?.ready === true),
    60_000,
    250,
  );
  if (!dead)
    await world.delta(
      last.filter((it) => it !== last[0]),
      [first[3]!.id],
    );
  if (!dead && death === undefined) return { end: await finish(), calls: mortal.calls(), twins, stranger };
  await world.until('its death', () => dead || reached(), 60_000, 250);
  mortal.kill();
  world.abandon(mortal.bury);
  await world.start();
  await world.snapshot(...last);
  return { end: await finish(), calls: mortal.calls(), twins, stranger };
}

test('an agent that dies at any call comes to the same end as one that lives, without ever running anything twice', async () => {
  const undisturbed = await journey(undefined);
  expect(undisturbed.twins).toEqual([]);
  expect(undisturbed.calls).toBeGreaterThan(30);
  await world[Symbol.asyncDispose]();
  for (let call = 1; call <= undisturbed.calls; call += 1) {
    for (const heard of [false, true]) {
      const { end, twins, stranger } = await journey({ call, heard });
      expect({ call, heard, end, twins }).toEqual({ call, heard, end: undisturbed.end, twins: [] });
      expect(world.engine.find(stranger)?.state).toBe('running');
      await world[Symbol.asyncDispose]();
    }
  }
}, 300_000);

test('losing the control plane stops nothing and removes nothing, also across a restart of the agent', async () => {
  world = await AgentWorld.create();
  await world.start();
  await world.snapshot(...first);
  await world.until('ready', () => first.every((it) => world.report(it)?.ready === true));
  await world.stop();
  const extra = await world.engine.foreign({
    name: 'sp-extra-99999999',
    image: 'web:1',
    labels: { [labels.server]: world.server, [labels.assignment]: '99999999-0000-4000-8000-000000000000' },
    env: {},
    networks: [{ name: network, aliases: ['x'] }],
    restart: 'no',
  });
  await world.start();
  world.engine.removeByHand(world.container(first[1]!)!.id);
  await world.until('repaired', () => first.every((it) => world.report(it)?.ready === true));
  await world.pass(120_000, 2_000);
  expect(extra.state).toBe('running');
  expect(world.engine.containers.filter(({ state }) => state === 'running')).toHaveLength(5);
});
