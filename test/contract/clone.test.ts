import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { applicationController } from '../../controllers/application/reconcile.ts';
import { environmentController } from '../../controllers/environment/reconcile.ts';
import { startControllers } from '../../controllers/runtime/manager.ts';
import { systemClock as clock } from '../../time/clock.ts';
import { copyIdOf } from '../../store/copying.ts';
import { startMirror } from '../../store/store-mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { openKeyring } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { Store } from '../../store/store.ts';
import { commit } from '../../store/unit.ts';
import { randomId } from '../harness/random-id.ts';
import { eventually } from '../harness/eventually.ts';
import { CountingStore } from '../harness/counting-store.ts';
import { backends } from './store-backends.ts';
import { desiredState } from '../harness/states.ts';

const tenant = 'acme';
const log = pino({ level: 'silent' });

/** The controllers that clone, over a store with a project, an environment in it and a server. */
async function shop(store: Store, cleanup: AsyncDisposableStack) {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-clone-'));
  cleanup.defer(() => rm(folder, { recursive: true }));
  // keys of its own, since tests share the store of a backend
  const keyStore = cleanup.use(await openSqlite({ path: ':memory:' }));
  const ring = await openKeyring({ path: join(folder, 'keys.json'), store: keyStore });
  const mirror = cleanup.use(startMirror({ store, clock, log }));
  await mirror.ready;
  const repo = openRepository(store, tenant, clock);
  const [project, source, clone, server] = [randomId(), randomId(), randomId(), randomId()];
  const first = repo.begin();
  first.create('project', project, desiredState('project'));
  first.create('environment', source, desiredState('environment', { project_id: project }));
  first.create(
    'server',
    server,
    desiredState('server', {
      name: `server ${server}`,
    }),
  );
  await commit(first);
  const place = { project_id: project, environment_id: source, server_id: server };
  const seal = (id: string, plain: string, name = 'TOKEN') =>
    ring.seal(plain, { tenant, kind: 'application', id, path: `config.env.${name}` });
  const start = async () => {
    await mirror.reached(await store.revision(), AbortSignal.timeout(10_000));
    cleanup.use(
      startControllers({
        store,
        mirror,
        clock,
        random: Math.random,
        log,
        registry: new Registry(),
        replica: 'one',
        controllers: [
          environmentController(ring),
          applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 }),
        ],
        background: [],
        strict: true,
        kinds: [],
      }),
    );
  };
  const beginClone = async () => {
    const unit = repo.begin();
    const clone_of = { environment_id: source, server_map: {}, complete: false };
    unit.create('environment', clone, desiredState('environment', { project_id: project, name: 'copy', clone_of }));
    await commit(unit);
  };
  return { ring, mirror, repo, clone, place, seal, start, beginClone };
}

describe.each(backends)('on $name', (backend) => {
  beforeAll(() => backend.start());
  afterAll(() => backend.stop());

  test('a clone ends as a copy of one revision of a source that changes all the time', async () => {
    await using rig = await backend.rig();
    const { store } = rig;
    await using cleanup = new AsyncDisposableStack();
    const { ring, mirror, repo, clone, place, seal, start, beginClone } = await shop(store, cleanup);
    const apps = Array.from({ length: 60 }, () => randomId());
    for (const id of apps) {
      const unit = repo.begin();
      const config = { env: { TOKEN: seal(id, `of ${id}`) }, restart_policy: 'always' } as const;
      unit.create('application', id, desiredState('application', { ...place, config }));
      await commit(unit);
    }
    await start();
    await beginClone();
    for (const [round, id] of apps.slice(0, 30).entries())
      await repo.change('application', id, (draft) => {
        draft.name = `${draft.name.slice(0, 60)} ${round}`;
        draft.config.env['TOKEN'] = seal(id, `new of ${id}`);
      });

    const view = mirror.tenant(tenant);
    await eventually(mirror, () => view.get('environment', clone)?.desired.clone_of?.complete === true, {
      timeoutMs: 20_000,
    });
    const copies = view.by('application', 'environment', clone);
    expect(copies.map(({ meta }) => meta.id).toSorted()).toEqual(apps.map((id) => copyIdOf(clone, id)).toSorted());
    const open = ({ meta, desired }: ReadonlyResource<'application'>) =>
      ring.unseal(desired.config.env['TOKEN']!, { tenant, kind: 'application', id: meta.id, path: 'config.env.TOKEN' });
    for (const copy of copies) {
      const { id } = copy.meta.copyOf!;
      const now = view.get('application', id)!;
      // the clone may have been complete before the last changes: what it copied was whole all the same
      const isLatest = now.meta.desiredRevision === copy.meta.copyOf!.revision;
      expect([`of ${id}`, `new of ${id}`]).toContain(open(copy));
      if (isLatest) expect([copy.desired.name, open(copy)]).toEqual([now.desired.name, open(now)]);
    }
    // at one revision the changes of earlier rounds were there and those of later ones not
    const isNew = apps.slice(0, 30).map((id) => open(view.get('application', copyIdOf(clone, id))!).startsWith('new'));
    expect(isNew.lastIndexOf(true)).toBeLessThan(isNew.includes(false) ? isNew.indexOf(false) : 30);
  });

  test('a clone of more than fits into one request of the store is copied in transactions that do', async () => {
    await using rig = await backend.rig();
    const store = new CountingStore(rig.store);
    await using cleanup = new AsyncDisposableStack();
    const { mirror, repo, clone, place, seal, start, beginClone } = await shop(store, cleanup);
    const names = Array.from({ length: 7 }, (_, n) => `V${n}`);
    for (let n = 0; n < 12; n++) {
      const id = randomId();
      const env = Object.fromEntries(names.map((name) => [name, seal(id, name.repeat(15 * 1024), name)]));
      const unit = repo.begin();
      unit.create(
        'application',
        id,
        desiredState('application', { ...place, config: { env, restart_policy: 'always' } }),
      );
      await commit(unit);
    }
    await start();
    store.reset();
    await beginClone();
    const view = mirror.tenant(tenant);
    await eventually(mirror, () => view.get('environment', clone)?.desired.clone_of?.complete === true, {
      timeoutMs: 20_000,
    });
    expect(view.by('application', 'environment', clone)).toHaveLength(12);
    // What etcd takes in one request unless told otherwise, guards included.
    expect(store.largestBytes).toBeLessThan(1.4 * 1024 * 1024);
    expect(store.largestBytes).toBeGreaterThan(500 * 1024);
  });
});
