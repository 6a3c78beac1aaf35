import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applicationController } from '../../../controllers/application/reconcile.ts';
import { environmentController } from '../../../controllers/environment/reconcile.ts';
import { dataBackupId, dataRestoreId } from '../../../controllers/environment/data.ts';
import { copyIdOf } from '../../../store/copying.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import type { CommittableUnit, Unit } from '../../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { openKeyring } from '../../../store/seal.ts';
import type { Sealer, Transplanter, Unsealer } from '../../../store/seal.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { commit } from '../../../store/unit.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { createProject, id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig, RigOptions } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

let folder: string;
let ring: Sealer & Unsealer & Transplanter;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-clone-'));
  ring = await openKeyring({ path: join(folder, 'keys.json'), store: await openSqlite({ path: ':memory:' }) });
});
afterAll(() => rm(folder, { recursive: true }));

const [source, clone] = [id('source'), id('clone')];

async function write(rig: Rig, change: (unit: Unit) => void): Promise<void> {
  const unit = rig.repo.begin();
  change(unit);
  await commit(unit);
  await rig.rest();
}

/** A project with an environment, and so many applications in it on a server. */
async function shop(applications: number, options: RigOptions = {}): Promise<Rig> {
  const rig = await openRig({
    controllers: [
      environmentController(ring),
      applicationController({ unreadyGraceMs: 30_000, startDeadlineMs: 600_000 }),
    ],
    ...options,
  });
  const project = await createProject(rig.repo, 'shop');
  await write(rig, (unit) => {
    for (const name of ['one', 'two'])
      unit.create(
        'server',
        id(name),
        desiredState('server', {
          name,
        }),
      );
    unit.create('user', id('owner'), desiredState('user', { email: 'owner@example.test', role: 'superadmin' }));
    unit.create('environment', source, { project_id: project, name: 'production', type: 'production' });
  });
  for (let n = 0; n < applications; n += 1) await commit(create(rig, `web-${n}`));
  await rig.rest();
  return rig;
}

function create(rig: Rig, name: string): CommittableUnit {
  const unit = rig.repo.begin();
  const TOKEN = ring.seal(`secret of ${name} ✓\n`, {
    tenant,
    kind: 'application',
    id: id(name),
    path: 'config.env.TOKEN',
  });
  unit.create(
    'application',
    id(name),
    desiredState('application', {
      project_id: id('shop'),
      environment_id: source,
      server_id: id('one'),
      name,
      config: { env: { TOKEN }, restart_policy: 'always' },
    }),
    { labels: { tier: name } },
  );
  return unit;
}

function startClone(unit: Unit, of: string = clone, server_map = {}): void {
  unit.create('environment', of, {
    project_id: id('shop'),
    name: `clone ${of}`,
    type: 'staging',
    clone_of: { environment_id: source, server_map, complete: false },
  });
}

const ready = async (rig: Rig, of: string) =>
  (await rig.repo.get('environment', of))?.observed?.conditions.find(({ type }) => type === 'Ready');

const contentOf = (rig: Rig, environment: string) =>
  rig.mirror.tenant(tenant).by('application', 'environment', environment);

/** Every copy is what its source is, with secrets of its own; nothing else is there. */
function expectCopies(rig: Rig, of: string = clone): void {
  const sources = contentOf(rig, source);
  const copies = new Map(contentOf(rig, of).map((it) => [it.meta.id, it]));
  expect(copies.size).toBe(sources.length);
  for (const { meta, desired } of sources) {
    const copy = copies.get(copyIdOf(of, meta.id))!;
    expect(copy.desired).toMatchObject({ name: desired.name, run: 'stopped', environment_id: of });
    expect(copy.desired.internal_id).not.toBe(desired.internal_id);
    expect(copy.meta.labels).toEqual(meta.labels);
    expect(Object.keys(copy.desired.config.env)).toEqual(Object.keys(desired.config.env));
    for (const [name, value] of Object.entries(desired.config.env)) {
      const path = `config.env.${name}`;
      const place = { tenant, kind: 'application', path };
      const own = copy.desired.config.env[name]!;
      expect(ring.unseal(own, { ...place, id: copy.meta.id })).toBe(ring.unseal(value, { ...place, id: meta.id }));
      expect(own.$sealed).not.toBe(value.$sealed);
    }
  }
}

