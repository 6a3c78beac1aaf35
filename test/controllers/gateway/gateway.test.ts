import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { until } from '../../harness/until.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';

let world: GatewayWorld;
let replica: TestReplica;

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(() => world[Symbol.asyncDispose]());

describe('an agent that joins', () => {
  it('registers its key, gets its desired set and has its reports stored', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const backend = new FakeBackend();
    backend.onPut = running;
    await world.agent(replica, server, backend);

    await eventually(replica.mirror, () => {
      const it = replica.mirror.tenant(tenant).get('assignment', item.meta.id);
      expect(it?.observed).toMatchObject({ phase: 'running', ready: true, observedGeneration: 1 });
      expect(it?.observed?.conditions).toMatchObject([{ type: 'Ready', status: 'true' }]);
      return true;
    });
    const { desired } = (await world.repo.get('server', server.id))!;
    expect(desired.join_token_hash).toBeUndefined();
    expect(desired.agent_public_key).toBe((await world.identity({ id: server.id })).publicKey);
    expect(backend.retentionDays).toBe(7);
    expect(backend.ports).toEqual({ from: 1024, to: 65_535, reserved: [], own: [7070], bindings: [] });
    await until(
      'the token is forgotten',
      async () => (await world.identity({ id: server.id })).joinToken === undefined,
    );
  });

  it('has the progress of a running task stored once per change, and none with its result', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    const backend = new FakeBackend();
    const report = { ...running({ id: item.meta.id, generation: 1 }), ready: false, stable: false };
    backend.onPut = () => ({ ...report, phase: 'pending' });
    await world.agent(replica, server, backend);
    const view = replica.mirror.tenant(tenant);
    const observed = () => view.get('assignment', item.meta.id)?.observed;
    const progress = { step: 'building', done: 2, total: 7, unit: 'steps' };
    await eventually(replica.mirror, () => observed()?.phase === 'pending');
    backend.setReport({ ...report, progress });
    await eventually(replica.mirror, () => observed()?.progress !== undefined);
    expect(observed()?.progress).toEqual(progress);

    const before = await world.store.revision();
    backend.setReport({ ...report, progress: { ...progress } });
    backend.setReport({ ...report, phase: 'succeeded', progress });
    await eventually(replica.mirror, () => observed()?.phase === 'succeeded');
    expect(observed()).not.toHaveProperty('progress');
    expect((await world.store.revision()) - before).toBe(1);
  });

  it('is sent each change and confirms what is gone, whether it had it or not', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    backend.onPut = running;
    await world.agent(replica, server, backend);
    await world.connected(replica, server.id);
    const item = await world.assignment(server.id);
    const view = replica.mirror.tenant(tenant);
    await eventually(replica.mirror, () => view.get('assignment', item.meta.id)?.observed?.ready);

    await world.repo.change('assignment', item.meta.id, (draft) => {
      draft.run = 'stopped';
    });
    await eventually(replica.mirror, () => view.get('assignment', item.meta.id)?.observed?.observedGeneration === 2);
    expect(backend.items.get(item.meta.id)).toMatchObject({ generation: 2, run: 'stopped' });

    await world.delete('assignment', item.meta.id);
    await eventually(replica.mirror, () => view.get('assignment', item.meta.id) === undefined);
    expect(backend.items.size).toBe(0);

    const [begun, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const delta = backend.delta.bind(backend);
    backend.delta = async (...args) => {
      begun.resolve();
      await slow.promise;
      return delta(...args);
    };
    const other = await world.assignment(server.id);
    await begun.promise;
    const never = await world.assignment(server.id);
    await world.delete('assignment', never.meta.id);
    await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
    const before = backend.stored.length;
    slow.resolve();
    await eventually(replica.mirror, () => view.get('assignment', never.meta.id) === undefined);
    expect(backend.stored.slice(before)).toMatchObject([
      { put: [other.meta.id], drop: [] },
      { put: [], drop: [never.meta.id] },
    ]);
    expect(await world.repo.get('assignment', never.meta.id)).toBeUndefined();
    expect(view.get('assignment', other.meta.id)?.observed).toMatchObject({ phase: 'running', ready: true });
  });

  it('confirms what was to go while it was away, also what it never had', async () => {
    const server = await world.server();
    const item = await world.assignment(server.id);
    await world.delete('assignment', item.meta.id);
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await eventually(replica.mirror, () => replica.mirror.tenant(tenant).get('assignment', item.meta.id) === undefined);
    expect(await world.repo.get('assignment', item.meta.id)).toBeUndefined();
    expect(backend.stored).toMatchObject([{ ids: [] }, { put: [], drop: [item.meta.id] }]);
  });
});
