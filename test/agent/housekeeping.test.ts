import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { engineOf } from '../../agent/engine/engine.ts';
import { noSteps } from '../../agent/ports/step-guard.ts';
import { imagePolicy } from '../../agent/engine/image-collector.ts';
import type { HealAction } from '../../agent-protocol/diagnosis.ts';
import { AgentWorld, service } from './agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const minute = 60_000;
const here = (): string[] =>
  ['registry.test/web:1', 'registry.test/web:2', 'registry.test/web:3', 'registry.test/web:4'].filter(
    (name) => world.engine.imageInfo(name) !== undefined,
  );

/** An agent that ran four revisions of an application, one after the other, on a disk that they fill. */
async function ranFour() {
  for (let n = 1; n <= 4; n++) {
    const digest = `registry.test/web@sha256:${String(n).repeat(64)}`;
    world.engine.addImage(`registry.test/web:${n}`, { digest });
  }
  let isFull = false;
  await world.start({
    disk: async () => ({ freeBytes: isFull ? (5 - here().length) * 1e9 : 50e9, totalBytes: 100e9 }),
  });
  let item = service({}, { image: 'registry.test/web:1' });
  await world.snapshot(item);
  for (let n = 1; n <= 4; n++) {
    if (n > 1) {
      const next = service({ workload_id: item.workload_id }, { image: `registry.test/web:${n}` });
      await world.delta([next], [item.id]);
      item = next;
    }
    await world.until(`revision ${n} runs`, () => world.container(item)?.state === 'running');
  }
  const digests = [4, 3, 2].map((n) => `registry.test/web@sha256:${String(n).repeat(64)}`);
  world.agent.backend.keepImages({ [item.workload_id]: digests }, true);
  return { item, fill: () => void (isFull = true) };
}

test('an almost full disk loses what no revision needs within a minute, and the last three revisions stay', async () => {
  const { fill } = await ranFour();
  world.engine.addImage('foreign:1', { local: true });
  await world.pass(imagePolicy.leastAgeMs + minute, 10_000);
  expect(here()).toHaveLength(4);
  fill();
  await world.pass(minute + 1000, 1000);
  expect(here()).toEqual(['registry.test/web:2', 'registry.test/web:3', 'registry.test/web:4']);
  expect(world.engine.imageInfo('foreign:1')).toBeDefined();
  expect(world.agent.backend.load()).toMatchObject({ images_removed: 1, images_freed_bytes: 1e9 });
});

test('healing the disk removes them, and tells how many', async () => {
  const { fill } = await ranFour();
  await world.pass(imagePolicy.leastAgeMs + minute, 10_000);
  fill();
  const never = new AbortController().signal;
  const healing = world.agent.backend.call({ method: 'heal', checks: ['disk'] }, never) as Promise<{
    actions: HealAction[];
  }>;
  let actions: HealAction[] | undefined;
  void healing.then((answer) => (actions = answer.actions));
  await world.until('it is healed', () => actions !== undefined, 30_000);
  expect(actions).toMatchObject([
    { check: 'disk', status: 'done', message: expect.stringContaining('Removed 1 images') },
  ]);
  expect(here()).toHaveLength(3);
});

test('an almost full disk loses the clones of repositories, and a deleted project its own', async () => {
  const cleared: string[] = [];
  const retained: string[][] = [];
  const clones = {
    clear: async () => void cleared.push('all'),
    retain: async (projects: ReadonlySet<string>) => void retained.push([...projects]),
  };
  let isFull = false;
  await world.start({ clones, disk: async () => ({ freeBytes: isFull ? 1e9 : 50e9, totalBytes: 100e9 }) });
  const item = service();
  await world.snapshot(item);
  await world.pass(60 * minute, minute);
  expect(retained.at(-1)).toEqual([item.project_id]);
  expect(cleared).toEqual([]);
  isFull = true;
  await world.pass(minute + 1000, 1000);
  expect(cleared).not.toEqual([]);
});

test('rules that a killed agent left of its builds go soon after the start', async () => {
  const { clock, engine, ports } = world;
  let swept = 0;
  const steps = { ...noSteps, sweep: async () => void (swept += 1) };
  await world.start({ engine: { ...(await engineOf({ type: 'mock', clock, engine, ports })), steps } });
  expect(swept).toBe(0);
  await world.pass(6000, 1000);
  expect(swept).toBe(1);
});

test('a deleted workload loses its log, if the control plane that says so has proved itself', async () => {
  await world.start();
  const item = service();
  const workload = randomUUID();
  await world.snapshot(item);
  await world.agent.backend.call(
    { method: 'build.note', workload, instance: randomUUID(), lines: ['Cloning'] },
    new AbortController().signal,
  );
  const logs = () => readdirSync(join(world.dir, 'logs'));
  await world.until('it is written', () => logs().includes(workload));
  const { backend } = world.agent;
  backend.trusts(false);
  backend.keepLogs({ whole: true, more: false, workloads: { [item.workload_id]: {} } });
  backend.keepLogs({ whole: false, more: false, workloads: { [workload]: null } });
  await world.pass(180 * minute, minute);
  expect(logs()).toContain(workload);
  backend.trusts(true);
  backend.keepLogs({ whole: false, more: false, workloads: { [workload]: null } });
  await world.until('it is gone', () => !logs().includes(workload), 10_000, 1000);
});
