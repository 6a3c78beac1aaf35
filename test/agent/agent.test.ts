import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { AgentWorld, nameOf, service } from './agent-world.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

describe('a service', () => {
  test('runs, becomes ready by its health check and stable ten seconds later', async () => {
    await world.start();
    const item = service({}, { port: 8080, health: { path: '/healthz' } });
    await world.snapshot(item);
    await world.until('ready', () => world.report(item)?.ready === true, 2_000);
    expect(world.report(item)).toMatchObject({ generation: 1, phase: 'running', ready: true, stable: false, restarts: 0 });
    await world.until('stable', () => world.report(item)?.stable === true, 11_000);
    expect(world.container(item)?.mutable.restart).toBe('unless-stopped');
    expect(world.engine.journal.filter(({ verb }) => verb === 'create')).toHaveLength(1);
  });
});