const isComplete = async (rig: Rig, of: string = clone) =>
  (await rig.repo.get('environment', of))?.desired.clone_of?.complete;

describe('an environment', () => {
  it('is ready as long as it lives, and settled', async () => {
    await using rig = await shop(1);
    expect(await ready(rig, source)).toMatchObject({ status: 'true', reason: 'Active' });
    const before = rig.store.committed;
    rig.controllers.resync();
    await rig.rest();
    expect(rig.store.committed).toBe(before);
  });

  it('that is deleted takes what is in it along', async () => {
    await using rig = await shop(3);
    const it = (await rig.repo.get('environment', source))!;
    await write(rig, (unit) => unit.requestDelete(it));
    expect(await rig.repo.get('environment', source)).toBeUndefined();
    expect(contentOf(rig, source)).toEqual([]);
  });
});

describe('a clone', () => {
  it('of an environment without anything in it is complete', async () => {
    await using rig = await shop(0);
    await write(rig, startClone);
    expect(await isComplete(rig)).toBe(true);
    expect(await ready(rig, clone)).toMatchObject({ status: 'true', reason: 'Active' });
  });

  it('counts what the mounts of its applications take of a transaction', async () => {
    await using rig = await shop(0);
    const place = { project_id: id('shop'), environment_id: source, server_id: id('one') };
    for (let n = 0; n < 7; n += 1) {
      const names = [0, 1, 2].map((m) => `data-${n}-${m}`);
      await write(rig, (unit) => {
        for (const name of names) unit.create('volume', id(name), desiredState('volume', { ...place, name }));
        const mounts = names.map((name) => ({ volume_id: id(name), path: `/${name}`, read_only: false }));
        const own = { ...place, name: `web-${n}`, host_name: `web-${n}`, mounts };
        unit.create('application', id(`web-${n}`), desiredState('application', own));
      });
    }
    await write(rig, startClone);
    expect(await ready(rig, clone)).toMatchObject({ status: 'true', reason: 'Active' });
    expect(contentOf(rig, clone).flatMap(({ desired }) => desired.mounts)).toHaveLength(21);
  });

  it('copies more than one transaction can, a batch each, and shows how far it is', async () => {
    await using rig = await shop(150);
    const seen: string[] = [];
    rig.mirror.subscribe(({ id: of, part, after }) => {
      const condition = after?.observed?.conditions.find(({ type }) => type === 'Ready');
      if (of === clone && part === 'observed') seen.push(`${condition?.reason}: ${condition?.message}`);
    });
    await write(rig, startClone);
    expect(await isComplete(rig)).toBe(true);
    expectCopies(rig);
    expect(seen[0]).toBe('Cloning: 0 of 150 objects are copied');
    expect(seen.at(-2)).toBe('Cloning: 150 of 150 objects are copied');
    expect(seen.at(-1)).toBe('Active: Ready for use');
    expect(seen.length).toBeGreaterThan(10);
    const before = rig.store.committed;
    rig.controllers.resync();
    await rig.rest();
    expect(rig.store.committed).toBe(before);
  });

  it('has its copies on the servers that it is given', async () => {
    await using rig = await shop(2);
    await write(rig, (unit) => startClone(unit, clone, { [id('one')]: id('two') }));
    expect(contentOf(rig, clone).map(({ desired }) => desired.server_id)).toEqual([id('two'), id('two')]);
    expect(contentOf(rig, source).map(({ desired }) => desired.server_id)).toEqual([id('one'), id('one')]);
  });

  it('is no longer tied to its source once it is complete', async () => {
    await using rig = await shop(2);
    await write(rig, startClone);
    await commit(create(rig, 'later'));
    const it = (await rig.repo.get('application', id('web-0')))!;
    await write(rig, (unit) => unit.requestDelete(it));
    expect(contentOf(rig, source).map(({ desired }) => desired.name)).toEqual(['web-1', 'later']);
    expect(new Set(contentOf(rig, clone).map(({ desired }) => desired.name))).toEqual(new Set(['web-0', 'web-1']));
    const left = (await rig.repo.get('environment', source))!;
    await write(rig, (unit) => unit.requestDelete(left));
    expect(await rig.repo.get('environment', source)).toBeUndefined();
    expect(contentOf(rig, clone)).toHaveLength(2);
  });

  it('may be one of several of one source at once', async () => {
    await using rig = await shop(30);
    const twin = id('twin');
    await Promise.all([clone, twin].map((of) => write(rig, (unit) => startClone(unit, of))));
    expect([await isComplete(rig, clone), await isComplete(rig, twin)]).toEqual([true, true]);
    expectCopies(rig, clone);
    expectCopies(rig, twin);
  });

  /** Does something to the source at the `at`-th transaction of the clone. */
  async function disturbed(applications: number, at: number, disturb: (rig: Rig) => Promise<void>): Promise<Rig> {
    let faulty: FaultyStore | undefined;
    const rig = await shop(applications, { wrap: (store) => (faulty = new FaultyStore(store)) });
    const now = faulty!.transactions;
    faulty!.at(now + at, () => disturb(rig));
    await write(rig, startClone);
    await rig.rest();
    return rig;
  }

  const changes: [string, (rig: Rig) => Promise<void>][] = [
    [
      'an application is changed',
      async (rig) => {
        await rig.repo.change('application', id('web-0'), (draft) => void (draft.replicas = 7));
      },
    ],
    ['an application is added', async (rig) => void (await commit(create(rig, 'late')))],
    [
      'an application is deleted',
      async (rig) => {
        const unit = rig.repo.begin();
        unit.requestDelete((await rig.repo.get('application', id('web-3')))!);
        await commit(unit);
      },
    ],
    [
      'two applications swap their names',
      async (rig) => {
        const unit = rig.repo.begin();
        const [one, two] = [
          (await rig.repo.get('application', id('web-0')))!,
          (await rig.repo.get('application', id('web-24')))!,
        ];
        unit.change(one as ReadonlyResource<'application'>, (draft) => void (draft.name = 'web-24'));
        unit.change(two as ReadonlyResource<'application'>, (draft) => void (draft.name = 'web-0'));
        await commit(unit);
      },
    ],
    [
      'a secret is changed',
      async (rig) => {
        const place = { tenant, kind: 'application', id: id('web-0'), path: 'config.env.TOKEN' };
        await rig.repo.change(
          'application',
          id('web-0'),
          (draft) => void (draft.config.env['TOKEN'] = ring.seal('new', place)),
        );
      },
    ],
  ];

  it.each(changes)('equals one state of its source in the end though %s meanwhile', async (_, change) => {
    for (const at of [1, 2, 3, 4, 6]) {
      await using rig = await disturbed(25, at, change);
      expect(await isComplete(rig)).toBe(true);
      expectCopies(rig);
      const sources = new Map(contentOf(rig, source).map(({ meta }) => [meta.id, meta.desiredRevision]));
      for (const { meta } of contentOf(rig, clone)) expect(sources.get(meta.copyOf!.id)).toBe(meta.copyOf!.revision);
    }
  });

  it('goes with what it has when its source is deleted meanwhile, and says why', async () => {
    for (const at of [1, 2, 3, 4]) {
      await using rig = await disturbed(25, at, async ({ repo }) => {
        const unit = repo.begin();
        unit.requestDelete((await repo.get('environment', source))!);
        await commit(unit);
      });
      expect(await rig.repo.get('environment', clone)).toBeUndefined();
      expect(contentOf(rig, clone)).toEqual([]);
      const events = readEvents(rig.mirror.key(keys.events(tenant, 'project', id('shop')))?.value);
      expect(events).toEqual([expect.objectContaining({ type: 'warning', reason: 'SourceDeleted' })]);
      const [notification] = rig.mirror.tenant(tenant).list('notification');
      expect(notification?.desired.message).toContain('is removed, as its source was deleted');
    }
  });

  it('goes when the server of a copy is deleted meanwhile', async () => {
    await using rig = await disturbed(25, 2, async ({ repo }) => {
      const unit = repo.begin();
      unit.requestDelete((await repo.get('server', id('one')))!);
      await commit(unit);
    });
    expect(await rig.repo.get('environment', clone)).toBeUndefined();
    expect(contentOf(rig, clone)).toEqual([]);
  });

  it('stays incomplete, and says so, as long as a secret does not open', async () => {
    await using rig = await shop(0);
    const unit = create(rig, 'broken');
    await commit(unit);
    const foreign = ring.seal('x', {
      tenant: 'other',
      kind: 'application',
      id: id('broken'),
      path: 'config.env.TOKEN',
    });
    await rig.repo.change('application', id('broken'), (draft) => void (draft.config.env['TOKEN'] = foreign));
    const building = rig.repo.begin();
    startClone(building);
    await commit(building);
    await rig.rest();
    expect(await isComplete(rig)).toBe(false);
    expect(contentOf(rig, clone)).toEqual([]);
    expect((await rig.repo.get('environment', clone))?.observed?.conditions).toEqual([
      expect.objectContaining({ type: 'Ready', status: 'false', reason: 'Cloning' }),
      expect.objectContaining({
        type: 'Reconciling',
        message:
          'Cannot copy application broken as one of its secrets cannot be decrypted: restore the key file, or set the secret again',
      }),
    ]);
    await rig.repo.change('application', id('broken'), (draft) => void (draft.config.env = {}));
    await rig.clock.advance(60_000);
    await rig.rest();
    expect(await isComplete(rig)).toBe(true);
  });

  it('waits, and says so, as long as a database has no volume that is copied', async () => {
    await using rig = await shop(0);
    const place = { project_id: id('shop'), environment_id: source, server_id: id('one') };
    await write(rig, (unit) => {
      unit.create(
        'database',
        id('orders'),
        desiredState('database', { ...place, name: 'orders', data_volume_id: id('data'), run: 'running' }),
      );
      startClone(unit);
    });
    expect(await isComplete(rig)).toBe(false);
    const shown = (await rig.repo.get('environment', clone))?.observed?.conditions;
    expect(shown?.find(({ type }) => type === 'Reconciling')?.message).toContain(
      'Cannot copy database orders as its data_volume_id leads to nothing that is copied',
    );
    await write(rig, (unit) =>
      unit.create('volume', id('data'), desiredState('volume', { ...place, database_id: id('orders') })),
    );
    await rig.clock.advance(60_000);
    await rig.rest();
    expect(await isComplete(rig)).toBe(true);
    const copy = await rig.repo.get('database', copyIdOf(clone, id('orders')));
    expect(copy?.desired).toMatchObject({ data_volume_id: copyIdOf(clone, id('data')), run: 'running' });
  });

  it.each(['fail-before-commit', 'lose-answer'] as const)(
    'ends the same whichever transaction has the fault %s',
    async (fault) => {
      for (let at = 1; at <= 9; at += 1) {
        let faulty: FaultyStore | undefined;
        await using rig = await shop(25, { wrap: (store) => (faulty = new FaultyStore(store)) });
        faulty!.at(faulty!.transactions + at, fault);
        await write(rig, startClone);
        await rig.clock.advance(60_000);
        await rig.rest();
        expect(await isComplete(rig)).toBe(true);
        expectCopies(rig);
      }
    },
  );
});

