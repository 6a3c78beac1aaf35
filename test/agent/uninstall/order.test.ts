import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isUninstallOrdered } from '../../../agent/uninstall/order.ts';
import { AgentWorld, service } from '../agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const order = (): Promise<unknown> => world.agent.backend.call({ method: 'uninstall' }, new AbortController().signal);

/** Whether the agent is to be removed by now. */
async function isDismissed(): Promise<boolean> {
  return Promise.race([world.agent.dismissed.then(() => true), world.pass(0).then(() => false)]);
}

describe('the order to remove the agent', () => {
  test('is refused by an agent that does not run as an installed release', async () => {
    await world.start();
    await world.snapshot();
    await expect(order()).rejects.toMatchObject({ code: 'unsupported' });
  });

  test('is refused unless the control plane proved itself', async () => {
    const agent = await world.start({ isInstalled: true });
    await world.snapshot();
    agent.backend.trusts(false);
    await expect(order()).rejects.toMatchObject({ code: 'forbidden' });
    expect(await isUninstallOrdered(world.dir)).toBe(false);
  });

  test('waits for the set of the session, and until what it no longer has is removed', async () => {
    await world.start({ isInstalled: true });
    await world.until('the engine is seen', () => world.agent.backend.engine().version !== undefined);
    await world.pass(500);
    await expect(order()).rejects.toMatchObject({ code: 'busy' });
    const item = service();
    await world.snapshot(item);
    await world.until('it runs', () => world.container(item)?.state === 'running');
    await expect(order()).rejects.toMatchObject({ code: 'busy', message: 'It removes 1 instances' });
    await world.delta([], [item.id]);
    await expect(order()).rejects.toMatchObject({ code: 'busy' });
    await world.until('it is removed', () => world.report(item)?.gone === true);
    expect(await isUninstallOrdered(world.dir)).toBe(false);
    await expect(order()).resolves.toEqual({});
    expect(world.container(item)).toBeUndefined();
    expect(await isUninstallOrdered(world.dir)).toBe(true);
  });

  test('is answered again by an agent that took it, which goes after a minute by itself', async () => {
    await world.start({ isInstalled: true });
    await world.snapshot();
    await world.until('the engine is seen', () => world.agent.backend.engine().version !== undefined);
    await order();
    await expect(order()).resolves.toEqual({});
    expect(await isDismissed()).toBe(false);
    await world.pass(60_000, 1000);
    expect(await isDismissed()).toBe(true);
  });
});
