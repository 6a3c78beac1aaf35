import { pino } from 'pino';
import { expect, test } from 'vitest';
import { garbage } from '../../../controllers/garbage/garbage.ts';
import { surplus } from '../../../controllers/garbage/verdict.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import type { Background } from '../../../controllers/runtime/manager.ts';
import { keys } from '../../../store/keys.ts';
import { unavailable } from '../../../store/errors.ts';
import type { DesiredOf, KindName, ObservedOf } from '../../../store/kinds/kinds.ts';
import type { Resource } from '../../../store/resource.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { aDeployment, anApplication } from '../../harness/objects.ts';
import { overriding } from '../limits/scenes.ts';
import { createProject, id, openRig, tenant, type Rig } from '../runtime/rig.ts';
import { desiredState } from '../../harness/states.ts';

const day = 24 * 3_600_000;
const environmentOf = (project: string, name = 'production') => ({ project_id: project, name, type: 'production' });

async function create(rig: Rig, make: (unit: ReturnType<Rig['repo']['begin']>) => void): Promise<void> {
  const unit = rig.repo.begin();
  make(unit);
  const result = await unit.commit();
  expect(result.committed).toBe(true);
  await rig.rest();
}

async function requestDelete(
  rig: Rig,
  kind: 'project' | 'user' | 'environment' | 'service_key',
  of: string,
): Promise<void> {
  const unit = rig.repo.begin();
  unit.requestDelete((await rig.repo.get(kind, of))!);
  await unit.commit();
  await rig.rest();
}

function user(unit: ReturnType<Rig['repo']['begin']>, name: string): void {
  unit.create('user', id(name), desiredState('user', { email: `${name}@example.org`, role: 'user' }));
}

function session(unit: ReturnType<Rig['repo']['begin']>, name: string, of: string, expires: Date): void {
  unit.create('session', id(name), {
    user_id: id(of),
    expires_at: expires.toISOString(),
    source: '',
    user_agent: '',
  });
}

test('what a deleting owner blocks is deleted too, and what it does not block stays', async () => {
  await using rig = await openRig({ background: [garbage] });
  const project = await createProject(rig.repo, 'one');
  const another = await createProject(rig.repo, 'another');
  await create(rig, (unit) => {
    unit.create('environment', id('mine'), environmentOf(project));
    unit.create('environment', id('other'), environmentOf(another), {
      owners: [{ kind: 'project', id: project, blocks: false }],
    });
  });
  await requestDelete(rig, 'project', project);
  expect((await rig.repo.get('environment', id('mine')))?.meta.deletionRequestedAt).toBeDefined();
  expect((await rig.repo.get('environment', id('other')))?.meta.deletionRequestedAt).toBeUndefined();
});

test('objects of an owner that is gone go with it, as far as the tree reaches', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => {
    user(unit, 'ann');
    user(unit, 'bob');
    session(unit, 's1', 'ann', new Date('2031-01-01'));
    session(unit, 's2', 'bob', new Date('2031-01-01'));
  });
  await requestDelete(rig, 'user', id('ann'));
  const left = rig.mirror.tenant(tenant).list('session');
  expect(left.map(({ meta }) => meta.id)).toEqual([id('s2')]);
  expect(await rig.metric('setpoint_garbage_collected_total', { kind: 'session', cause: 'owner' })).toBe(1);
});

test('an object that is created under an owner that is gone already is deleted', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => session(unit, 's1', 'nobody', new Date('2031-01-01')));
  expect(rig.mirror.tenant(tenant).list('session')).toEqual([]);
});

test('a store that does not answer is asked again later, and is no error of the collector', async () => {
  const lines: string[] = [];
  let faulty: FaultyStore | undefined;
  await using rig = await openRig({
    background: [garbage],
    wrap: (store) => (faulty = new FaultyStore(store)),
    log: pino({ level: 'error' }, { write: (line: string) => void lines.push(line) }),
  });
  await rig.rest();
  faulty?.at(faulty.transactions + 1, 'fail-before-commit').at(faulty.transactions + 2, 'lose-answer');
  await create(rig, (unit) => session(unit, 's1', 'nobody', new Date('2031-01-01')));
  await rig.clock.advance(10_000);
  await rig.rest();
  expect(rig.mirror.tenant(tenant).list('session')).toEqual([]);
  expect(lines).toEqual([]);
});

