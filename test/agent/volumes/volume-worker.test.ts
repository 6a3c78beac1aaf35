import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WireAssignment } from '../../../agent-protocol/assignment.ts';
import { engineOf } from '../../../agent/engine/engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { AgentWorld } from '../agent-world.ts';
import { mounting, name, volume } from './items.ts';

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
  await world.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const isReady = (item: WireAssignment) => () => world.report(item)?.ready === true;

describe('a volume', () => {
  test('is made, and is what services mount, in one container after the other', async () => {
    const [data, user] = [volume(), mounting()];
    await world.snapshot(data, user);
    await world.until('the volume is there', isReady(data));
    await world.until('the service runs', isReady(user));
    const first = world.container(user)!;
    first.files.write('/data/a', 'kept');
    await world.delta([{ ...user, generation: 2, spec_hash: 'hash-2' }]);
    await world.until('replaced', () => isReady(user)() && world.container(user)?.id !== first.id);
    expect(world.container(user)?.files.read('/data/a')).toBe('kept');
  });

  test('is adopted by the next process of the agent, also without the record of it', async () => {
    const data = volume();
    await world.snapshot(data);
    await world.until('there', isReady(data));
    world.engine.volumes.get(name)?.files.set('/a', 'kept');
    await world.stop();
    await rm(join(world.dir, 'volumes'));
    await world.start();
    await world.until('there', isReady(data));
    expect(world.engine.volumes.get(name)?.files.get('/a')).toBe('kept');
  });

  test('that was removed from outside has lost its data, and is never made again as if nothing had been in it', async () => {
    const [data, user] = [volume(), mounting()];
    await world.snapshot(data);
    await world.until('there', isReady(data));
    world.engine.volumes.remove(name);
    await world.until('it is found', () => world.report(data)?.phase === 'failed', 120_000, 1000);
    expect(world.report(data)?.error).toEqual({
      code: 'data_lost',
      message:
        'The volume was removed from its server, and its data with it. Put it back from a copy, or delete it and create another one',
    });
    await world.stop();
    await world.start();
    await world.delta([user]);
    await world.pass(60_000, 500);
    expect(world.report(data)?.error?.code).toBe('data_lost');
    expect(world.engine.volumes.get(name)).toBeUndefined();
    expect(world.engine.containers).toEqual([]);
  });

  describe('that was put back by hand, without labels', () => {
    const lost = async (): Promise<WireAssignment> => {
      const data = volume();
      await world.snapshot(data);
      await world.until('there', isReady(data));
      world.engine.volumes.remove(name);
      await world.until('it is found', () => world.report(data)?.phase === 'failed', 120_000, 1000);
      return data;
    };
    const putBack = (): void => world.engine.volumes.ensure(name, {});

    test('is opened to its users, and what mounts it starts at once, however long it was away', async () => {
      const [data, user] = [await lost(), mounting()];
      await world.delta([user]);
      await world.until('the service fails', () => world.report(user)?.phase === 'failed');
      expect(world.report(user)?.error).toMatchObject({ code: 'data_lost' });
      await world.pass(1_200_000, 1000);
      putBack();
      await world.until('it is found', isReady(data), 6_000, 1000);
      expect(world.engine.journal).toContainEqual({ verb: 'openVolume', target: name });
      await world.until('the service runs', () => world.container(user)?.state === 'running', 2_000);
    });

    test('is removed when it is to stop, as the agent made a volume of that name before', async () => {
      const data = await lost();
      putBack();
      await world.delta([{ ...data, generation: 2, run: 'stopped' }]);
      await world.until('removed', () => world.report(data)?.phase === 'stopped');
      expect(world.engine.volumes.get(name)).toBeUndefined();
    });

    test('is opened by the next process of the agent, too', async () => {
      const data = await lost();
      await world.stop();
      putBack();
      await world.start();
      await world.snapshot(data);
      await world.until('it is found', isReady(data));
      expect(world.engine.journal).toContainEqual({ verb: 'openVolume', target: name });
    });
  });

  test('of another one, which the agent did not make, is not removed, and the report says what to do', async () => {
    const data = volume();
    world.engine.volumes.ensure(name, {});
    await world.snapshot({ ...data, run: 'stopped' });
    await world.until('it is refused', () => world.report(data)?.error !== undefined);
    expect(world.report(data)?.error).toEqual({
      code: 'name_taken',
      message: `Cannot remove volume ${name}: it was not made by an agent. If nothing else needs it, remove it on its server: docker volume rm ${name}`,
    });
    expect(world.engine.volumes.get(name)).toBeDefined();
  });

  test('stays with its data when its item is only dropped', async () => {
    const data = volume();
    await world.snapshot(data);
    await world.until('there', isReady(data));
    await world.delta([], [data.id]);
    await world.until('gone', () => world.report(data)?.gone === true);
    await world.stop();
    await world.start();
    await world.snapshot();
    await world.pass(10_000, 500);
    expect(world.engine.volumes.get(name)).toBeDefined();
  });

  test('is removed when it is to stop, once nothing mounts it', async () => {
    const [data, user] = [volume(), mounting()];
    await world.snapshot(data, user);
    await world.until('the service runs', isReady(user));
    await world.delta([{ ...data, generation: 2, run: 'stopped' }]);
    await world.until('it is in use', () => world.report(data)?.error?.code === 'in_use');
    expect(world.report(data)?.phase).toBe('stopping');
    expect(world.engine.volumes.get(name)).toBeDefined();
    await world.delta([], [user.id]);
    await world.until('removed', () => world.report(data)?.phase === 'stopped');
    expect(world.engine.volumes.get(name)).toBeUndefined();
    expect(world.report(data)?.error).toBeUndefined();
  });

  test('is not removed while a backup reads it', async () => {
    const { clock, engine, ports } = world;
    const mock = await engineOf({ type: 'mock', clock, engine, ports });
    let isBeingRead = true;
    await world.stop();
    await world.start({ engine: { ...mock, archiver: { ...mock.archiver, isRead: () => isBeingRead } } });
    const data = volume();
    await world.snapshot(data);
    await world.until('there', isReady(data));
    await world.delta([{ ...data, generation: 2, run: 'stopped' }]);
    await world.until('it is in use', () => world.report(data)?.error?.code === 'in_use');
    expect(engine.volumes.get(name)).toBeDefined();
    isBeingRead = false;
    await world.until('removed', () => world.report(data)?.phase === 'stopped', 10_000);
    expect(engine.volumes.get(name)).toBeUndefined();
  });

  test('that cannot be made, looked at or removed is tried again', async () => {
    const real = mockRuntime(world.engine);
    const refused = new RuntimeFailure('create_failed', 'The engine refuses it', { retryable: true });
    let refuses = true;
    const answered = <R>(call: () => Promise<R>): Promise<R> => (refuses ? Promise.reject(refused) : call());
    await world.stop();
    await world.start(
      {},
      {
        ...real,
        ensureVolume: (...call) => answered(() => real.ensureVolume(...call)),
        volume: (...call) => answered(() => real.volume(...call)),
        removeVolume: (...call) => answered(() => real.removeVolume(...call)),
      },
    );
    const data = volume();
    await world.snapshot(data);
    await world.until('the failure is reported', () => world.report(data)?.error?.message === refused.message);
    refuses = false;
    await world.until('it is made', isReady(data), 10_000);

    refuses = true;
    await world.until('the failure is reported', () => world.report(data)?.error !== undefined, 70_000, 500);
    expect(world.report(data)).toMatchObject({ phase: 'running', ready: true });
    refuses = false;
    await world.until('it was looked at', () => world.report(data)?.error === undefined, 10_000);

    refuses = true;
    await world.delta([{ ...data, generation: 2, run: 'stopped' }]);
    await world.until('the failure is reported', () => world.report(data)?.error !== undefined);
    expect(world.report(data)?.phase).toBe('stopping');
    refuses = false;
    await world.until('it is removed', () => world.report(data)?.phase === 'stopped', 10_000);
    expect(world.engine.volumes.get(name)).toBeUndefined();
  });

  test('that was removed as asked may be made anew', async () => {
    const data = volume();
    await world.snapshot(data);
    await world.until('there', isReady(data));
    await world.delta([{ ...data, generation: 2, run: 'stopped' }]);
    await world.until('removed', () => world.report(data)?.phase === 'stopped');
    await world.delta([{ ...data, generation: 3 }]);
    await world.until('there again', isReady(data));
    expect(world.engine.volumes.get(name)?.files.size).toBe(0);
  });
});
