import { pino } from 'pino';
import { judge } from '../../../controllers/garbage/verdict.ts';
import { EventRecorder } from '../../../controllers/runtime/events.ts';
import { Notifier } from '../../../controllers/runtime/notify.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { createProject, id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { day, from, second, upTo } from './row.ts';
import type { Rows } from './row.ts';
import { aUser, openTerm, overriding, writeMany } from './scenes.ts';

const log = pino({ level: 'silent' });

interface Recording {
  rig: Rig;
  recorder: EventRecorder;
  it: ReadonlyResource;
  dropped: () => number;
  stored: () => ReturnType<typeof readEvents>;
}

/** Events of a project and of others like it. */
async function recording<T>(then: (given: Recording) => Promise<T>): Promise<T> {
  await using rig = await openRig();
  const of = await createProject(rig.repo, 'one');
  await rig.rest();
  let dropped = 0;
  await using recorder = new EventRecorder({
    store: rig.store,
    mirror: rig.mirror,
    clock: rig.clock,
    log,
    guards: () => [],
    onDropped: () => dropped++,
    onWritten: () => undefined,
  });
  const it = rig.mirror.tenant(tenant).get('project', of);
  if (it === undefined) throw new Error('The project did not come');
  const stored = () => readEvents(rig.mirror.key(keys.events(tenant, 'project', of))?.value);
  return await then({ rig, recorder, it: it as ReadonlyResource, dropped: () => dropped, stored }); // of some kind
}

const event = (reason: string) => ({ type: 'normal', reason, message: 'It happened' }) as const;

const events: Rows<'events'> = {
  intervalMs: from(10 * second, (n) =>
    recording(async ({ rig, recorder, it, stored }) => {
      recorder.record(it, event('Pulled'));
      await rig.rest();
      recorder.record(it, event('Pulled'));
      await rig.clock.advance(n);
      await rig.rest();
      return stored()[0]?.count === 2;
    }),
  ),
  objects: upTo(2000, (n) =>
    recording(async ({ recorder, it, dropped }) => {
      for (let m = 0; m < n; m++) recorder.record({ ...it, meta: { ...it.meta, id: `object ${m}` } }, event('Pulled'));
      return dropped() === 0;
    }),
  ),
  reasons: upTo(20, (n) =>
    recording(async ({ recorder, it, dropped }) => {
      for (let m = 0; m < n; m++) recorder.record(it, event(`Reason${m}`));
      return dropped() === 0;
    }),
  ),
  attempts: upTo(3, (n) =>
    recording(async ({ rig, recorder, it, stored }) => {
      const txn = rig.store.txn.bind(rig.store);
      let asked = 0;
      rig.store.txn = async (its) => {
        asked += 1;
        if (asked === n) return txn(its);
        const failed = its.if.filter(({ key }) => key === keys.events(tenant, 'project', it.meta.id));
        return {
          committed: false,
          revision: await rig.store.revision(),
          failed: failed.map((guard) => ({ guard })),
        };
      };
      recorder.record(it, event('Pulled'));
      await rig.rest();
      return stored().length === 1;
    }),
  ),
};

function notification(unit: Unit, n: number): void {
  unit.create('notification', id(`n${n}`), { user_id: id('ann'), ...failed, read: false });
}

const failed = { type: 'deployment.failed', severity: 'error', title: 'It failed', message: 'It did' } as const;

const notifications: Rows<'notifications'> = {
  perUser: upTo(200, async (n) => {
    await using rig = await openRig();
    await writeMany(rig, 1, (unit) => aUser(unit, 'ann'));
    await writeMany(rig, n, notification);
    const view = rig.mirror.tenant(tenant);
    return view.by('notification', 'user', id('ann')).every((it) => judge(it, view, 0) === undefined);
  }),
  keepMs: from(30 * day, async (n) => {
    await using rig = await openRig();
    await writeMany(rig, 1, (unit) => {
      aUser(unit, 'ann');
      notification(unit, 0);
    });
    const view = rig.mirror.tenant(tenant);
    const it = view.get('notification', id('n0')) as ReadonlyResource; // of some kind
    return judge(it, view, Date.parse(it.meta.createdAt) + n)?.cause === 'expired';
  }),
  remembered: upTo(5000, async (n) => {
    const { rig, term, deps } = await openTerm();
    await using _ = rig;
    await writeMany(rig, 1, (unit) => {
      aUser(unit, 'ann', 'superadmin');
      notification(unit, 0);
    });
    const of = await createProject(rig.repo, 'one');
    await rig.rest();
    const view = rig.mirror.tenant(tenant);
    let looks = 0;
    const stored: TenantView['get'] = (kind, its) => {
      if (kind === 'notification') looks++;
      return view.get(kind, kind === 'notification' ? id('n0') : its);
    };
    const notifier = new Notifier({
      view: () => overriding(view, { get: stored }),
      repository: deps.repository,
      onWritten: () => undefined,
    });
    const project = view.get('project', of) as ReadonlyResource; // of some kind
    for (let m = 0; m < n; m++) await notifier.notify(term.fence, project, `key ${m}`, { ...failed, log });
    if (looks !== n) throw new Error(`Of ${n} keys ${looks} were looked up`);
    await notifier.notify(term.fence, project, 'key 0', { ...failed, log });
    return looks === n;
  }),
};

export const messageRows = { events, notifications };