test('nothing is deleted for an owner that the mirror alone does not know', async () => {
  await using rig = await openRig({ background: [garbage] });
  const original = rig.store.get.bind(rig.store);
  let asked = 0;
  rig.store.get = async (key) => {
    // The owner is there before the store is asked, and after the mirror was.
    if (key === keys.desired(tenant, 'user', id('ann')) && ++asked === 1) {
      const unit = rig.repo.begin();
      user(unit, 'ann');
      await unit.commit();
    }
    return original(key);
  };
  await create(rig, (unit) => session(unit, 's1', 'ann', new Date('2031-01-01')));
  await rig.clock.advance(2 * limits.garbage.sweepMs);
  await rig.rest();
  expect(asked).toBe(1);
  expect(rig.mirror.tenant(tenant).list('session')).toHaveLength(1);
});

test('what happened while nobody led is found by the first sweep', async () => {
  await using rig = await openRig();
  await create(rig, (unit) => session(unit, 's1', 'nobody', new Date('2031-01-01')));
  await rig.controllers[Symbol.asyncDispose]();
  rig.replica('next', [], [garbage]);
  await rig.clock.advance(limits.leader.jitterMs);
  await rig.rest();
  expect(rig.mirror.tenant(tenant).list('session')).toEqual([]);
});

test('an object that comes in one transaction with its owner stays', async () => {
  await using rig = await openRig({ background: [garbage] });
  const unit = rig.repo.begin();
  session(unit, 's1', 'ann', new Date('2031-01-01'));
  user(unit, 'ann');
  await unit.commit();
  await rig.rest();
  await rig.clock.advance(2 * limits.garbage.sweepMs);
  expect(rig.mirror.tenant(tenant).list('session')).toHaveLength(1);
  expect(await rig.metric('setpoint_garbage_collected_total')).toBe(0);
});

test('expired sessions, old notifications and finished operations go, younger ones stay', async () => {
  await using rig = await openRig({ background: [garbage] });
  const now = rig.clock.now().getTime();
  await create(rig, (unit) => {
    user(unit, 'ann');
    session(unit, 'short', 'ann', new Date(now + day / 2));
    session(unit, 'long', 'ann', new Date(now + 400 * day));
    unit.create('notification', id('n'), {
      user_id: id('ann'),
      type: 'x',
      severity: 'info',
      title: 't',
      message: 'm',
      read: false,
    });
    for (const name of ['done', 'open'])
      unit.create('operation', id(name), {
        type: 'sync',
        requested_at: new Date(now).toISOString(),
        deadline_seconds: 60,
      });
  });
  await rig.repo.observe(
    (await rig.repo.get('operation', id('done')))!,
    { phase: 'succeeded', finished_at: new Date(now).toISOString(), observedGeneration: 1, conditions: [] },
    [],
  );
  const view = rig.mirror.tenant(tenant);
  const left = () => ['session', 'operation', 'notification'].map((kind) => view.list(kind as 'session').length);
  await rig.rest();
  expect(left()).toEqual([2, 2, 1]);
  await rig.clock.advance(day / 2 + limits.garbage.sweepMs);
  await rig.rest();
  expect(left()).toEqual([1, 2, 1]);
  await rig.clock.advance(day / 2);
  await rig.rest();
  expect(left()).toEqual([1, 1, 1]);
});

test('a user keeps the newest 200 notifications', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'ann'));
  for (let n = 0; n < limits.notifications.perUser + 5; n++) {
    await rig.clock.advance(1);
    const unit = rig.repo.begin();
    unit.create('notification', id(`n${n}`), {
      user_id: id('ann'),
      type: 'x',
      severity: 'info',
      title: String(n),
      message: 'm',
      read: false,
    });
    await unit.commit();
  }
  await rig.rest();
  const titles = rig.mirror
    .tenant(tenant)
    .list('notification')
    .map(({ desired }) => Number(desired.title));
  expect(titles).toHaveLength(limits.notifications.perUser);
  expect(Math.min(...titles)).toBe(5);
});

