import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { afterAll, beforeAll, expect, it, describe } from 'vitest';
import type { ApiObject } from '../../cli/client.ts';
import { CommandLine } from '../harness/command-line.ts';
import { instancesOf } from '../harness/engine.ts';
import { brief, Installation, onBothStores } from '../harness/installation.ts';
import { ensureTestImages } from '../harness/test-image.ts';

const Versioned = z.object({ resource_version: z.string() });
const Confirmed = z.object({ held: z.number() });

/** Runs a command beside the server, as its operator does. */
async function operate(argv: readonly string[]): Promise<void> {
  await using cli = await CommandLine.open();
  const { code, err } = await cli.run(argv);
  expect([code, err]).toEqual([0, '']);
}

/** The store as it is, to be put back as a whole, while something is written all the time. */
async function backup(town: Installation, write: () => Promise<unknown>): Promise<() => Promise<void>> {
  if (town.etcd !== undefined) {
    const { etcd } = town;
    const snapshot = await etcd.snapshot();
    return () => etcd.restore(snapshot);
  }
  const [data, copy] = [join(town.dir, 'server'), join(town.dir, 'backup.db')];
  let isWritten = false;
  const written = operate(['store', 'backup', copy, '--data', data]).finally(() => (isWritten = true));
  while (!isWritten) await write();
  await written;
  expect((await stat(copy)).mode & 0o777).toBe(0o600);
  return () => operate(['store', 'restore', copy, '--data', data]);
}

for (const { store, tags } of onBothStores)
  describe(`a store on ${store} that is put back, and has grown beyond since`, { tags }, () => {
    let town: Installation;
    let image: string;

    beforeAll(async () => {
      ({ http: image } = await ensureTestImages());
      town = await Installation.start({ store });
    });
    afterAll(() => town[Symbol.asyncDispose]());

    async function deployed(fields: object): Promise<ApiObject> {
      const app = await town.createApplication({ ...brief, source_type: 'image', image_url: image, ...fields });
      await town.deployment((await town.deploy(app.id)).id, 'succeeded');
      return app;
    }

    const scale = (app: ApiObject, replicas: number): Promise<unknown> =>
      town.client.request('POST', `/api/v1/applications/${app.id}/scale`, { replicas });

    const isUp = (app: ApiObject, count: number): Promise<unknown> =>
      town.until(`${count} instances are ready`, async () => {
        const it = await town.application(app.id);
        const ready = it.conditions?.find(({ type }) => type === 'Ready');
        return (
          it.status === 'running' && ready?.status === 'true' && (await instancesOf(app.id)).length === count && it
        );
      });

    const removalsHeld = async (): Promise<string | undefined> => {
      const server = await town.client.object('GET', `/api/v1/servers/${town.server.id}`);
      return server.conditions?.find(({ type, status }) => type === 'RemovalsHeld' && status === 'true')?.message;
    };

    /** Writes something, and answers how far the store is. */
    const write = async (n: number): Promise<number> => {
      const it = await town.client.object('PUT', `/api/v1/projects/${town.project.id}`, { description: `${n}` });
      return Number(Versioned.parse(it).resource_version);
    };

    it('removes nothing that is younger, before an operator confirms it, and takes anew what is made again', async () => {
      const old = await deployed({ replicas: 1 });
      const putBack = await backup(town, () => write(-1));
      const [young] = await Promise.all([deployed({ replicas: 1 }), scale(old, 3)]);
      await isUp(old, 3);
      const before = { old: (await instancesOf(old.id)).toSorted(), young: await instancesOf(young.id) };
      const reached = await write(0);

      // The agent is away while the store grows beyond all that it has seen.
      await town.agent.kill();
      await town.replicas[0]!.program.kill();
      await putBack();
      town.replicas[0]!.program.start();
      await town.ready();
      let n = 1;
      while ((await write(n)) <= reached + 20) n++;
      expect(n).toBeGreaterThan(10);
      town.agent.start();
      expect(await town.until('removals are held', removalsHeld)).toContain('3 of the instances');

      await scale(old, 3);
      await isUp(old, 3);
      expect((await instancesOf(old.id)).toSorted()).toEqual(before.old);
      expect(await instancesOf(young.id)).toEqual(before.young);

      const path = `/api/v1/servers/${town.server.id}/confirm-removals`;
      expect(Confirmed.parse(await town.client.request('POST', path))).toEqual({ held: 3 });
      await town.until('the younger one is gone', async () => (await instancesOf(young.id)).length === 0);
      await town.until('nothing is held', async () => (await removalsHeld()) === undefined);
      expect((await instancesOf(old.id)).toSorted()).toEqual(before.old);
    });
  });
