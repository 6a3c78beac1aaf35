import { expect, test } from 'vitest';
import { farewellLimits } from '../../controllers/server/farewell.ts';
import type { Machine } from '../harness/world.ts';
import { World } from '../harness/world.ts';

/** A server with an installed agent, on which an application runs, and a container of another program. */
async function serving() {
  const world = await World.create(5);
  world.startPlane();
  await world.until('the control plane leads', () => world.leading !== undefined);
  const machine = await world.addServer('one', {}, true);
  machine.engine.addImage('web:1', { runs: {} });
  const { data: project } = await world.must('POST', '/projects', { name: 'shop' });
  const { data: app } = await world.must('POST', '/applications', {
    project_id: project.id,
    server_id: machine.server,
    name: 'web',
    source_type: 'image',
    image_url: 'web:1',
  });
  await world.must('POST', `/applications/${app.id}/deploy`);
  await world.until('it runs', () => machine.engine.containers.some((it) => it.state === 'running'));
  await world.rest();
  return { world, machine, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const path = ({ server }: Machine): string => `/servers/${server}`;
const isGone = async (world: World, machine: Machine): Promise<boolean> =>
  (await world.call('GET', path(machine))).status === 404;

async function notified(world: World): Promise<{ kind: string; message: string }[]> {
  const { data } = await world.must('GET', '/notifications');
  return (data as { kind: string; message: string }[]).filter(({ kind }) => kind === 'server_agent_left');
}

test('a server with workloads is refused without force, and with it goes with its agent', async () => {
  await using it = await serving();
  const { world, machine } = it;
  expect((await world.call('DELETE', path(machine))).status).toBe(409);
  await world.must('DELETE', `${path(machine)}?force=true`);
  await world.until('it is gone', () => isGone(world, machine));
  await world.until('its agent is gone', () => machine.installation === 'gone', 5_000);
  expect(machine.engine.containers).toEqual([]);
  expect(await notified(world)).toEqual([]);
});

test('a server whose agent restarts is waited for, and goes with its agent', async () => {
  await using it = await serving();
  const { world, machine } = it;
  world.killAgent(machine);
  await world.must('DELETE', `${path(machine)}?force=true`);
  await world.pass(farewellLimits.silentMs - 20_000);
  expect(await isGone(world, machine)).toBe(false);
  const { data } = await world.must('GET', path(machine));
  expect(data.conditions).toContainEqual(
    expect.objectContaining({ type: 'Ready', reason: 'Deleting', message: expect.stringContaining('not connected') }),
  );
  world.startAgent(machine);
  await world.until('it is gone', () => isGone(world, machine), 30_000);
  await world.until('its agent is gone', () => machine.installation === 'gone', 5_000);
  expect(machine.engine.containers).toEqual([]);
  expect(await notified(world)).toEqual([]);
});

test('a server whose agent stays away goes without it, which is told; the agent that comes back is refused and waits', async () => {
  await using it = await serving();
  const { world, machine } = it;
  world.killAgent(machine);
  await world.must('DELETE', `${path(machine)}?force=true`);
  await world.until('it is gone', () => isGone(world, machine), farewellLimits.silentMs + 10_000);
  const [told, ...more] = await notified(world);
  expect(told?.message).toContain('install.sh | sh -s -- --uninstall');
  expect(more).toEqual([]);

  world.startAgent(machine);
  const refusals = (): number =>
    world.faults.filter((line) => line.includes('refuses this agent') && line.includes('unknown')).length;
  await world.until('the agent is refused', () => refusals() === 1);
  await world.pass(10 * 60_000);
  expect(refusals()).toBeLessThanOrEqual(5);
  expect(world.faults.at(-1)).toContain('setpoint-agent uninstall');
  expect(machine.installation).toBe('there');
  expect(machine.engine.containers).toHaveLength(1);
});