describe('the data of a clone', () => {
  const copy = copyIdOf(clone, id('notes'));
  const backupId = dataBackupId(clone, id('notes'));
  const restoreId = dataRestoreId(clone, id('notes'));

  /** A clone with data of an environment with one volume; its copy is there, unless told otherwise. */
  async function withData(rig: Rig, isThere = true): Promise<void> {
    await write(rig, (unit) => {
      unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
      const place = { project_id: id('shop'), environment_id: source, server_id: id('one') };
      unit.create('volume', id('notes'), desiredState('volume', { ...place, name: 'notes' }));
    });
    await write(rig, (unit) => {
      unit.create('environment', clone, {
        project_id: id('shop'),
        name: 'copy',
        type: 'staging',
        clone_of: {
          environment_id: source,
          server_map: {},
          complete: false,
          data: { destination_id: id('store'), total: 0, failed: [] },
        },
      });
    });
    if (isThere) await observed(rig, 'volume', copy, { phase: 'available' });
  }

  async function observed(rig: Rig, kind: 'volume' | 'backup' | 'restore', of: string, seen: object): Promise<void> {
    const it = (await rig.repo.get(kind, of))!;
    await rig.repo.observe(it, { ...(seen as { phase: 'pending' }), observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
  }

  const shown = async (rig: Rig) => {
    const conditions = (await rig.repo.get('environment', clone))?.observed?.conditions ?? [];
    return conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`);
  };

  it('comes by a backup of each source, which is restored beside what the copy has, and goes then', async () => {
    await using rig = await shop(0);
    await withData(rig);
    expect(await isComplete(rig)).toBe(true);
    expect(await ready(rig, clone)).toMatchObject({
      reason: 'CopyingData',
      message: 'All objects are copied, and data of 0 of 1 databases and volumes',
    });
    const backup = await rig.repo.get('backup', backupId);
    expect(backup?.desired).toMatchObject({
      of: { kind: 'volume', id: id('notes') },
      destination_id: id('store'),
      clone_id: clone,
    });
    expect(await rig.repo.get('restore', restoreId)).toBeUndefined();
    await observed(rig, 'backup', backupId, { phase: 'completed' });
    const restore = await rig.repo.get('restore', restoreId);
    expect(restore?.desired).toMatchObject({
      backup_id: backupId,
      of: { kind: 'volume', id: copy },
      place: { environment_id: clone },
      clone_id: clone,
    });
    const beside = restore!.desired.volume_id;
    expect((await rig.repo.get('volume', beside))?.desired.environment_id).toBe(clone);
    // a restore of a user that is asked for at once finds another version
    expect((await rig.repo.get('volume', copy))?.desired.restore_token).toBe(beside);
    await observed(rig, 'restore', restoreId, { phase: 'completed' });
    expect(await shown(rig)).toEqual(expect.arrayContaining(['Ready true Active', 'DataCopied true Copied']));
    expect((await rig.repo.get('backup', backupId))?.meta.deletionRequestedAt).toBeDefined();
    const before = rig.store.committed;
    rig.controllers.resync();
    await rig.rest();
    expect(rig.store.committed).toBe(before);
  });

  it('that cannot be copied is told and shown, and the clone is ready without', async () => {
    await using rig = await shop(0);
    await withData(rig);
    await observed(rig, 'backup', backupId, { phase: 'failed', error: { code: 'x', message: 'The bucket is full' } });
    expect(await shown(rig)).toEqual(expect.arrayContaining(['Ready true Active', 'DataCopied false NotCopied']));
    const told = rig.mirror.tenant(tenant).list('notification');
    expect(told.map(({ desired }) => [desired.type, desired.message])).toEqual([
      ['clone_data_failed', 'volume notes: The bucket is full'],
    ]);
  });

  const failures = async (rig: Rig) => (await rig.repo.get('environment', clone))?.desired.clone_of?.data?.failed;

  it.each([
    ['a restore of somebody', {}, ['volume notes: Something else was restored into its copy, and stays there']],
    ['a drill', { is_drill: true as const }, []],
  ])('goes over nothing that somebody brought there: %s', async (_, fields, failed) => {
    await using rig = await shop(0);
    await withData(rig);
    await write(rig, (unit) =>
      unit.create(
        'restore',
        id('other'),
        desiredState('restore', { project_id: id('shop'), of: { kind: 'volume', id: copy }, ...fields }),
      ),
    );
    await observed(rig, 'restore', id('other'), { phase: 'completed' });
    await observed(rig, 'backup', backupId, { phase: 'completed' });
    expect(await failures(rig)).toEqual(failed);
    expect((await rig.repo.get('restore', restoreId)) === undefined).toBe(failed.length > 0);
  });

  it('waits for its copy to be on its server, says so, and is given up after a day', async () => {
    await using rig = await shop(0);
    await withData(rig, false);
    const almost = rig.clock.now().getTime() - 24 * 60 * 60_000 + 90_000;
    await observed(rig, 'backup', backupId, { phase: 'completed', finished_at: new Date(almost).toISOString() });
    expect((await ready(rig, clone))?.message).toBe(
      'All objects are copied, and data of 0 of 1 databases and volumes. It waits for volume notes to be on its server',
    );
    await rig.clock.advance(3 * 60_000);
    await rig.rest();
    expect(await failures(rig)).toEqual(['volume notes: Its copy was not on its server within a day']);
  });

  it('is given up with the clone', async () => {
    await using rig = await shop(0);
    await withData(rig);
    const it = (await rig.repo.get('environment', clone))!;
    await write(rig, (unit) => unit.requestDelete(it));
    expect((await rig.repo.get('backup', backupId))?.meta.deletionRequestedAt).toBeDefined();
  });
});