test('an unread warning is not pushed out by news, and goes once it is read', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'ann'));
  const most = limits.notifications.perUser;
  const send = async (names: string[], severity: 'info' | 'error') => {
    for (let n = 0; n < names.length; n += 20) {
      await rig.clock.advance(1);
      await create(rig, (unit) => {
        for (const name of names.slice(n, n + 20))
          unit.create('notification', id(name), {
            user_id: id('ann'),
            type: 'x',
            severity,
            title: name,
            message: '',
            read: false,
          });
      });
    }
    await rig.clock.advance(1000);
  };
  const titles = () =>
    rig.mirror
      .tenant(tenant)
      .list('notification')
      .map(({ desired }) => desired.title);
  const many = (of: string) => Array.from({ length: most + 20 }, (_, n) => `${of}${n}`);
  await send(['warned'], 'error');
  await send(many('news'), 'info');
  expect([titles().length, titles().includes('warned')]).toEqual([most + 1, true]);
  await send(many('trouble'), 'error');
  expect([titles().length, titles().includes('warned')]).toEqual([most, false]);
  await send(many('later'), 'info');
  expect(titles()).toHaveLength(2 * most);
  const unit = rig.repo.begin();
  for (const it of rig.mirror
    .tenant(tenant)
    .list('notification')
    .filter(({ desired }) => desired.severity === 'error')
    .slice(0, 20))
    unit.change((await rig.repo.get('notification', it.meta.id))!, (draft) => void (draft.read = true));
  await unit.commit();
  await rig.clock.advance(1000);
  expect(titles()).toHaveLength(2 * most - 20);
});

test('a user who is sent many notifications at once keeps the newest 200', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'u'));
  for (let n = 0; n < limits.notifications.perUser + 100; n += 20)
    await create(rig, (unit) => {
      for (let m = n; m < n + 20; m++)
        unit.create('notification', id(`n${m}`), {
          user_id: id('u'),
          type: 'deployment.failed',
          severity: 'error',
          title: `n${m}`,
          message: '',
          read: false,
        });
    });
  await rig.clock.advance(1000);
  const kept = rig.mirror.tenant(tenant).list('notification');
  expect(kept).toHaveLength(limits.notifications.perUser);
});

test('the newest are those that were stored last, although a clock was a day ahead when the others were', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'u'));
  const notify = (unit: ReturnType<Rig['repo']['begin']>, name: string): void =>
    void unit.create('notification', id(name), {
      user_id: id('u'),
      type: 'deployment.failed',
      severity: 'error',
      title: name,
      message: '',
      read: false,
    });
  rig.clock.jump(day);
  for (let n = 0; n < limits.notifications.perUser; n += 20)
    await create(rig, (unit) => {
      for (let m = n; m < n + 20; m++) notify(unit, `ahead ${m}`);
    });
  rig.clock.jump(-day);
  for (const name of ['now', 'later']) await create(rig, (unit) => notify(unit, name));
  const kept = rig.mirror
    .tenant(tenant)
    .list('notification')
    .map(({ desired }) => desired.title);
  expect(kept).toHaveLength(limits.notifications.perUser);
  expect(kept).toEqual(expect.arrayContaining(['now', 'later']));
});

test('a service key that another one made goes with it, as far as the line reaches', async () => {
  await using rig = await openRig({ background: [garbage] });
  const key = { user_id: id('ann'), name: 'ci', prefix: 'sp_1' };
  await create(rig, (unit) => {
    user(unit, 'ann');
    unit.create('service_key', id('first'), { ...key, hash: 'a' });
    unit.create('service_key', id('second'), { ...key, hash: 'b', parent_id: id('first') });
    unit.create('service_key', id('third'), { ...key, hash: 'c', parent_id: id('second') });
    unit.create('service_key', id('other'), { ...key, hash: 'd' });
  });
  await requestDelete(rig, 'service_key', id('first'));
  const left = rig.mirror.tenant(tenant).list('service_key');
  expect(left.map(({ meta }) => meta.id)).toEqual([id('other')]);
});

