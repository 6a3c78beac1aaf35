import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { kindsIn } from '../../store/objects-in.ts';
import { resources } from '../../api/resources/resources.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { InterruptibleStore } from '../harness/interruptible-store.ts';
import { seeded } from '../harness/seeded.ts';
import { desiredState } from '../harness/states.ts';
import { longTag } from '../layer-report.ts';

const unlimited = { perMinute: 0, burst: 1 };

let store: InterruptibleStore;
let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited },
    wrap: (inner) => (store = new InterruptibleStore(inner)),
  });
  owner = await world.owner();
  await world.create('template', template, desiredState('template'));
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

interface Place {
  project: string;
  environment: string;
  server: string;
}

/** What may be deleted without force only while nothing is in it. */
const parents = {
  environment: ({ project, environment }: Place) => `/projects/${project}/environments/${environment}`,
  server: ({ server }: Place) => `/servers/${server}`,
} as const;
const places = ['environment', 'server'] as const;

const template = crypto.randomUUID();

/** How a user makes an object of each kind that environments and servers hold. */
const creations = {
  application: { path: '/applications', fields: { source_type: 'image', image_url: 'ghcr.io/example/web:1' } },
  volume: { path: '/volumes', fields: {} },
  database: { path: '/databases', fields: { type: 'redis' } },
  template_instance: { path: `/templates/${template}/instantiate`, fields: {} },
  function: { path: '/functions', fields: { runtime: 'node20', code: 'export default () => new Response()' } },
} as const satisfies Partial<Record<KindName, { path: string; fields: object }>>;
type Created = keyof typeof creations;
const cases = places.flatMap((kind) =>
  (Object.keys(creations) as Created[]).map((created) => [kind, created] as const),
);

const races = [
  { rounds: 20, tags: [] },
  { rounds: 200, tags: [longTag] },
];

let count = 0;
let objects = 0;

/** Places in one project: the number of projects is bounded. */
const placesPerProject = 10;
let project = '';

/** An environment of a project that is not its default, and a server. Nothing is in them. */
async function place(): Promise<Place> {
  count += 1;
  if (count % placesPerProject === 1) project = (await owner.post('/projects', { name: `project-${count}` })).data.id;
  const made = await owner.post(`/projects/${project}/environments`, { name: `stage-${count}` });
  const server = crypto.randomUUID();
  await world.create('server', server, desiredState('server', { name: `server-${count}` }));
  return { project, environment: made.data.id, server };
}

function createIn(kind: Created, { project, environment, server }: Place): Promise<Answer> {
  const { path, fields } = creations[kind];
  const place = { project_id: project, environment_id: environment, server_id: server };
  return owner.post(path, { ...place, ...fields, name: `${kind}-${(objects += 1)}` });
}

async function isDeleting(kind: (typeof places)[number], at: Place): Promise<boolean> {
  const it = await world.repo.get(kind, at[kind]);
  return it?.meta.deletionRequestedAt !== undefined;
}

/** Runs once, before the next transaction that writes the key. */
function beforeWriteOf(key: string, run: () => Promise<void>): void {
  store.beforeTxn = async (txn) => {
    if (!txn.then.some((write) => 'put' in write && write.put === key)) return;
    store.beforeTxn = undefined;
    await run();
  };
}

it('every kind that environments hold is made here', () => {
  // another file of this process may have added kinds that the API does not serve
  const served = kindsIn('environment').filter((kind) => !('never' in resources[kind]));
  expect(Object.keys(creations), 'Say in `creations` of this file how each kind is made').toEqual(served);
});

describe.each(cases)(
  'a deletion of a place without force, of the kind %s, from which an object of the kind %s is kept',
  (kind, held) => {
    it('is refused when an object comes into it between the look and the commit', async () => {
      const at = await place();
      let created: Answer | undefined;
      beforeWriteOf(keys.desired('default', kind, at[kind]), async () => {
        created = await createIn(held, at);
      });
      const deleted = await owner.delete(parents[kind](at));
      expect(created?.status).toBe(201);
      expect(deleted.status).toBe(409);
      expect(deleted.body.error?.message).toMatch(/resources|workloads/);
      expect(await isDeleting(kind, at)).toBe(false);
    });

    it('lets no object in that had looked before', async () => {
      const at = await place();
      let deleted: Answer | undefined;
      beforeWriteOf(keys.population('default', kind, at[kind]), async () => {
        deleted = await owner.delete(parents[kind](at));
      });
      const created = await createIn(held, at);
      expect(deleted?.status).toBe(200);
      expect(created.status).toBe(409);
      expect(await isDeleting(kind, at)).toBe(true);
    });

    for (const { rounds, tags } of races)
      it(`takes no object along that was answered with 201, in ${rounds} races`, { tags }, async () => {
        const { uniform } = seeded(7);
        // each transaction is held for some turns, so that either may be decided long before it is sent
        store.beforeTxn = async () => {
          for (let turns = Math.floor(uniform() * 12); turns > 0; turns -= 1) await nextTurn();
        };
        for (let round = 0; round < rounds; round += 1) {
          const at = await place();
          const both: [() => Promise<Answer>, () => Promise<Answer>] = [
            () => createIn(held, at),
            () => owner.delete(parents[kind](at)),
          ];
          // whichever is sent first
          const [first, second] = round % 2 === 0 ? both : both.toReversed();
          const answers = await Promise.all([first?.(), second?.()]);
          const [created, deleted] = round % 2 === 0 ? answers : answers.toReversed();
          expect([
            [201, 409],
            [409, 200],
          ]).toContainEqual([created?.status, deleted?.status]);
          expect(await isDeleting(kind, at)).toBe(deleted?.status === 200);
        }
        store.beforeTxn = undefined;
      });

    it('succeeds once the objects are gone', async () => {
      const at = await place();
      const { data } = await createIn(held, at);
      expect((await owner.delete(parents[kind](at))).status).toBe(409);
      const it = await world.repo.get(held, data.id);
      const unit = world.repo.begin();
      unit.requestDelete(it!);
      for (const finalizer of it!.meta.finalizers) unit.release(it!, finalizer);
      for (const volume of world.mirror.tenant('default').by('volume', 'database', data.id)) {
        unit.requestDelete(volume);
        for (const finalizer of volume.meta.finalizers) unit.release(volume, finalizer);
      }
      expect(await unit.commit()).toMatchObject({ committed: true });
      expect((await owner.delete(parents[kind](at))).status).toBe(200);
    });
  },
);
