import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Diagnosis, Healing, machineChecks } from '../../agent-protocol/diagnosis.ts';
import type { HealableCheck } from '../../agent-protocol/diagnosis.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import type { Identities } from '../../agent/machine/machine-identities.ts';
import { stagedName } from '../../agent/volumes/volume-copies.ts';
import { AgentWorld, network, service } from './agent-world.ts';
import { copied, name } from './volumes/items.ts';

let world: AgentWorld;
let identities: Identities;
const gone = randomUUID();
const signal = (): AbortSignal => new AbortController().signal;
const outside = { resolve: async () => ['192.0.2.1'], ask: async () => 401, connect: async () => undefined };

beforeEach(async () => {
  world = await AgentWorld.create();
  identities = { living: new Set([world.server]), unknown: false };
  await world.start({ outside, identities: async () => identities });
});
afterEach(() => world[Symbol.asyncDispose]());

/** A container that the agent of that server would have made. */
async function left(
  server: string,
  changes: { name?: string; isRunning?: boolean; image?: string } = {},
): Promise<string> {
  const assignment = randomUUID();
  const { name = `sp-web-${assignment.slice(0, 8)}`, isRunning = false, image = 'web:1' } = changes;
  const { engine } = world;
  engine.ensureNetwork('foreign', {});
  const id = engine.create({
    name,
    image,
    labels: { [labels.server]: server, [labels.assignment]: assignment },
    env: {},
    networks: [{ name: 'foreign', aliases: [] }],
    restart: 'no',
  });
  if (isRunning) await engine.start(id);
  return id;
}

async function checksOf(...names: string[]): Promise<unknown[]> {
  const answer = world.agent.backend.call({ method: 'diagnose' }, signal());
  const { checks } = Diagnosis.parse(await answer);
  return names.map((name) => checks.find((one) => one.name === name));
}

async function heal(...names: HealableCheck[]): Promise<Healing['actions']> {
  const checks = names.length > 0 ? names : (['orphaned_containers', 'orphaned_networks', 'orphaned_volumes'] as const);
  return Healing.parse(await world.agent.backend.call({ method: 'heal', checks: [...checks] }, signal())).actions;
}

const ids = (): string[] => world.engine.containers.map(({ id }) => id);