test('a service key goes a week after it expired, and one without an end stays', async () => {
  await using rig = await openRig({ background: [garbage] });
  const expires = new Date(rig.clock.now().getTime() + day / 2);
  const key = { user_id: id('ann'), name: 'ci', prefix: 'sp_1' };
  await create(rig, (unit) => {
    user(unit, 'ann');
    unit.create('service_key', id('short'), { ...key, hash: 'a', expires_at: expires.toISOString() });
    unit.create('service_key', id('endless'), { ...key, hash: 'b' });
  });
  const left = () =>
    rig.mirror
      .tenant(tenant)
      .list('service_key')
      .map(({ meta }) => meta.id);
  await rig.clock.advance(7 * day);
  await rig.rest();
  expect(left()).toHaveLength(2);
  await rig.clock.advance(day / 2 + limits.garbage.sweepMs);
  await rig.rest();
  expect(left()).toEqual([id('endless')]);
});

/** Volumes whose end is in half a day, and what uses all of them but one. */
async function volumesWithAnEnd(rig: Rig): Promise<void> {
  const expires_at = new Date(rig.clock.now().getTime() + day / 2).toISOString();
  const project = await createProject(rig.repo, 'one');
  const place = { project_id: project, environment_id: id('env'), server_id: id('server') };
  const mounts = (volume: string) => [{ volume_id: id(volume), path: '/data', read_only: false }];
  await create(rig, (unit) => {
    unit.create('environment', id('env'), environmentOf(project));
    for (const name of ['unused', 'of-app', 'of-function'])
      unit.create('volume', id(name), desiredState('volume', { ...place, name, expires_at }));
    const database_id = id('db');
    unit.create('volume', id('of-db'), desiredState('volume', { ...place, name: 'db', database_id, expires_at }));
    unit.create(
      'application',
      id('web'),
      desiredState('application', { ...place, name: 'web', mounts: mounts('of-app') }),
    );
    unit.create('function', id('hello'), desiredState('function', { ...place, mounts: mounts('of-function') }));
    unit.create('database', database_id, desiredState('database', { ...place, data_volume_id: id('of-db') }));
  });
}

const volumesThatGo = (rig: Rig) =>
  rig.mirror
    .tenant(tenant)
    .list('volume')
    .filter(({ meta }) => meta.deletionRequestedAt !== undefined)
    .map(({ meta }) => meta.id);

test('an object that cannot be judged keeps none of the others from going', async () => {
  const run: Background['run'] = (term, deps) => {
    const view = (name: string) => {
      const own = deps.mirror.tenant(name);
      const broken = (kind: KindName) => ({ meta: { kind, id: 'broken', tenant: name } }) as never; // it has no owners
      return overriding(own, { list: (kind) => [broken(kind), ...own.list(kind)] });
    };
    return garbage.run(term, { ...deps, mirror: overriding(deps.mirror, { tenant: view }) });
  };
  await using rig = await openRig({ background: [{ name: 'garbage', run }] });
  await volumesWithAnEnd(rig);
  await rig.clock.advance(day / 2 + limits.garbage.sweepMs);
  await rig.rest();
  expect(volumesThatGo(rig)).toEqual([id('unused')]);
});

test('a volume that something uses does not expire', async () => {
  await using rig = await openRig({ background: [garbage] });
  await volumesWithAnEnd(rig);
  await rig.clock.advance(day / 2 + limits.garbage.sweepMs);
  await rig.rest();
  expect(volumesThatGo(rig)).toEqual([id('unused')]);
});

