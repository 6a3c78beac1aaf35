import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { engineOf } from '../../../agent/engine/engine.ts';
import type { Engine } from '../../../agent/engine/engine.ts';
import type { MockContainer } from '../../../agent/runtime/mock/mock-container.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { VolumeCopies } from '../../../agent/volumes/volume-copies.ts';
import { wait } from '../../../time/clock.ts';
import { AgentWorld } from '../agent-world.ts';
import { copied, name, original } from './items.ts';

const staged = `${name}-copy`;
const GiB = 1024 ** 3;

let world: AgentWorld;
beforeEach(async () => {
  world = await AgentWorld.create();
  world.engine.volumes.ensure(original, {});
  files(original).set('/rows', 'data of the blog');
});
afterEach(() => world[Symbol.asyncDispose]());

function files(volume: string): Map<string, string> {
  const found = world.engine.volumes.get(volume);
  if (found === undefined) throw new Error(`There is no volume ${volume}`);
  return found.files;
}

/** A container that no agent made, with the original mounted. */
async function writer(container = 'blog-db-1', readOnly = false): Promise<MockContainer> {
  world.engine.addImage('db:1', { local: true });
  const mounts = [{ type: 'volume', volume: original, path: '/var/lib', readOnly }] as const;
  const networks = [{ name: 'theirs', aliases: [] }] as const;
  const one = { name: container, image: 'db:1', labels: {}, env: {}, networks, mounts, restart: 'no' } as const;
  const made = await world.engine.foreign(one);
  await world.engine.start(made.id);
  return made;
}

const stop = (it: MockContainer): void => it.exit(0, { asked: true });

/** The mock engine, whose copies take 60 s unless `copier` says otherwise. */
async function slow(copier: (real: Engine['copier']) => Partial<Engine['copier']> = () => ({})): Promise<Engine> {
  const { clock, engine: mock, ports } = world;
  const engine = await engineOf({ type: 'mock', clock, engine: mock, ports });
  const real = engine.copier;
  return {
    ...engine,
    copier: {
      ...real,
      async copy(from, to, done, signal) {
        files(to).set('/half', 'half');
        done(7);
        await wait(clock, 30_000, signal);
        done(12);
        await wait(clock, 30_000, signal);
        files(to).clear();
        await real.copy(from, to, done, signal);
      },
      ...copier(real),
    },
  };
}

const isReady = (it: { id: string }) => () => world.report(it)?.ready === true;
const isCopying = (it: { id: string }) => () => world.report(it)?.progress?.done === 7;

