import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { countLimits } from '../../api/rights/count-limits.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

let world: ApiWorld;

beforeEach(async () => {
  world = await startApi();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

type User = Awaited<ReturnType<ApiWorld['user']>>;
const login = (email: string) => world.client().post('/auth/login', { email, password });

/** The code by which an open stream of that user is closed. */
async function openStream(by: { token: string | undefined }): Promise<{ closed: Promise<number> }> {
  const socket = new WebSocket(`${world.url.replace('http', 'ws')}/default/ws/notifications?token=${by.token}`);
  await once(socket, 'open');
  return { closed: once(socket, 'close').then(([code]) => code as number) };
}

describe('the users of a tenant', () => {
  it('are seen by its admins, with what may be seen of them', async () => {
    const [owner, admin, user] = [await world.owner(), await world.user('admin'), await world.user()];
    expect((await user.get('/users')).status).toBe(403);
    const listed = await admin.get('/users?sort=created_at');
    expect(listed.data.map(({ role }: { role: string }) => role)).toEqual(['superadmin', 'admin', 'user']);
    expect(JSON.stringify(listed.body)).not.toMatch(/argon2|password_hash|"two_factor"/);
    expect((await owner.get(`/users/${user.id}`)).data).toMatchObject({ id: user.id, role: 'user', disabled: false });
    const again = await owner.put(`/users/${user.id}`, (await owner.get(`/users/${user.id}`)).data);
    expect([again.status, again.data.role]).toEqual([200, 'user']);
    expect((await owner.get('/users?status=disabled')).data).toEqual([]);
  });

  it('and their keys carry what every object does', async () => {
    const owner = await world.owner();
    const made = await owner.post('/settings/service-keys', { name: 'ci' });
    const shown = [
      (await owner.get('/auth/me')).data,
      (await owner.get('/users')).data[0],
      (await owner.get('/settings/service-keys')).data[0],
      made.data,
    ];
    const carried = { generation: 1, observed_generation: 1, labels: {}, conditions: [] };
    for (const it of shown)
      expect(it).toMatchObject({
        ...carried,
        resource_version: expect.stringMatching(/^\d+$/),
        updated_at: expect.any(String),
      });
    expect((await owner.get('/users?labelSelector=team')).data).toEqual([]);
  });

  it('are changed by whoever stands above them', async () => {
    const [owner, admin, other, user] = [
      await world.owner(),
      await world.user('admin'),
      await world.user('admin'),
      await world.user(),
    ];
    const boss = (await owner.get('/auth/me')).data.id;
    for (const id of [boss, other.id, admin.id])
      expect((await admin.put(`/users/${id}`, { first_name: 'New' })).status, id).toBe(403);
    for (const id of [boss, other.id]) expect((await admin.delete(`/users/${id}`)).status).toBe(403);
    for (const role of ['admin', 'superadmin'])
      expect((await admin.put(`/users/${user.id}`, { role })).status, role).toBe(403);
    expect((await admin.put(`/users/${user.id}`, { first_name: 'New' })).data.first_name).toBe('New');
    expect((await owner.put(`/users/${user.id}`, { role: 'admin' })).data.role).toBe('admin');
    expect((await owner.put(`/users/${user.id}`, { role: 'emperor' })).status).toBe(400);
    expect((await owner.put(`/users/${user.id}`, { email: 'new@example.test' })).data.email).not.toBe(
      'new@example.test',
    );
    expect((await owner.put(`/users/${user.id}`, { password_hash: 'x' })).status).toBe(400);
  });

  it('lose sessions and streams when role or access changes, and keep them when only a name does', async () => {
    const [owner, user] = [await world.owner(), await world.user()];
    await owner.put(`/users/${user.id}`, { first_name: 'New' });
    expect((await user.get('/auth/me')).status).toBe(200);
    const { closed } = await openStream(user);
    expect((await owner.put(`/users/${user.id}`, { role: 'admin' })).status).toBe(200);
    expect(await closed).toBe(4401);
    expect((await user.get('/auth/me')).status).toBe(401);
    const next = world.client((await login('user-1@example.test')).data.token);
    const { closed: closedToo } = await openStream(next);
    await owner.put(`/users/${user.id}`, { disabled: true });
    expect(await closedToo).toBe(4401);
    expect((await next.get('/auth/me')).status).toBe(401);
    expect((await login('user-1@example.test')).status).toBe(401);
    await owner.put(`/users/${user.id}`, { disabled: false });
    expect((await login('user-1@example.test')).status).toBe(200);
    expect((await next.get('/auth/me')).status).toBe(401);
  });

  it('keep their projects from being left without an owner', async () => {
    const [owner, user] = [await world.owner(), await world.user()];
    const project = (await user.post('/projects', { name: 'Shop' })).data.id;
    const refused = await owner.delete(`/users/${user.id}`);
    expect([refused.status, refused.body.error?.message]).toEqual([
      409,
      'Cannot delete the user, who owns projects: Shop. Transfer or delete them first',
    ]);
    expect(refused.body.error?.details?.[0]?.reason).toBe('owns_project');
    const unit = world.repo.begin();
    unit.change((await world.repo.get('project', project))!, (draft) => void (draft.owner_id = crypto.randomUUID()));
    await unit.commit();
    expect((await owner.delete(`/users/${user.id}`)).status).toBe(204);
    expect((await user.get('/auth/me')).status).toBe(401);
    expect((await owner.get(`/users/${user.id}`)).status).toBe(404);
  });

  it('are deleted or make a project, never both', async () => {
    const owner = await world.owner();
    for (let n = 0; n < 10; n += 1) {
      const user = await world.user();
      const [made, deleted] = await Promise.all([
        user.post('/projects', { name: `Shop ${n}` }),
        owner.delete(`/users/${user.id}`),
      ]);
      expect([made.status === 201, deleted.status === 204]).not.toEqual([true, true]);
      const view = world.mirror.tenant('default');
      await world.settled();
      for (const project of view.list('project')) expect(view.get('user', project.desired.owner_id)).toBeDefined();
    }
  });
});

describe('an invite to the tenant', () => {
  it('is sent by whoever stands above the role that it gives', async () => {
    const [owner, admin, user] = [await world.owner(), await world.user('admin'), await world.user()];
    const email = 'ada@example.test';
    expect((await user.post('/users/invites', { email })).status).toBe(403);
    expect((await admin.post('/users/invites', { email, role: 'admin' })).status).toBe(403);
    expect((await owner.post('/users/invites', { email, role: 'superadmin' })).status).toBe(400);
    const made = await owner.post('/users/invites', { email, role: 'admin' });
    expect(made.data).toMatchObject({ email, role: 'admin', project_id: null, status: 'pending' });
    expect((await admin.post('/users/invites', { email: 'ADA@example.test' })).status).toBe(409);
    expect((await owner.post('/users/invites', { email: 'user-1@example.test' })).status).toBe(409);
    expect((await admin.get('/users/invites')).data.map(({ id }: { id: string }) => id)).toEqual([made.data.id]);
    expect((await admin.delete(`/users/invites/${made.data.id}`)).status).toBe(403);
    expect((await owner.delete(`/users/invites/${made.data.id}`)).status).toBe(204);
    expect((await admin.post('/users/invites', { email })).status).toBe(201);
  });

  it('makes an account by a one-time code, once, and is then no invite any more', async () => {
    const owner = await world.owner();
    const email = 'ada@example.test';
    const { id } = (await owner.post('/users/invites', { email, role: 'admin' })).data;
    await world.client().post('/auth/send-code', { email });
    await expect.poll(() => world.mails.length).toBe(1);
    const code = /^\d{6}/.exec(world.mails[0]!.text)![0];
    const answer = await world.client().post('/auth/verify-code', { email, code });
    expect(answer.data.user).toMatchObject({ email, role: 'admin' });
    expect((await owner.get('/users/invites')).data).toEqual([]);
    expect((await owner.delete(`/users/invites/${id}`)).status).toBe(409);
    expect((await owner.post('/users/invites', { email })).status).toBe(409);
  });

  it('reaches an address at most 20 times a day, cancelled ones included', async () => {
    const owner = await world.owner();
    for (let n = 0; n < countLimits.invitesPerAddressAndDay; n += 1) {
      const { data } = await owner.post('/users/invites', { email: 'Ada@example.test' });
      expect((await owner.delete(`/users/invites/${data.id}`)).status).toBe(204);
      expect((await owner.delete(`/users/invites/${data.id}`)).status).toBe(404);
    }
    const refused = await owner.post('/users/invites', { email: 'ada@example.test' });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(86_000);
  });

  it('to a project is none', async () => {
    const owner = await world.owner();
    const { project } = await world.place(owner);
    const { id } = (await owner.post(`/projects/${project}/invites`, { email: 'ada@example.test' })).data;
    expect((await owner.get('/users/invites')).data).toEqual([]);
    expect((await owner.delete(`/users/invites/${id}`)).status).toBe(404);
  });
});

describe('SEC-31: the last superadmin', () => {
  it('is neither demoted, disabled nor deleted', async () => {
    const owner = await world.owner();
    const { id } = (await owner.get('/auth/me')).data;
    const off = await world.user('superadmin');
    await owner.put(`/users/${off.id}`, { disabled: true });
    for (const body of [{ role: 'user' }, { role: 'admin' }, { disabled: true }])
      expect((await owner.put(`/users/${id}`, body)).status, JSON.stringify(body)).toBe(409);
    expect((await owner.delete(`/users/${id}`)).status).toBe(409);
    await owner.put(`/users/${off.id}`, { disabled: false });
    expect((await owner.put(`/users/${id}`, { role: 'admin' })).status).toBe(200);
    expect((await owner.get('/auth/me')).data.role).toBe('admin');
  });

  const ways: Record<string, (by: User, of: User) => ReturnType<User['put']>> = {
    'demote each other': (by, of) => by.put(`/users/${of.id}`, { role: 'user' }),
    'delete each other': (by, of) => by.delete(`/users/${of.id}`),
    'resign at once': (by) => by.put(`/users/${by.id}`, { disabled: true }),
  };

  it.each(Object.entries(ways))('remains when two of them %s', async (_, way) => {
    for (let n = 0; n < 8; n += 1) {
      const [one, two] = [await world.user('superadmin'), await world.user('superadmin')];
      for (const { meta } of world.mirror.tenant('default').list('user'))
        if (meta.id !== one.id && meta.id !== two.id)
          await world.repo.change('user', meta.id, (draft) => void (draft.role = 'user'));
      await world.settled();
      const answers = await Promise.all([way(one, two), way(two, one)]);
      expect(answers.filter(({ status }) => status === 200 || status === 204)).toHaveLength(1);
      await world.settled();
      const left = world.mirror.tenant('default').list('user');
      expect(left.filter(({ desired }) => desired.role === 'superadmin' && !desired.disabled)).toHaveLength(1);
    }
  });
});

describe('SEC-36: one’s sessions', () => {
  it('are listed, ended one by one, and all but the own', async () => {
    const user = await world.user('user', 'ada@example.test');
    const headers = { 'user-agent': 'a telephone' };
    const answer = await world.client().post('/auth/login', { email: 'ada@example.test', password }, headers);
    const phone = world.client(answer.data.token);
    const listed = (await user.get('/auth/sessions')).data;
    expect(listed).toEqual([
      {
        id: expect.any(String),
        current: false,
        source: '127.0.0.1',
        user_agent: 'a telephone',
        created_at: expect.any(String),
        expires_at: expect.any(String),
      },
      expect.objectContaining({ current: true }),
    ]);
    expect((await phone.get('/auth/sessions')).data.map(({ current }: { current: boolean }) => current)).toEqual([
      true,
      false,
    ]);
    const stranger = await world.user();
    expect((await stranger.delete(`/auth/sessions/${listed[0].id}`)).status).toBe(404);
    expect((await stranger.get('/auth/sessions')).data).toHaveLength(1);
    expect((await user.delete(`/auth/sessions/${listed[0].id}`)).status).toBe(204);
    expect((await phone.get('/auth/me')).status).toBe(401);
    for (let n = 0; n < 12; n += 1) await login('ada@example.test');
    expect((await user.delete('/auth/sessions')).data).toEqual({ ended: 12 });
    expect((await user.get('/auth/sessions')).data).toHaveLength(1);
    expect((await stranger.get('/auth/me')).status).toBe(200);
  });

  it('and their streams end when the password changes, all but the own', async () => {
    const user = await world.user('user', 'ada@example.test');
    const other = world.client((await login('ada@example.test')).data.token);
    const { closed } = await openStream(other);
    const body = { current_password: password, new_password: 'another horse battery' };
    expect((await user.put('/auth/me/password', body)).status).toBe(200);
    expect(await closed).toBe(4401);
    expect((await user.get('/auth/me')).status).toBe(200);
  });
});