test('a leader whose wall clock is ahead lets nothing expire at once, and says so', async () => {
  const lines: string[] = [];
  await using rig = await openRig({ log: pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) }) });
  await volumesWithAnEnd(rig);
  await rig.controllers[Symbol.asyncDispose]();
  rig.clock.jump(30 * day);
  rig.replica('next', [], [garbage]);
  await rig.clock.advance(limits.leader.jitterMs);
  await rig.rest();
  expect(volumesThatGo(rig)).toEqual([]);
  expect(lines.map((line) => JSON.parse(line).msg)).toContain(
    'The clock of this machine is far ahead of all that is stored: set it if it is wrong. What expires is removed later, at twice the pace of time',
  );
  await rig.clock.advance(day / 5);
  await rig.rest();
  expect(volumesThatGo(rig)).toEqual([]);
  await rig.clock.advance(day / 10);
  await rig.rest();
  expect(volumesThatGo(rig)).toEqual([id('unused')]);
});

test('a volume that the mirror alone takes for unused does not expire', async () => {
  await using rig = await openRig({ background: [garbage] });
  await volumesWithAnEnd(rig);
  const original = rig.store.get.bind(rig.store);
  let asked = 0;
  rig.store.get = async (key) => {
    // it is mounted before the store is asked, and after the mirror was
    if (key === keys.population(tenant, 'volume', id('unused')) && ++asked === 1)
      await rig.repo.change('application', id('web'), (draft) => {
        draft.mounts.push({ volume_id: id('unused'), path: '/more', read_only: false });
      });
    return original(key);
  };
  await rig.clock.advance(day / 2 + 2 * limits.garbage.sweepMs);
  await rig.rest();
  expect(asked).toBe(1);
  expect(volumesThatGo(rig)).toEqual([]);
});

test('of an application the newest ended operations stay, and those under way', async () => {
  await using rig = await openRig({ background: [garbage] });
  const project = await createProject(rig.repo, 'one');
  const app = anApplication({ project_id: project, environment_id: id('env') });
  const requested_at = rig.clock.now().toISOString();
  const operation = { type: 'sync' as const, application_id: app.meta.id, requested_at, deadline_seconds: 60 };
  await create(rig, (unit) => {
    unit.create('environment', id('env'), environmentOf(project));
    unit.create('application', app.meta.id, app.desired);
    unit.create('operation', id('open'), operation);
  });
  for (let n = 0; n < limits.garbage.operationsPerApplication + 3; n++) {
    await rig.clock.advance(1);
    await create(rig, (unit) => unit.create('operation', id(`o${n}`), operation));
    const made = (await rig.repo.get('operation', id(`o${n}`)))!;
    await rig.repo.observe(
      made,
      { phase: 'succeeded', finished_at: requested_at, observedGeneration: 1, conditions: [] },
      [],
    );
    await rig.rest();
  }
  const left = rig.mirror.tenant(tenant).list('operation');
  expect(left.length).toBeLessThanOrEqual(limits.garbage.operationsPerApplication + 1);
  expect(left.map(({ meta }) => meta.id)).toContain(id('open'));
  expect(left.at(-1)?.meta.id).toBe(id(`o${limits.garbage.operationsPerApplication + 2}`));
});

test('a user keeps the newest hundred logins', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'ann'));
  for (let n = 0; n < limits.garbage.sessionsPerUser + 3; n++) {
    await rig.clock.advance(1);
    const unit = rig.repo.begin();
    session(unit, `s${n}`, 'ann', new Date(rig.clock.now().getTime() + day));
    await unit.commit();
  }
  await rig.rest();
  const left = rig.mirror.tenant(tenant).list('session');
  expect(left).toHaveLength(limits.garbage.sessionsPerUser);
  expect(left[0]?.meta.id).toBe(id('s3'));
});