describe('a volume that begins as a copy', () => {
  test('has all that its original has, which stays as it is', async () => {
    await world.start();
    const it = copied();
    await world.snapshot(it);
    await world.until('it is made', isReady(it));
    expect([...files(name)]).toEqual([['/rows', 'data of the blog']]);
    expect([...files(original)]).toEqual([['/rows', 'data of the blog']]);
    expect(world.engine.volumes.get(name)?.labels).toEqual({
      [labels.server]: world.server,
      [labels.tenant]: 'default',
    });
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original, name]);
  });

  test('waits while a container that can write to the original runs, and names it', async () => {
    await world.start();
    const [db, reader, it] = [await writer(), await writer('blog-backup-1', true), copied()];
    await world.snapshot(it);
    await world.until('it waits', () => world.report(it)?.error !== undefined);
    expect(world.report(it)).toMatchObject({
      phase: 'pending',
      ready: false,
      error: {
        code: 'copy_waits',
        message:
          'Docker volume blog_data is copied once nothing that runs can write to it. Stop blog-db-1: docker update --restart no blog-db-1 && docker stop blog-db-1. What a platform or a swarm started is stopped there',
      },
    });
    await world.pass(600_000, 1000);
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);
    stop(db);
    await world.until('it is made', isReady(it), 6_000);
    expect(reader.state).toBe('running');
    expect(files(name).get('/rows')).toBe('data of the blog');
  });

  test('shows how far it is, a few times a minute', async () => {
    await world.start({ engine: await slow() });
    const it = copied();
    const seen: unknown[] = [];
    world.agent.backend.onReport((id) => {
      if (id === it.id) seen.push(world.report(it)?.progress ?? world.report(it)?.phase);
    });
    await world.snapshot(it);
    await world.until('it is made', isReady(it), 70_000);
    expect(seen).toEqual([
      { step: 'copying' },
      { step: 'copying', done: 7, total: 16, unit: 'bytes' },
      { step: 'copying', done: 12, total: 16, unit: 'bytes' },
      { step: 'copying', done: 16, total: 16, unit: 'bytes' },
      'running',
    ]);
  });

  test('is copied again if a container that can write to the original was started meanwhile, or ran and went', async () => {
    await world.start({ engine: await slow() });
    const it = copied();
    await world.snapshot(it);
    await world.until('it copies', isCopying(it));
    const first = await writer();
    await world.pass(1_000);
    stop(first);
    await world.until('it waits', () => world.report(it)?.error?.code === 'copy_waits', 70_000);
    expect(world.report(it)?.error?.message).toMatch(/was written to while it was copied, and is copied again/);
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);

    await world.until('it copies again', isCopying(it), 12_000);
    files(original).set('/rows', 'of a container that was removed');
    await world.until('it waits', () => world.report(it)?.error?.code === 'copy_waits', 70_000);
    await world.until('it is made', isReady(it), 70_000);
    expect(files(name).get('/rows')).toBe('of a container that was removed');
  });

  test('waits for a container that was started during the copy and still runs', async () => {
    await world.start({ engine: await slow() });
    const it = copied();
    await world.snapshot(it);
    await world.until('it copies', isCopying(it));
    const db = await writer();
    await world.until('it waits', () => world.report(it)?.error?.code === 'copy_waits', 70_000);
    expect(world.report(it)?.error?.message).toContain('Stop blog-db-1: ');
    expect(world.engine.volumes.get(staged)).toBeUndefined();
    stop(db);
    await world.until('it is made', isReady(it), 70_000);
  });

  test.each([
    ['is not there', () => world.engine.volumes.remove(original), 'is not on the server'],
    [
      'is one of Setpoint',
      () => {
        world.engine.volumes.remove(original);
        world.engine.volumes.ensure(original, { [labels.server]: 'another' });
      },
      'was made by Setpoint',
    ],
  ])('is refused where the original %s', async (_, spoil, message) => {
    await world.start();
    spoil();
    const it = copied();
    await world.snapshot(it);
    await world.until('it is refused', () => world.report(it)?.error !== undefined);
    expect(world.report(it)?.error).toEqual({ code: 'copy_refused', message: expect.stringContaining(message) });
    expect(world.engine.volumes.get(name)).toBeUndefined();
  });

  test('is not begun without room for it, and says what there is', async () => {
    let freeBytes = 12 * GiB;
    const big = async (): Promise<{ bytes: number; mark: string }> => ({ bytes: 10 * GiB, mark: 'same' });
    const space = async () => ({ freeBytes, totalBytes: 100 * GiB });
    await world.start({
      engine: await slow((real) => ({ content: big, space, copy: (...call) => real.copy(...call) })),
    });
    const it = copied();
    await world.snapshot(it);
    await world.until('it is refused', () => world.report(it)?.error !== undefined);
    expect(world.report(it)).toMatchObject({
      phase: 'pending',
      error: {
        code: 'no_space',
        message:
          "Cannot copy Docker volume blog_data as it has 10.0 GiB, and of the 12.0 GiB that are free on the server's disk 5.0 GiB must stay free: free space on it",
      },
    });
    expect(world.engine.volumes.get(staged)).toBeUndefined();
    freeBytes = 16 * GiB;
    await world.until('it is made', isReady(it), 60_000);
  });

  test('ends when the disk becomes full meanwhile, and gives back what it took', async () => {
    let freeBytes = 50 * GiB;
    const space = async () => ({ freeBytes, totalBytes: 100 * GiB });
    await world.start({ engine: await slow(() => ({ space })) });
    const it = copied();
    await world.snapshot(it);
    await world.until('it copies', isCopying(it));
    freeBytes = 4 * GiB;
    await world.until('it fails', () => world.report(it)?.error?.code === 'no_space', 10_000);
    expect(world.engine.volumes.get(staged)).toBeUndefined();
    expect(world.engine.volumes.get(name)).toBeUndefined();
    freeBytes = 50 * GiB;
    await world.until('it is made', isReady(it), 90_000);
  });

  test('is told to have failed, whatever the error is, and is tried again less and less often', async () => {
    let tries = 0;
    const copy = async (): Promise<never> => {
      tries++;
      throw new TypeError('It is of an unknown form');
    };
    await world.start({ engine: await slow(() => ({ copy })) });
    const it = copied();
    await world.snapshot(it);
    await world.until('it fails', () => world.report(it)?.error !== undefined);
    expect(world.report(it)).toMatchObject({
      phase: 'pending',
      error: {
        code: 'copy_failed',
        message: 'The agent cannot copy Docker volume blog_data: It is of an unknown form',
      },
    });
    await world.pass(3_600_000, 1000);
    expect(tries).toBeGreaterThan(10);
    expect(tries).toBeLessThan(20);
  });

  test('is copied less and less often while something goes on writing to the original', async () => {
    let tries = 0;
    const content = async (): Promise<{ bytes: number; mark: string }> => ({ bytes: 16, mark: `${tries}` });
    await world.start({
      engine: await slow((real) => ({
        content,
        copy: async (...call) => {
          tries++;
          await real.copy(...call);
        },
      })),
    });
    const it = copied();
    await world.snapshot(it);
    await world.until('it waits', () => world.report(it)?.error?.code === 'copy_waits');
    await world.pass(3_600_000, 1000);
    expect(tries).toBeGreaterThan(10);
    expect(tries).toBeLessThan(20);
    const db = await writer();
    await world.until(
      'it names it',
      () => world.report(it)?.error?.message.includes('Stop blog-db-1') === true,
      301_000,
    );
    stop(db);
    const before = tries;
    await world.until('it is copied soon after its stop', () => tries > before, 6_000);
  });

  test.each(['content', 'copy'] as const)('fails if it does not end within a day, as its %s hangs', async (part) => {
    const { clock } = world;
    const hang = (signal: AbortSignal | undefined): Promise<never> =>
      new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
    const { runtime, copier } = await slow((real) => ({
      content: (volume, signal) => (part === 'content' ? hang(signal) : real.content(volume, signal)),
      copy: (_from, _to, _copied, signal) => hang(signal),
    }));
    const copies = new VolumeCopies({ runtime, copier, clock });
    const { signal } = new AbortController();
    let failure: unknown;
    const made = copies
      .make({ volume: name, from: original, labels: { [labels.server]: 'one' } }, () => undefined, {
        signal,
        closing: signal,
      })
      .catch((error: unknown) => {
        failure = error;
      });
    await clock.advance(24 * 3_600_000 - 10_000);
    expect(failure).toBeUndefined();
    expect(world.engine.volumes.get(staged)).toBeDefined();
    await clock.advance(10_000);
    await made;
    expect(failure).toMatchObject({
      code: 'copy_failed',
      message: 'Docker volume blog_data was not copied within 24 h: look at the load of the server and its disk',
    });
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);
    expect(clock.pending).toBe(0);
  });

  test('that is deleted meanwhile ends its copy and leaves nothing', async () => {
    await world.start({ engine: await slow() });
    const it = copied();
    await world.snapshot(it);
    await world.until('it copies', isCopying(it));
    await world.delta([{ ...it, generation: 2, run: 'stopped' }]);
    await world.until('it is removed', () => world.report(it)?.phase === 'stopped', 1_000);
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);
    await world.pass(120_000, 1000);
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);
  });

  test('whose item is dropped meanwhile leaves nothing either', async () => {
    await world.start({ engine: await slow() });
    const it = copied();
    await world.snapshot(it);
    await world.until('it copies', isCopying(it));
    await world.delta([], [it.id]);
    await world.until('it is gone', () => world.report(it)?.gone === true, 1_000);
    expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original]);
  });

  test.each(['before it is whole', 'once it is whole', 'in its place'])(
    'is made anew, or to its end, if the agent is killed %s',
    async (moment) => {
      const held = Promise.withResolvers<never>();
      let isHeld = false;
      const hold = (): Promise<never> => {
        isHeld = true;
        return held.promise;
      };
      await world.start({
        engine: await slow((real) => ({
          copy: (...call) => (moment === 'before it is whole' ? slowly(call[1]) : real.copy(...call)),
          move: async (...call) => {
            if (moment === 'in its place') await real.move(...call);
            return hold();
          },
        })),
      });
      const slowly = (to: string): Promise<never> => {
        files(to).set('/half', 'half');
        return hold();
      };
      const it = copied();
      await world.snapshot(it);
      await world.until('it is held', () => isHeld);
      world.abandon(() => held.reject(new Error('It was killed')));
      await world.start();
      await world.until('it is made', isReady(it));
      expect([...files(name)]).toEqual([['/rows', 'data of the blog']]);
      expect(world.engine.volumes.list({}).map((one) => one.name)).toEqual([original, name]);
    },
  );

  test('is never copied over what is in it, also without the record of it', async () => {
    await world.start();
    const it = copied();
    await world.snapshot(it);
    await world.until('it is made', isReady(it));
    files(name).set('/rows', 'written by its application');
    await world.stop();
    await rm(join(world.dir, 'volumes'));
    await world.start();
    await world.until('it is made', isReady(it));
    expect(files(name).get('/rows')).toBe('written by its application');
  });

  test('is a volume as any other once it is made', async () => {
    await world.start();
    const it = copied();
    await world.snapshot(it);
    await world.until('it is made', isReady(it));
    await world.delta([{ ...it, generation: 2, spec: { type: 'volume', volume: name } }]);
    await world.until('it is reported', () => world.report(it)?.generation === 2 && isReady(it)());
    world.engine.volumes.remove(name);
    await world.until('its loss is found', () => world.report(it)?.error?.code === 'data_lost', 120_000, 1000);
    expect(world.engine.volumes.get(name)).toBeUndefined();
  });

  test('is copied after another one, not with it', async () => {
    await world.start({ engine: await slow() });
    const [one, two] = [copied(), copied()];
    two.spec = { type: 'copied_volume', volume: `${name}-two`, copy_from: { docker_volume: original, containers: [] } };
    await world.snapshot(one, two);
    await world.until('one waits', () => [one, two].some((it) => world.report(it)?.error?.code === 'copy_waits'));
    await world.until('one copies', () => [one, two].some((it) => isCopying(it)()));
    await world.until('both are made', () => [one, two].every((it) => isReady(it)()), 200_000);
  });
});
