import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { countLimits } from '../../api/rights/count-limits.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';

type Person = Client & { id: string };
type Role = 'admin' | 'member' | 'viewer';

let world: ApiWorld;
let root: Client;
let owner: Person;
let project: string;

beforeAll(async () => {
  world = await startApi();
  root = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
beforeEach(async () => {
  owner = await world.user();
  project = (await owner.post('/projects', { name: `project ${(count += 1)}` })).data.id;
});

async function aMember(role: Role): Promise<Person & { memberId: string }> {
  const user = await world.user();
  const made = await owner.post(`/projects/${project}/members`, { user_id: user.id, role });
  expect(made.status).toBe(201);
  return Object.assign(user, { memberId: made.data.id });
}

async function roles(): Promise<Record<string, string>> {
  const { data } = await root.get(`/projects/${project}/members`);
  return Object.fromEntries(data.map((it: { user_id: string; role: string }) => [it.user_id, it.role]));
}

function give(by: Client, user: string, role: string): Promise<Answer> {
  return by.post(`/projects/${project}/members`, { user_id: user, role });
}

function change(by: Client, member: string, role: string): Promise<Answer> {
  return by.put(`/projects/${project}/members/${member}`, { role });
}

function remove(by: Client, member: string): Promise<Answer> {
  return by.delete(`/projects/${project}/members/${member}`);
}

function transfer(by: Client, to: string): Promise<Answer> {
  return by.post(`/projects/${project}/transfer`, { new_owner_id: to });
}

describe('the members of a project', () => {
  it('are listed with their names, the owner first among the oldest', async () => {
    const user = await world.user('user', 'Ada@example.test');
    await user.put('/auth/me', { first_name: 'Ada', last_name: 'Lovelace' });
    const made = await give(owner, user.id, 'viewer');
    expect(made.data).toMatchObject({ user_id: user.id, project_id: project, role: 'viewer', status: 'active' });
    expect(made.headers.get('etag')).toBe(`"${made.data.resource_version}"`);
    const { body, data } = await user.get(`/projects/${project}/members?sort=created_at`);
    expect(body.meta).toMatchObject({ total: 2 });
    expect(data).toEqual([
      expect.objectContaining({ id: owner.id, user_id: owner.id, role: 'owner', project_id: project }),
      { ...made.data, email: 'Ada@example.test', first_name: 'Ada', last_name: 'Lovelace' },
    ]);
    const found = await owner.get(`/projects/${project}/members?q=lovelace`);
    expect(found.data.map((it: { user_id: string }) => it.user_id)).toEqual([user.id]);
    expect((await user.get('/projects')).data.map((it: { id: string }) => it.id)).toEqual([project]);
  });

  it('are shown at once with what changed of their user', async () => {
    const member = await aMember('member');
    await owner.get(`/projects/${project}/members`);
    await world.repo.change('user', member.id, (draft) => void (draft.disabled = true));
    const { data } = await owner.get(`/projects/${project}/members?status=disabled`);
    expect(data).toEqual([expect.objectContaining({ user_id: member.id, status: 'disabled' })]);
  });

  it('have a role once, and only if they are users who can use it', async () => {
    const user = await world.user();
    expect((await give(owner, user.id, 'owner')).status).toBe(400);
    expect((await give(owner, user.id, 'viewer')).status).toBe(201);
    const twice = await give(owner, user.id, 'admin');
    expect([twice.status, twice.body.error?.details?.[0]]).toEqual([
      409,
      expect.objectContaining({ field: 'user_id', reason: 'taken' }),
    ]);
    expect((await give(owner, owner.id, 'viewer')).status).toBe(409);
    expect((await give(owner, crypto.randomUUID(), 'viewer')).status).toBe(404);
    const disabled = await world.user();
    await world.repo.change('user', disabled.id, (draft) => void (draft.disabled = true));
    const refused = await give(owner, disabled.id, 'viewer');
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([409, 'disabled']);
    expect((await give(owner, (await world.user()).id, 'viewer')).status).toBe(201);
    expect(await roles()).toMatchObject({ [user.id]: 'viewer', [owner.id]: 'owner' });
  });

  it('are at most 500 beside the owner', async () => {
    const { id, tenant } = { id: project, tenant: world.repo };
    for (let n = 0; n < countLimits.membersPerProject; n += 10) {
      const unit = tenant.begin();
      for (let m = 0; m < 10; m += 1)
        unit.create('member', crypto.randomUUID(), { project_id: id, user_id: crypto.randomUUID(), role: 'viewer' });
      expect((await unit.commit()).committed).toBe(true);
    }
    const refused = await give(owner, (await world.user()).id, 'viewer');
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([409, 'limit']);
    expect(refused.body.error?.message).toContain('at most 500');
  });
});

describe('SEC-31: a role', () => {
  it('is given and taken only by whoever stands above it', async () => {
    const admin = await aMember('admin');
    const second = await aMember('admin');
    const member = await aMember('member');
    const viewer = await aMember('viewer');
    const user = await world.user();
    const refused = [
      await give(admin, user.id, 'admin'),
      await change(admin, member.id, 'admin'),
      await change(admin, second.id, 'viewer'),
      await change(admin, admin.id, 'admin'),
      await change(admin, owner.id, 'viewer'),
      await change(owner, owner.id, 'viewer'),
      await change(root, owner.id, 'admin'),
      await remove(admin, second.id),
      await remove(admin, owner.id),
      await remove(root, owner.id),
      await give(member, user.id, 'viewer'),
      await change(member, viewer.id, 'member'),
      await change(viewer, viewer.id, 'member'),
      await remove(member, viewer.id),
      await remove(viewer, member.id),
      await transfer(admin, member.id),
    ];
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
    expect(await roles()).toEqual({
      [owner.id]: 'owner',
      [admin.id]: 'admin',
      [second.id]: 'admin',
      [member.id]: 'member',
      [viewer.id]: 'viewer',
    });
    const granted = [
      await give(admin, user.id, 'member'),
      await change(admin, viewer.memberId, 'member'),
      await change(admin, member.id, 'viewer'),
      await change(owner, second.id, 'viewer'),
      await change(root, second.id, 'admin'),
    ];
    expect(granted.map(({ status }) => status)).toEqual([201, 200, 200, 200, 200]);
    expect((await remove(admin, user.id)).status).toBe(204);
    expect((await remove(owner, second.id)).status).toBe(204);
    expect(await roles()).toEqual({
      [owner.id]: 'owner',
      [admin.id]: 'admin',
      [member.id]: 'viewer',
      [viewer.id]: 'member',
    });
  });

  it('counts from the next request on, in lists too', async () => {
    const member = await aMember('viewer');
    const base = `/projects/${project}`;
    const see = async () => [
      (await member.get(base)).status,
      (await member.get('/projects')).body.meta?.total,
      (await member.get(`${base}/environments`)).status,
    ];
    expect(await see()).toEqual([200, 1, 200]);
    expect((await member.put(base, { description: 'mine' })).status).toBe(403);
    await change(owner, member.id, 'admin');
    expect((await member.put(base, { description: 'mine' })).status).toBe(200);
    await change(owner, member.id, 'viewer');
    expect((await member.put(base, { description: 'mine' })).status).toBe(403);
    await remove(owner, member.id);
    expect(await see()).toEqual([403, 0, 403]);
    await give(owner, member.id, 'viewer');
    expect(await see()).toEqual([200, 1, 200]);
  });

  it('is left behind by whoever leaves, which the owner cannot', async () => {
    for (const role of ['admin', 'member', 'viewer'] as const) {
      const one = await aMember(role);
      expect((await remove(one, one.memberId)).status).toBe(204);
      expect((await one.get(`/projects/${project}`)).status).toBe(403);
    }
    const refused = await remove(owner, owner.id);
    expect([refused.status, refused.body.error?.message]).toEqual([409, expect.stringContaining('transfer it')]);
  });

  it('is found below its own project, by either of its ids', async () => {
    const member = await aMember('viewer');
    const other = (await owner.post('/projects', { name: `other ${project}` })).data.id;
    for (const id of [member.memberId, member.id])
      expect((await owner.put(`/projects/${other}/members/${id}`, { role: 'admin' })).status).toBe(404);
    expect((await owner.delete(`/projects/${other}/members/${member.memberId}`)).status).toBe(404);
    expect((await change(owner, 'x', 'member')).status).toBe(400);
    const same = await change(owner, member.memberId, 'viewer');
    expect(same.data.generation).toBe(1);
    const stale = await owner.put(
      `/projects/${project}/members/${member.id}`,
      { role: 'member' },
      { 'if-match': '"1"' },
    );
    expect(stale.status).toBe(409);
    const back = await owner.put(`/projects/${project}/members/${member.id}`, { ...same.data, role: 'member' });
    expect(back.data).toMatchObject({ role: 'member', user_id: member.id, generation: 2, observed_generation: 2 });
  });

  it('notifies the users whom it concerns', async () => {
    const member = await aMember('viewer');
    await change(owner, member.id, 'member');
    const heard = async () => (await member.get('/notifications?sort=created_at')).data;
    const about = expect.objectContaining({ kind: 'project', id: project });
    expect(await heard()).toEqual([
      expect.objectContaining({ kind: 'member_added', resource: about }),
      expect.objectContaining({ kind: 'member_changed', resource: about }),
    ]);
    await remove(owner, member.id);
    expect(await heard()).toEqual([expect.objectContaining({ kind: 'member_removed', resource: about })]);
  });

  it('stays until a project that is being deleted is gone, and nothing is given any more', async () => {
    const member = await aMember('viewer');
    await owner.delete(`/projects/${project}`);
    expect((await member.get(`/projects/${project}`)).data.status).toBe('deleting');
    expect((await give(owner, (await world.user()).id, 'viewer')).status).toBe(409);
    expect((await change(owner, member.id, 'member')).status).toBe(409);
    expect((await transfer(owner, member.id)).status).toBe(409);
    expect((await remove(member, member.id)).status).toBe(204);
  });
});

describe('a transfer', () => {
  it('makes a member the owner and the owner an admin', async () => {
    const heir = await aMember('viewer');
    const answer = await transfer(owner, heir.id);
    expect([answer.status, answer.data.owner_id]).toEqual([200, heir.id]);
    expect(await roles()).toEqual({ [heir.id]: 'owner', [owner.id]: 'admin' });
    expect((await owner.delete(`/projects/${project}`)).status).toBe(403);
    expect((await transfer(owner, owner.id)).status).toBe(403);
    expect((await owner.put(`/projects/${project}`, { description: 'still' })).status).toBe(200);
    expect((await transfer(heir, owner.id)).status).toBe(200);
    expect(await roles()).toEqual({ [owner.id]: 'owner', [heir.id]: 'admin' });
  });

  it('goes to an active member alone', async () => {
    const disabled = await aMember('admin');
    await world.repo.change('user', disabled.id, (draft) => void (draft.disabled = true));
    const reasons = [];
    for (const to of [(await world.user()).id, disabled.id, crypto.randomUUID()]) {
      const { status, body } = await transfer(owner, to);
      reasons.push([status, body.error?.details?.[0]?.field, body.error?.details?.[0]?.reason]);
    }
    expect(reasons).toEqual([
      [409, 'new_owner_id', 'not_a_member'],
      [409, 'new_owner_id', 'disabled'],
      [404, 'new_owner_id', 'not_found'],
    ]);
  });

  it('to the user who owns the project changes nothing and notifies nobody', async () => {
    const before = await world.repo.get('project', project);
    const notified = async () => (await owner.get('/notifications')).body.meta?.total;
    const count = await notified();
    for (const by of [owner, root])
      expect(await transfer(by, owner.id)).toMatchObject({ status: 200, data: { id: project, owner_id: owner.id } });
    expect(await world.repo.get('project', project)).toEqual(before);
    expect(await notified()).toBe(count);
    expect(await roles()).toEqual({ [owner.id]: 'owner' });
  });

  it('by an admin of the tenant notifies both', async () => {
    const heir = await aMember('member');
    expect((await transfer(root, heir.id)).status).toBe(200);
    for (const one of [heir, owner])
      expect((await one.get('/notifications')).data[0]).toMatchObject({ kind: 'project_transferred' });
  });
});

describe('SEC-37: a service key', () => {
  it('loses at once what its creator loses', async () => {
    const member = await aMember('admin');
    const key = async (limits: object): Promise<Client> => {
      const { data } = await member.post('/settings/service-keys', { name: 'ci', ...limits });
      const headers = { 'x-service-key': data.key as string };
      const anonymous = world.client();
      return {
        ...anonymous,
        get: (path) => anonymous.get(path, headers),
        put: (path, body) => anonymous.put(path, body, headers),
      };
    };
    const keys = [await key({}), await key({ project_id: project })];
    const see = async (by: Client) => [
      (await by.put(`/projects/${project}`, { description: 'by key' })).status,
      (await by.get(`/projects/${project}`)).status,
      (await by.get('/projects')).body.meta?.total,
    ];
    for (const one of keys) expect(await see(one)).toEqual([200, 200, 1]);
    await change(owner, member.id, 'viewer');
    for (const one of keys) expect(await see(one)).toEqual([403, 200, 1]);
    await remove(owner, member.id);
    for (const one of keys) expect(await see(one)).toEqual([403, 403, 0]);
  });
});

describe('a hundred at once', () => {
  it('transfer a project: it has one owner at every time, and nobody is lost', async () => {
    const people = [await aMember('viewer'), await aMember('member'), await aMember('admin')];
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) => transfer(root, [...people, owner][n % 4]!.id)),
    );
    expect(answers.every(({ status }) => [200, 409].includes(status))).toBe(true);
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    const after = await roles();
    const { owner_id } = (await root.get(`/projects/${project}`)).data;
    expect(Object.entries(after).filter(([, role]) => role === 'owner')).toEqual([[owner_id, 'owner']]);
    expect(Object.keys(after).sort()).toEqual([owner.id, ...people.map(({ id }) => id)].sort());
    expect(after[owner_id === owner.id ? people[0]!.id : owner.id]).not.toBe('owner');
  });

  it('transfer it by its owner, who can do so once', async () => {
    const people = [await aMember('viewer'), await aMember('member')];
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => transfer(owner, people[n % 2]!.id)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(99);
    expect(Object.values(await roles()).filter((role) => role === 'owner')).toHaveLength(1);
    expect((await roles())[owner.id]).toBe('admin');
  });

  it('give a user a role: one does', async () => {
    const user = await world.user();
    const answers = await Promise.all(Array.from({ length: 100 }, () => give(owner, user.id, 'viewer')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(99);
    expect((await roles())[user.id]).toBe('viewer');
  });

  it('give roles while they lose their own: nothing is given afterwards', async () => {
    const admin = await aMember('admin');
    const users = await Promise.all(Array.from({ length: 20 }, () => world.user()));
    const giving = users.map(({ id }) => give(admin, id, 'viewer'));
    expect((await remove(owner, admin.id)).status).toBe(204);
    const afterwards = await roles();
    const answers = await Promise.all(giving);
    expect(answers.every(({ status }) => [201, 403].includes(status))).toBe(true);
    expect(await roles()).toEqual(afterwards);
  });
});