describe('what agents left on a machine', () => {
  test('is examined with all else, each check in its place', async () => {
    const answer = await world.agent.backend.call({ method: 'diagnose' }, signal());
    expect(Diagnosis.parse(answer).checks.map(({ name }) => name)).toEqual(machineChecks);
  });

  test('is removed if it stands still, once; foreign things and those of living agents stay', async () => {
    await world.snapshot();
    const living = randomUUID();
    identities = { living: new Set([world.server, living]), unknown: false };
    const stopped = await left(gone);
    const running = await left(gone, { isRunning: true });
    const neighbour = await left(living);
    const foreign = await left(gone, { name: 'postgres' });
    world.engine.ensureNetwork('sp-0000000000aa', { [labels.server]: randomUUID() });
    world.engine.ensureNetwork('sp-0000000000bb', { [labels.server]: living });
    world.engine.ensureNetwork('their-net', { [labels.server]: gone });
    expect(await checksOf('orphaned_containers', 'orphaned_networks')).toMatchObject([
      { status: 'warn', auto_fixable: true, message: expect.stringContaining('1 stopped and 1 running') },
      { status: 'warn', auto_fixable: true, message: expect.stringContaining('sp-0000000000aa') },
    ]);

    const actions = await heal('orphaned_containers', 'orphaned_networks');
    expect(actions).toEqual([
      { check: 'orphaned_containers', status: 'done', target: stopped.slice(0, 12), message: 'Removed' },
      expect.objectContaining({ status: 'skipped', target: running.slice(0, 12) }),
      { check: 'orphaned_networks', status: 'done', target: 'sp-0000000000aa', message: 'Removed' },
    ]);
    expect(ids().toSorted()).toEqual([running, neighbour, foreign].toSorted());
    expect([...world.engine.networks.keys()].toSorted()).toEqual(['foreign', 'sp-0000000000bb', 'their-net']);
    expect(await heal('orphaned_containers', 'orphaned_networks')).toMatchObject([{ status: 'skipped' }]);
  });

  test('stays where agents of earlier releases run, which may need it', async () => {
    identities = { living: new Set([world.server]), unknown: true };
    await left(gone);
    world.engine.volumes.ensure('sp-volume', { [labels.server]: gone });
    expect(await checksOf('orphaned_containers', 'orphaned_volumes')).toMatchObject([
      { status: 'pass' },
      { status: 'pass' },
    ]);
    expect(await heal()).toEqual([]);
    expect(ids()).toHaveLength(1);
  });

  test('counts as needed while it is not known what this server is to run', async () => {
    world.engine.ensureNetwork('sp-0000000000aa', { [labels.server]: world.server });
    world.engine.volumes.ensure('sp-volume', { [labels.server]: world.server });
    expect(await checksOf('orphaned_networks', 'orphaned_volumes')).toMatchObject([
      { status: 'pass' },
      { status: 'pass' },
    ]);
    await world.snapshot();
    expect(await checksOf('orphaned_networks', 'orphaned_volumes')).toMatchObject([
      { status: 'warn' },
      { status: 'warn' },
    ]);
  });

  test('does not include what this server runs', async () => {
    const item = service();
    const kept = { ...service(), workload_kind: 'volume', spec: { type: 'volume' as const, volume: 'sp-data' } };
    await world.snapshot(item, kept);
    await world.until('running', () => world.report(item)?.phase === 'running', 5_000);
    await world.until('there', () => world.engine.volumes.get('sp-data') !== undefined, 5_000);
    expect(await checksOf('orphaned_containers', 'orphaned_networks', 'orphaned_volumes')).toMatchObject([
      { status: 'pass' },
      { status: 'pass' },
      { status: 'pass' },
    ]);
    expect(await heal()).toEqual([]);
    expect([...world.engine.networks.keys()]).toEqual([network]);
  });

  test('does not include a copy that is being made, nor what it is made in', async () => {
    const item = copied();
    await world.snapshot(item);
    await world.until('it waits', () => world.report(item)?.error !== undefined, 5_000);
    for (const volume of [name, stagedName(name)])
      world.engine.volumes.ensure(volume, { [labels.server]: world.server });
    expect(await checksOf('orphaned_volumes')).toMatchObject([{ status: 'pass' }]);
  });

  test('is not removed with a volume without a name that has data', async () => {
    await world.snapshot();
    world.engine.addImage('seeded:1', { local: true, volumes: ['/cache'], files: { '/cache/seed': 'rows' } });
    world.engine.addImage('empty:1', { local: true, volumes: ['/cache'] });
    const seeded = await left(gone, { image: 'seeded:1' });
    const empty = await left(gone, { image: 'empty:1' });
    expect(await heal('orphaned_containers')).toMatchObject([
      { status: 'skipped', target: seeded.slice(0, 12), message: expect.stringContaining('volume without a name') },
      { status: 'done', target: empty.slice(0, 12) },
    ]);
    expect(ids()).toEqual([seeded]);
  });

  test('of volumes loses only what is empty and of this server, and one of that name can be made again', async () => {
    const item = { ...service(), workload_kind: 'volume', spec: { type: 'volume' as const, volume: 'sp-data' } };
    await world.snapshot(item);
    await world.until('there', () => world.engine.volumes.get('sp-data') !== undefined, 5_000);
    await world.delta([], [item.id]);
    world.engine.volumes.ensure('sp-full', { [labels.server]: gone });
    world.engine.volumes.get('sp-full')!.files.set('/table', 'rows');
    // of an agent that only restarts, which never makes a volume again that it has made
    world.engine.volumes.ensure('sp-empty', { [labels.server]: gone });
    world.engine.volumes.ensure('foreign', {});
    expect(await checksOf('orphaned_volumes')).toMatchObject([{ status: 'warn', auto_fixable: true }]);
    expect(await heal('orphaned_volumes')).toMatchObject([
      { status: 'done', target: 'sp-data' },
      { status: 'skipped', target: 'sp-empty', message: expect.stringContaining('docker volume rm sp-empty') },
      { status: 'skipped', target: 'sp-full' },
    ]);
    expect(world.engine.volumes.list({}).map(({ name }) => name)).toEqual(['foreign', 'sp-empty', 'sp-full']);
    const again = { ...item, id: randomUUID() };
    await world.snapshot(again);
    await world.until('made again', () => world.engine.volumes.get('sp-data') !== undefined, 5_000);
    expect(world.report(again)?.error).toBeUndefined();
  });

  test('is healed safely by two requests at once', async () => {
    await world.snapshot();
    const stopped = await left(gone);
    const both = await Promise.all([heal('orphaned_containers'), heal('orphaned_containers')]);
    expect(both.flat()).toMatchObject([{ status: 'done', target: stopped.slice(0, 12) }]);
    expect(ids()).toEqual([]);
  });
});
