import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { outcomeUnknown } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { settingsId } from '../../store/kinds/settings.ts';
import { requestTenantDeletion } from '../../store/tenants.ts';
import { commit } from '../../store/unit.ts';
import { createClient, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { AskedStore } from '../harness/asked-store.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { until } from '../harness/until.ts';

type Person = Client & { id: string };

const unlimited = { perMinute: 0, burst: 1 };

let world: ApiWorld;
let store: AskedStore;
let clock: FakeClock;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeAll(async () => {
  clock = new FakeClock();
  world = await startApi({
    clock,
    config: { rateLimit: unlimited, heavyRateLimit: unlimited, codeRateLimit: unlimited },
    wrap: (inner) => (store = new AskedStore(inner)),
  });
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;

/** A stopped application of the project. */
async function anApplication(by: Client = owner, at: typeof place = place): Promise<string> {
  const { status, data } = await by.post('/applications', {
    project_id: at.project,
    server_id: at.server,
    name: `app-${(count += 1)}`,
    source_type: 'image',
    image_url: 'ghcr.io/example/web:1',
  });
  expect(status).toBe(201);
  return data.id;
}

/** A user with a role in the project. */
async function member(role: string): Promise<Person & { member: string }> {
  const user = await world.user();
  const { data } = await owner.post(`/projects/${place.project}/members`, { user_id: user.id, role });
  return Object.assign(user, { member: data.id as string });
}

/** What the request asked the store, when the mirror had nothing left to apply. */
async function askedBy(run: () => Promise<{ status: number }>, status = 200): Promise<string[]> {
  await world.settled();
  store.reset();
  const answer = await run();
  const asked = [...store.asked];
  expect(answer.status).toBe(status);
  return asked;
}

const change = (by: Client, app: string) => by.put(`/applications/${app}`, { watch_paths: `src-${(count += 1)}/**` });

describe('an accepted write costs one round trip on the store before its answer', () => {
  it('a PUT of an application by an admin', async () => {
    const app = await anApplication();
    expect(await askedBy(() => change(owner, app))).toEqual(['txn']);
  });

  it('a PUT by a member, whose role is read, too', async () => {
    const [app, user] = [await anApplication(), await member('member')];
    expect(await askedBy(() => change(user, app))).toEqual(['txn']);
  });

  it('a PUT by a service key and its parent', async () => {
    const app = await anApplication();
    const parent = (await owner.post('/settings/service-keys', { name: 'parent' })).data;
    const made = await world.client().post('/settings/service-keys', { name: 'k' }, { 'x-service-key': parent.key });
    const by = { 'x-service-key': made.data.key };
    await world.client().get('/auth/me', by); // notes its use, which it does once
    const put = () => world.client().put(`/applications/${app}`, { watch_paths: 'by-key/**' }, by);
    expect(await askedBy(put)).toEqual(['txn']);
  });

  it('a POST with an Idempotency-Key, and a DELETE that asks for no others', async () => {
    const app = await anApplication();
    const key = { 'idempotency-key': 'once' };
    expect(await askedBy(() => owner.post(`/applications/${app}/scale`, { replicas: 0 }, key))).toEqual(['txn']);
    expect(await askedBy(() => owner.delete(`/applications/${app}?force=true`))).toEqual(['txn']);
  });

  it('several changes of one object by one client, each after the answer to the one before', async () => {
    const app = await anApplication();
    await world.settled();
    store.reset();
    for (let n = 0; n < 5; n += 1) expect((await change(owner, app)).status).toBe(200);
    expect(store.asked).toEqual(['txn', 'txn', 'txn', 'txn', 'txn']);
  });
});

describe('a request looks at the store first', () => {
  it('if nothing proved for five seconds that the mirror is current', async () => {
    const app = await anApplication();
    await owner.get(`/applications/${app}`);
    await clock.advance(5000);
    expect(await askedBy(() => change(owner, app))).toEqual(['txn']);
    await clock.advance(5001);
    expect(await askedBy(() => change(owner, app))).toEqual(['revision', 'txn']);
  });

  it('after a write that the store did not answer, which is not sent again', async () => {
    const app = await anApplication();
    store.failsOnce = outcomeUnknown('cut');
    expect(await askedBy(() => change(owner, app), 503)).toEqual(['txn']);
    await clock.advance(1);
    expect(await askedBy(() => change(owner, app))).toEqual(['revision', 'txn']);
    expect(await askedBy(() => change(owner, app))).toEqual(['txn']);
  });

  it('if it reads', async () => {
    const app = await anApplication();
    expect(await askedBy(() => owner.get(`/applications/${app}`))).toEqual(['revision']);
  });

  it('if it would write nothing', async () => {
    const app = await anApplication();
    await change(owner, app);
    const same = { watch_paths: `src-${count}/**` };
    expect(await askedBy(() => owner.put(`/applications/${app}`, same))).toEqual(['revision']);
  });

  it('if its decision depends on all objects of some kind, which no guard can prove', async () => {
    expect(await askedBy(() => owner.post('/projects', { name: `p-${(count += 1)}` }), 201)).toEqual([
      'revision',
      'txn',
    ]);
    // whether other applications refer to it
    const app = await anApplication();
    expect(await askedBy(() => owner.delete(`/applications/${app}`))).toEqual(['revision', 'txn']);
  });

  it('before it refuses', async () => {
    const viewer = await member('viewer');
    const app = await anApplication();
    const asked = await askedBy(() => change(viewer, app), 403);
    expect(asked[0]).toBe('revision');
    expect(await askedBy(() => owner.put(`/applications/${crypto.randomUUID()}`, {}), 404)).toEqual(['revision']);
  });
});

describe('on a replica whose mirror lags', () => {
  beforeEach(async () => {
    await world.settled();
  });
  afterEach(() => {
    store.onRevision = undefined;
    store.release();
  });

  /**
   * Another replica commits; the mirror of this one shows it only once the request has asked the store for its
   * revision. Returns the answer to the request.
   */
  async function behind<T>(meanwhile: () => Promise<unknown>, request: () => Promise<T>): Promise<T> {
    await world.settled();
    store.hold();
    await meanwhile();
    store.onRevision = () => store.release();
    return request();
  }

  async function remove(kind: 'session' | 'service_key' | 'member', id: string): Promise<void> {
    const unit = world.repo.begin();
    unit.requestDelete((await world.repo.get(kind, id))!);
    await commit(unit);
  }

  /** Sends a request; resolves when it waits for time. */
  async function waiting<T>(request: () => Promise<T>): Promise<{ answer: Promise<T> }> {
    const before = clock.pending;
    const answer = request();
    await until('the request waits', async () => clock.pending > before, { everyMs: 1 });
    return { answer };
  }

  const watchPaths = async (app: string) => (await world.repo.get('application', app))?.desired.watch_paths;

  it('a write goes on from the mirror if nothing that it rests on changed', async () => {
    const [app, other] = [await anApplication(), await anApplication()];
    const answer = await behind(
      () => world.repo.change('application', other, (draft) => void (draft.watch_paths = 'other/**')),
      async () => {
        store.reset();
        const { status } = await change(owner, app);
        return [status, ...store.asked];
      },
    );
    expect(answer).toEqual([200, 'txn']);
    store.release();
  });

  it.each([
    [
      'a session that was ended',
      async (user: Person) => {
        const [session] = world.mirror.tenant('default').by('session', 'user', user.id);
        await remove('session', session!.meta.id);
      },
      401,
    ],
    [
      'a user who was disabled',
      (user: Person) => world.repo.change('user', user.id, (draft) => void (draft.disabled = true)),
      401,
    ],
    ['a member who was removed', (user: Person & { member: string }) => remove('member', user.member), 403],
    [
      'a member whose role was lowered',
      (user: Person & { member: string }) =>
        world.repo.change('member', user.member, (draft) => void (draft.role = 'viewer')),
      403,
    ],
  ])('%s writes nothing', async (_, lose, status) => {
    const [app, user] = [await anApplication(), await member('admin')];
    const before = await watchPaths(app);
    const answer = await behind(
      () => lose(user),
      () => change(user, app),
    );
    expect([answer.status, await watchPaths(app)]).toEqual([status, before]);
  });

  it('a revoked service key writes nothing, nor one whose parent was revoked', async () => {
    const app = await anApplication();
    for (const revoked of ['child', 'parent']) {
      const parent = (await owner.post('/settings/service-keys', { name: 'parent' })).data;
      const child = (
        await world.client().post('/settings/service-keys', { name: 'k' }, { 'x-service-key': parent.key })
      ).data;
      const by = { 'x-service-key': child.key };
      await world.client().get('/auth/me', by);
      const before = await watchPaths(app);
      const { status } = await behind(
        () => remove('service_key', revoked === 'child' ? child.id : parent.id),
        () => world.client().put(`/applications/${app}`, { watch_paths: 'revoked/**' }, by),
      );
      expect([status, await watchPaths(app)]).toEqual([401, before]);
    }
  });

  it('a key whose scopes were narrowed writes nothing', async () => {
    const app = await anApplication();
    const { id, key } = (await owner.post('/settings/service-keys', { name: 'k' })).data;
    const by = { 'x-service-key': key };
    await world.client().get('/auth/me', by);
    const before = await watchPaths(app);
    const { status } = await behind(
      () => world.repo.change('service_key', id, (draft) => void (draft.scopes = ['read'])),
      () => world.client().put(`/applications/${app}`, { watch_paths: 'narrowed/**' }, by),
    );
    expect([status, await watchPaths(app)]).toEqual([403, before]);
  });

  it('a write of what was changed since is made over that change', async () => {
    const app = await anApplication();
    const answer = await behind(
      () => world.repo.change('application', app, (draft) => void (draft.config.healthcheck_path = '/first')),
      () => change(owner, app),
    );
    expect([answer.status, answer.data.healthcheck_path]).toEqual([200, '/first']);
  });

  it('If-Match of a version that is not the present one is refused, and of the present one is not', async () => {
    const app = await anApplication();
    const old = (await owner.get(`/applications/${app}`)).headers.get('etag')!;
    const refused = await behind(
      () => world.repo.change('application', app, (draft) => void (draft.config.healthcheck_path = '/second')),
      () => owner.put(`/applications/${app}`, { watch_paths: 'late/**' }, { 'if-match': old }),
    );
    expect(refused.status).toBe(409);
    let now = '';
    const accepted = await behind(
      async () => {
        await world.repo.change('application', app, (draft) => void (draft.config.healthcheck_path = '/third'));
        now = String((await world.repo.get('application', app))!.meta.desiredRevision);
      },
      () => owner.put(`/applications/${app}`, { watch_paths: 'in-time/**' }, { 'if-match': `"${now}"` }),
    );
    expect([accepted.status, accepted.data.healthcheck_path]).toEqual([200, '/third']);
  });

  it('nothing is written to what is being deleted, itself or its project', async () => {
    const mine = await world.place(owner);
    const app = await anApplication(owner, mine);
    const request = async (kind: 'application' | 'project', id: string) => {
      const unit = world.repo.begin();
      unit.requestDelete((await world.repo.get(kind, id))!);
      await commit(unit);
    };
    const answer = await behind(
      () => request('application', app),
      () => change(owner, app),
    );
    expect(answer.status).toBe(409);
    expect(answer.body.error?.message).toBe('Application is being deleted');
  });

  it('what the mirror does not show yet is found, and what it does not allow yet is allowed', async () => {
    const app = await anApplication();
    const copy = crypto.randomUUID();
    const { desired } = (await world.repo.get('application', app))!;
    const found = await behind(
      async () => {
        const unit = world.repo.begin();
        const names = { name: `app-${(count += 1)}`, internal_id: `copy-${count}`, host_name: `app-${count}` };
        unit.create('application', copy, { ...desired, ...names });
        await commit(unit);
      },
      () => change(owner, copy),
    );
    expect(found.status).toBe(200);
    const viewer = await member('viewer');
    const allowed = await behind(
      () => world.repo.change('member', viewer.member, (draft) => void (draft.role = 'admin')),
      () => change(viewer, app),
    );
    expect(allowed.status).toBe(200);
  });

  it('a name that another replica gave is refused, and one that it took back is given', async () => {
    const [app, other] = [await anApplication(), await anApplication()];
    const before = (await owner.get(`/applications/${other}`)).data.name;
    const rename = () => owner.put(`/applications/${app}`, { name: 'wanted' });
    const taken = await behind(
      () => world.repo.change('application', other, (draft) => void (draft.name = 'wanted')),
      rename,
    );
    expect([taken.status, taken.body.error?.details?.[0]?.reason]).toEqual([409, 'taken']);
    const free = await behind(
      () => world.repo.change('application', other, (draft) => void (draft.name = before)),
      rename,
    );
    expect(free.status).toBe(200);
  });

  it('a registry that is no longer allowed is refused, also by the first settings of the tenant', async () => {
    const app = await anApplication();
    const allowed = { registries: ['ghcr.io'] };
    const move = () => owner.put(`/applications/${app}`, { image_url: 'quay.io/example/web:1' });
    const unit = world.repo.begin();
    unit.create('settings', settingsId, { budgets: {}, ...allowed });
    expect((await behind(() => commit(unit), move)).status).toBe(400);
    await owner.put('/settings', { registries: ['ghcr.io', 'quay.io'] });
    const narrow = () => world.repo.change('settings', settingsId, (draft) => void Object.assign(draft, allowed));
    expect((await behind(narrow, move)).status).toBe(400);
    const { desired } = (await world.repo.get('application', app))!;
    expect(desired.source).toMatchObject({ image_url: 'ghcr.io/example/web:1' });
  });

  it('a change waits for the change before it, instead of losing to it', async () => {
    const app = await anApplication();
    await world.settled();
    store.hold();
    store.reset();
    expect((await change(owner, app)).status).toBe(200);
    const second = await waiting(() => change(owner, app));
    store.release();
    expect([(await second.answer).status, ...store.asked]).toEqual([200, 'txn', 'txn']);
  });

  it('a change gets 503 if the mirror does not show the change before it for two seconds', async () => {
    const app = await anApplication();
    await world.settled();
    store.hold();
    expect((await change(owner, app)).status).toBe(200);
    const second = await waiting(() => change(owner, app));
    await clock.advance(2000);
    const { status, body } = await second.answer;
    expect([status, body.error?.details?.[0]?.reason]).toEqual([503, 'not_written']);
  });

  it('a repeated key gets the answer that another replica gave', async () => {
    const app = await anApplication();
    const key = { 'idempotency-key': 'twice' };
    const other = createClient(`${await world.replica()}/default/api/v1`, owner.token);
    const scale = (by: Client) => by.post(`/applications/${app}/scale`, { replicas: 3 }, key);
    await world.settled();
    await clock.advance(1); // the answer shows a later change than the creation
    store.hold();
    const first = await scale(other);
    store.onRevision = () => store.release();
    const second = await scale(owner);
    expect([first.status, second.status, second.data]).toEqual([200, 200, first.data]);
    expect((await world.repo.get('application', app))?.meta.generation).toBe(2);
  });

  it('a deployment that has ended since is neither cancelled nor answered as the one under way', async () => {
    const app = await anApplication();
    const deploy = () => owner.post(`/applications/${app}/deploy`);
    const end = async (id: string) => {
      const it = (await world.repo.get('deployment', id))!;
      const observed = { phase: 'failed' as const, observedGeneration: it.meta.generation, conditions: [] };
      await world.repo.observe(it, observed, []);
    };
    const first = (await deploy()).data.id;
    const second = (await behind(() => end(first), deploy)).data.id;
    expect(second).not.toBe(first);
    const stopped = await behind(
      () => end(second),
      () => owner.post(`/applications/${app}/stop`),
    );
    expect(stopped.status).toBe(200);
    expect((await world.repo.get('deployment', second))?.desired.cancel_requested).toBe(false);
  });

  it('nothing is written to a tenant that is being deleted', async () => {
    expect(await requestTenantDeletion(store, 'default', clock)).toBe('last');
    await store.txn({
      if: [],
      then: [{ put: keys.tenant('other'), value: JSON.stringify({ created_at: clock.now().toISOString() }) }],
    });
    const app = await anApplication();
    const before = await watchPaths(app);
    const answer = await behind(
      () => requestTenantDeletion(store, 'default', clock),
      () => change(owner, app),
    );
    expect([answer.status, await watchPaths(app)]).toEqual([404, before]);
  });
});