test('codes go a day after the last one was sent, and a month where places of the owner are kept with them', async () => {
  await using rig = await openRig({ background: [garbage] });
  const now = rig.clock.now().getTime();
  const sentAgo = (ms: number) => [{ source: '192.0.2.1', at: new Date(now - ms).toISOString() }];
  const [today, before] = [sentAgo(0), sentAgo(28 * day)];
  await create(rig, (unit) => {
    unit.create('login_code', id('new'), { email: 'ann@example.org', codes: [], sent: today, failed: [], known: [] });
    unit.create('login_code', id('old'), {
      email: 'bob@example.org',
      codes: [],
      sent: before,
      failed: [],
      known: before,
    });
  });
  const left = () =>
    rig.mirror
      .tenant(tenant)
      .list('login_code')
      .map(({ meta }) => meta.id);
  await rig.clock.advance(day - 60_000);
  await rig.rest();
  expect(left()).toHaveLength(2);
  await rig.clock.advance(60_000 + limits.garbage.sweepMs);
  await rig.rest();
  expect(left()).toEqual([id('old')]);
  await rig.clock.advance(day);
  await rig.rest();
  expect(left()).toEqual([]);
});

function history(phases: ObservedOf<'deployment'>['phase'][]): {
  app: Resource<'application'>;
  deployments: Resource<'deployment'>[];
} {
  const app = anApplication();
  return { app, deployments: phases.map((phase, n) => aDeployment(app, { number: n + 1 }, { phase })) };
}

const surplusDeployments = (app: Resource<'application'>, all: readonly Resource<'deployment'>[]) =>
  surplus('deployment', app, all);

const numbers = (of: readonly { desired: { number: number } }[]) =>
  of.map(({ desired }) => desired.number).sort((a, b) => a - b);

test('the newest 20 deployments stay', () => {
  const { app, deployments } = history(Array.from({ length: 25 }, () => 'failed' as const));
  expect(numbers(surplusDeployments(app, deployments.slice(0, 20)))).toEqual([]);
  expect(numbers(surplusDeployments(app, deployments))).toEqual([1, 2, 3, 4, 5]);
});

test('the deployment that serves, the one to roll back to, the wanted one and unfinished ones stay however old', () => {
  const phases = Array.from({ length: 30 }, () => 'failed' as ObservedOf<'deployment'>['phase']);
  phases[0] = 'succeeded';
  phases[1] = 'succeeded';
  phases[2] = 'succeeded';
  phases[3] = 'building';
  const { app, deployments } = history(phases);
  app.desired.deployment_id = deployments[4]!.meta.id;
  app.observed = {
    phase: 'running',
    current_deployment_id: deployments[2]!.meta.id,
    consecutive_failures: 0,
    ready_replicas: 1,
    crash_loop_counted: false,
    observedGeneration: 1,
    conditions: [],
  };
  expect(numbers(surplusDeployments(app, deployments))).toEqual([1, 6, 7, 8, 9, 10]);
});

test('a surplus deployment is not deleted while the application moves to it', async () => {
  await using rig = await openRig({ background: [garbage] });
  const project = await createProject(rig.repo, 'one');
  const app = anApplication({ project_id: project, environment_id: id('env') });
  await create(rig, (unit) => {
    unit.create('environment', id('env'), environmentOf(project));
    unit.create('application', app.meta.id, app.desired);
  });
  const made: string[] = [];
  for (let number = 1; number <= limits.garbage.deploymentsPerApplication + 1; number++) {
    const it = aDeployment(app, { number });
    made.push(it.meta.id);
    await create(rig, (unit) => unit.create('deployment', it.meta.id, it.desired));
  }
  // Just before the deletion commits, a rollback points the application to the oldest deployment.
  const oldest = made[0]!;
  let raced = false;
  const original = rig.store.txn.bind(rig.store);
  rig.store.txn = async (txn) => {
    const isDeletion = txn.then.some(
      (write) =>
        'put' in write &&
        write.put === keys.desired(tenant, 'deployment', oldest) &&
        write.value.includes('deletionRequestedAt'),
    );
    if (isDeletion && !raced) {
      raced = true;
      await rig.repo.change('application', app.meta.id, (draft) => {
        draft.deployment_id = oldest;
      });
    }
    return original(txn);
  };
  for (const it of made) {
    const stored = (await rig.repo.get('deployment', it))!;
    await rig.repo.observe(stored, { phase: 'failed', observedGeneration: 1, conditions: [] }, []);
  }
  await rig.rest();
  await rig.clock.advance(60_000);
  await rig.rest();
  expect(raced).toBe(true);
  expect((await rig.repo.get('deployment', oldest))?.meta.deletionRequestedAt).toBeUndefined();
  const retired = rig.mirror
    .tenant(tenant)
    .list('deployment')
    .filter(({ meta }) => meta.deletionRequestedAt);
  expect(retired).toEqual([]);
});

test('keys without their object are removed after an hour, and counted as bugs', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'owner'));
  const project = await createProject(rig.repo, 'one');
  await rig.rest();
  const orphans = [
    keys.observed(tenant, 'project', id('gone')),
    keys.events(tenant, 'project', id('gone')),
    keys.bytes(tenant, 'project', id('gone')),
    keys.unique(tenant, 'project', 'all', 'gone'),
    keys.unique(tenant, 'project', 'all', 'former name'),
  ];
  const values = ['{}', '{}', '{}', JSON.stringify({ id: id('gone') }), JSON.stringify({ id: project })];
  const strange = keys.unique(tenant, 'unknown_kind', 'all', 'x');
  await rig.store.txn({
    if: [],
    then: [
      ...orphans.map((put, n) => ({ put, value: values[n]! })),
      { put: strange, value: JSON.stringify({ id: project }) },
      { put: keys.unique(tenant, 'project', 'all', 'broken'), value: 'no json' },
    ],
  });
  const present = async (): Promise<string[]> => {
    const page = await rig.store.list(keys.ofTenant(tenant));
    return page.entries.map(({ key }) => key);
  };
  const before = await present();
  await rig.clock.advance(limits.garbage.orphanSweepMs);
  await rig.rest();
  expect(await present()).toEqual(before);
  await rig.clock.advance(limits.garbage.orphanSweepMs);
  await rig.rest();
  expect(await present()).toEqual(before.filter((key) => !orphans.includes(key)));
  expect(await rig.metric('setpoint_orphaned_keys_total')).toBe(5);
  expect(await rig.repo.get('project', project)).toBeDefined();
  expect(await rig.repo.idByName('project', 'all', 'one')).toBe(project);
});

test('garbage that the store could not be asked about is deleted later, and no log calls that a bug', async () => {
  const logged: string[] = [];
  const log = pino({}, { write: (line) => void logged.push(line) });
  await using rig = await openRig({ background: [garbage], log });
  const project = await createProject(rig.repo, 'one');
  await create(rig, (unit) => {
    unit.create('environment', id('mine'), environmentOf(project));
  });
  const it = (await rig.repo.get('project', project))!;
  const get = rig.store.get.bind(rig.store);
  let failures = 0;
  rig.store.get = (key) => {
    if (key !== keys.desired(tenant, 'project', project) || failures > 0) return get(key);
    failures += 1;
    return Promise.reject(unavailable('it is away'));
  };
  const unit = rig.repo.begin();
  unit.requestDelete(it);
  await unit.commit();
  await rig.rest();
  await rig.clock.advance(60_000);
  await rig.rest();
  expect(failures).toBe(1);
  expect((await rig.repo.get('environment', id('mine')))?.meta.deletionRequestedAt).toBeDefined();
  expect(logged.filter((line) => line.includes('is a bug'))).toEqual([]);
});

test('orphans that a sweep could not look for are removed by later ones', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'owner'));
  const orphan = keys.observed(tenant, 'project', id('gone'));
  await rig.store.txn({ if: [], then: [{ put: orphan, value: '{}' }] });
  const list = rig.store.list.bind(rig.store);
  let failures = 0;
  rig.store.list = () => {
    failures += 1;
    return Promise.reject(unavailable('it is away'));
  };
  await rig.clock.advance(3 * limits.garbage.orphanSweepMs);
  expect(failures).toBeGreaterThan(2);
  rig.store.list = list;
  expect(await rig.store.get(orphan)).toBeDefined();
  await rig.clock.advance(3 * limits.garbage.orphanSweepMs);
  await rig.rest();
  expect(await rig.store.get(orphan)).toBeUndefined();
});

test('a key is not removed as an orphan when its object comes between the look and the removal', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'owner'));
  const orphan = keys.observed(tenant, 'project', id('late'));
  await rig.store.txn({ if: [], then: [{ put: orphan, value: '{}' }] });
  await rig.clock.advance(limits.garbage.orphanSweepMs);
  await rig.rest();
  const original = rig.store.txn.bind(rig.store);
  let tried = 0;
  rig.store.txn = async (txn) => {
    if (txn.then.some((write) => 'delete' in write && write.delete === orphan) && ++tried === 1)
      await createProject(rig.repo, 'late');
    return original(txn);
  };
  await rig.clock.advance(limits.garbage.orphanSweepMs);
  await rig.rest();
  expect(tried).toBe(1);
  expect(await rig.store.get(orphan)).toBeDefined();
  expect(await rig.metric('setpoint_orphaned_keys_total')).toBe(0);
});

test('a system without garbage is swept without a write', async () => {
  await using rig = await openRig({ background: [garbage] });
  await create(rig, (unit) => user(unit, 'owner'));
  const project = await createProject(rig.repo, 'one');
  await create(rig, (unit) => {
    unit.create('environment', id('env'), environmentOf(project));
    user(unit, 'ann');
    session(unit, 's', 'ann', new Date('2040-01-01'));
  });
  rig.store.reset();
  await rig.clock.advance(3 * limits.garbage.orphanSweepMs);
  expect(rig.store.committed).toBe(0);
});

test('members stay until their project is gone, invites go with its deletion, and nothing is left', async () => {
  await using rig = await openRig({ background: [garbage] });
  const project = await createProject(rig.repo, 'one');
  await create(rig, (unit) => {
    user(unit, 'ann');
    user(unit, 'bob');
    for (const name of ['ann', 'bob'])
      unit.create('member', id(`member ${name}`), { project_id: project, user_id: id(name), role: 'viewer' });
    unit.create('invite', id('invite'), anInvite({ project_id: project }));
  });
  const view = rig.mirror.tenant(tenant);
  const members = () => view.by('member', 'project', project).map(({ desired }) => desired.user_id);
  await requestDelete(rig, 'user', id('bob'));
  expect(members()).toEqual([id('ann')]);
  await requestDelete(rig, 'project', project);
  expect(view.list('invite')).toEqual([]);
  await rig.clock.advance(2 * limits.garbage.sweepMs);
  await rig.rest();
  expect(members()).toEqual([id('ann')]);
  const unit = rig.repo.begin();
  unit.release((await rig.repo.get('project', project))!, 'project');
  await unit.commit();
  await rig.rest();
  expect(view.list('member')).toEqual([]);
});

test('invites go a week after they ended', async () => {
  await using rig = await openRig({ background: [garbage] });
  const project = await createProject(rig.repo, 'one');
  const now = rig.clock.now().getTime();
  const at = (days: number): string => new Date(now + days * day).toISOString();
  await create(rig, (unit) => {
    const invites = {
      expired: { expires_at: at(-6), email: 'a@b.c' },
      forgotten: { expires_at: at(-7), email: 'b@b.c' },
      accepted: { expires_at: at(1), state: 'accepted' as const, accepted_at: at(-6), email: 'c@b.c' },
      cancelled: { expires_at: at(1), state: 'cancelled' as const, cancelled_at: at(-7), email: 'c@b.c' },
      done: { expires_at: at(1), state: 'accepted' as const, accepted_at: at(-7), email: 'd@b.c' },
    };
    for (const [name, fields] of Object.entries(invites))
      unit.create('invite', id(name), { ...anInvite({ project_id: project }), ...fields });
  });
  const left = rig.mirror.tenant(tenant).list('invite');
  expect(left.map(({ meta }) => meta.id).toSorted()).toEqual([id('expired'), id('accepted')].toSorted());
});

function anInvite(fields: { project_id: string }): DesiredOf<'invite'> {
  return {
    ...fields,
    email: 'bob@example.org',
    role: 'viewer',
    invited_by: id('ann'),
    expires_at: '2031-01-01T00:00:00Z',
    state: 'pending',
  };
}
