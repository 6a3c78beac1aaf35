import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { countLimits } from '../../api/rights/count-limits.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';

type Person = Client & { id: string; email: string };

let world: ApiWorld;
let root: Client;
let owner: Person;
let project: string;

beforeAll(async () => {
  world = await startApi();
  root = await world.owner();
  // who may bring in addresses is another question: see grants.test.ts
  await root.put('/settings', { new_addresses: 'users' });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
async function aUser(): Promise<Person> {
  const email = `person-${(count += 1)}@example.test`;
  return Object.assign(await world.user('user', email), { email });
}

beforeEach(async () => {
  owner = await aUser();
  project = (await owner.post('/projects', { name: `project ${(count += 1)}` })).data.id;
});

function invite(by: Client, email: string, role?: string): Promise<Answer> {
  return by.post(`/projects/${project}/invites`, role === undefined ? { email } : { email, role });
}

function accept(by: Client, token: string): Promise<Answer> {
  return by.post(`/invites/${token}/accept`);
}

function cancel(by: Client, id: string): Promise<Answer> {
  return by.delete(`/projects/${project}/invites/${id}`);
}

/** Writes what the controller would after mailing a token; answers with the token. */
async function mailed(id: string): Promise<string> {
  const token = randomBytes(32).toString('base64url');
  await world.observe('invite', id, { token_hashes: [createHash('sha256').update(token).digest('hex')] });
  return token;
}

async function statuses(answers: Promise<Answer>[]): Promise<number[]> {
  return (await Promise.all(answers)).map(({ status }) => status);
}

describe('an invite', () => {
  it('is for an address, good for 7 days, and shows no token to anybody', async () => {
    const user = await aUser();
    const made = await invite(owner, user.email);
    expect(made.status).toBe(201);
    const { id } = made.data;
    expect(made.data).toMatchObject({ email: user.email, role: 'member', status: 'pending', invited_by: owner.id });
    const days = (Date.parse(made.data.expires_at) - Date.parse(made.data.created_at)) / (24 * 3_600_000);
    expect(days).toBeCloseTo(7, 3);
    const token = await mailed(id);
    const shown = [
      await owner.get(`/projects/${project}/invites`),
      await user.get('/me/invites'),
      await user.get(`/invites/${token}`),
      await user.get(`/invites/${id}`),
    ];
    for (const { status, body } of shown) {
      expect(status).toBe(200);
      const hash = createHash('sha256').update(token).digest('hex');
      expect(JSON.stringify(body)).not.toMatch(new RegExp(`${token}|${hash}`));
    }
    expect(shown.slice(0, 2).map(({ data }) => data.map((it: { id: string }) => it.id))).toEqual([[id], [id]]);
    expect(shown[2]!.data).toEqual(shown[3]!.data);
    expect(shown[2]!.data).toMatchObject({ project_id: project, invited_by_email: owner.email });
  });

  it('gives its role to whoever owns the address, once', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email.toUpperCase(), 'admin')).data;
    const token = await mailed(id);
    expect((await user.get(`/projects/${project}`)).status).toBe(403);
    expect((await user.get('/notifications')).data[0]).toMatchObject({ kind: 'invited' });
    const accepted = await accept(user, token);
    expect([accepted.status, accepted.data]).toEqual([
      200,
      expect.objectContaining({ id, status: 'accepted', project_id: project, accepted_at: expect.any(String) }),
    ]);
    expect((await user.put(`/projects/${project}`, { description: 'mine' })).status).toBe(200);
    expect(await statuses([accept(user, token), accept(user, id), cancel(owner, id)])).toEqual([409, 409, 409]);
    expect((await owner.get(`/projects/${project}/invites`)).data).toEqual([]);
    expect((await user.get('/me/invites')).data).toEqual([]);
    expect((await user.get(`/invites/${token}`)).data.status).toBe('accepted');
    expect((await owner.get('/notifications')).data[0]).toMatchObject({ kind: 'invite_accepted' });
  });

  it('is nobody else’s', async () => {
    const [user, other] = [await aUser(), await aUser()];
    const { id } = (await invite(owner, user.email)).data;
    const token = await mailed(id);
    for (const name of [token, id]) {
      expect((await other.get(`/invites/${name}`)).status).toBe(404);
      expect((await accept(other, name)).status).toBe(403);
      // whatever one's rights are
      expect((await root.get(`/invites/${name}`)).status).toBe(404);
      expect((await accept(root, name)).status).toBe(403);
      expect((await world.client().get(`/invites/${name}`)).status).toBe(401);
    }
    for (const name of ['x', randomBytes(32).toString('base64url'), crypto.randomUUID()]) {
      expect((await user.get(`/invites/${name}`)).status).toBe(404);
      expect((await accept(user, name)).status).toBe(404);
    }
    expect((await root.get('/me/invites')).data).toEqual([]);
    expect((await other.get('/me/invites')).data).toEqual([]);
    expect((await accept(user, token)).status).toBe(200);
  });

  it('is one per address and project, until it is cancelled', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    const again = await invite(owner, user.email.toUpperCase());
    expect([again.status, again.body.error?.details?.[0]]).toEqual([
      409,
      expect.objectContaining({ field: 'email', reason: 'taken' }),
    ]);
    const token = await mailed(id);
    expect((await cancel(owner, id)).status).toBe(204);
    expect(await statuses([accept(user, token), accept(user, id), cancel(owner, id)])).toEqual([404, 404, 404]);
    expect((await user.get(`/invites/${token}`)).status).toBe(404);
    expect((await invite(owner, user.email)).status).toBe(201);
  });

  it('is gone when its time is over, and another can be made', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    const token = await mailed(id);
    await world.repo.change('invite', id, (draft) => void (draft.expires_at = new Date().toISOString()));
    expect((await user.get('/me/invites')).data).toEqual([]);
    expect((await owner.get(`/projects/${project}/invites`)).data).toEqual([]);
    expect((await user.get(`/invites/${token}`)).status).toBe(404);
    expect(await statuses([accept(user, token), accept(user, id), cancel(owner, id)])).toEqual([404, 404, 404]);
    const anew = await invite(owner, user.email);
    expect(anew.status).toBe(201);
    expect((await accept(user, anew.data.id)).status).toBe(200);
  });

  it('is not for members, and goes when its address gets a role otherwise', async () => {
    const user = await aUser();
    expect((await invite(owner, owner.email)).status).toBe(409);
    const { id } = (await invite(owner, user.email)).data;
    await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'viewer' });
    expect((await accept(user, id)).status).toBe(404);
    expect((await invite(owner, user.email)).status).toBe(409);
    expect((await owner.get(`/projects/${project}/invites`)).data).toEqual([]);
  });

  it('offers no role at or above that of its sender', async () => {
    const admin = await aUser();
    await owner.post(`/projects/${project}/members`, { user_id: admin.id, role: 'admin' });
    expect((await invite(admin, 'a@example.test', 'admin')).status).toBe(403);
    expect((await invite(admin, 'a@example.test', 'viewer')).status).toBe(201);
    expect((await invite(owner, 'b@example.test', 'admin')).status).toBe(201);
    expect((await invite(owner, 'c@example.test', 'owner')).status).toBe(400);
    expect((await invite(owner, 'c', 'viewer')).status).toBe(400);
    expect((await owner.get(`/projects/${project}/invites?sort=email`)).data).toEqual([
      expect.objectContaining({ email: 'a@example.test' }),
      expect.objectContaining({ email: 'b@example.test' }),
    ]);
  });

  it('is worth nothing when its sender may invite no more', async () => {
    const [admin, user] = [await aUser(), await aUser()];
    await owner.post(`/projects/${project}/members`, { user_id: admin.id, role: 'admin' });
    const { id } = (await invite(admin, user.email)).data;
    await owner.put(`/projects/${project}/members/${admin.id}`, { role: 'member' });
    expect((await accept(user, id)).status).toBe(404);
    expect((await user.get('/me/invites')).data).toEqual([]);
    expect((await owner.get(`/projects/${project}/invites`)).data).toEqual([]);
    const anew = await invite(owner, user.email, 'viewer');
    expect(anew.status).toBe(201);
    expect((await accept(user, anew.data.id)).status).toBe(200);
  });

  it('is worth nothing when it offers what its sender may give no more', async () => {
    const [heir, user] = [await aUser(), await aUser()];
    await owner.post(`/projects/${project}/members`, { user_id: heir.id, role: 'member' });
    const { id } = (await invite(owner, user.email, 'admin')).data;
    const kept = (await invite(owner, 'viewer@example.test', 'viewer')).data;
    expect((await owner.post(`/projects/${project}/transfer`, { new_owner_id: heir.id })).status).toBe(200);
    expect((await accept(user, id)).status).toBe(404);
    const open = (await heir.get(`/projects/${project}/invites`)).data;
    expect(open.map((it: { id: string }) => it.id)).toEqual([kept.id]);
  });

  it('is not for a key that is narrowed to a project', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    const own = (await user.post('/projects', { name: `own ${project}` })).data.id;
    const { key } = (await user.post('/settings/service-keys', { name: 'ci', project_id: own })).data;
    const headers = { 'x-service-key': key as string };
    const client = world.client();
    expect((await client.get('/me/invites', headers)).status).toBe(403);
    expect((await client.get(`/invites/${id}`, headers)).status).toBe(403);
    expect((await client.post(`/invites/${id}/accept`, {}, headers)).status).toBe(403);
  });

  it('leads nowhere when its project is being deleted', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    await owner.delete(`/projects/${project}`);
    expect((await accept(user, id)).status).toBe(409);
    expect((await invite(owner, 'new@example.test')).status).toBe(409);
  });

  it('reaches an address at most 20 times a day, cancelled ones included', async () => {
    for (let n = 0; n < countLimits.invitesPerAddressAndDay; n += 1) {
      const { data } = await invite(owner, 'Flooded@example.test');
      expect((await cancel(owner, data.id)).status).toBe(204);
    }
    const other = await aUser();
    const elsewhere = (await other.post('/projects', { name: `elsewhere ${project}` })).data.id;
    for (const path of [`/projects/${project}/invites`, `/projects/${elsewhere}/invites`]) {
      const refused = await (path.includes(project) ? owner : other).post(path, { email: 'flooded@example.test' });
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(86_000);
    }
    expect((await invite(owner, 'another@example.test')).status).toBe(201);
  });

  it('is one of at most 200 that wait', async () => {
    for (let n = 0; n < countLimits.openInvitesPerProject; n += 10) {
      const unit = world.repo.begin();
      for (let m = 0; m < 10; m += 1)
        unit.create('invite', crypto.randomUUID(), {
          project_id: project,
          email: `many-${n + m}@example.test`,
          role: 'viewer',
          invited_by: owner.id,
          expires_at: new Date(Date.now() + 60_000).toISOString(),
          state: 'pending',
        });
      expect((await unit.commit()).committed).toBe(true);
    }
    const refused = await invite(owner, 'one-more@example.test');
    expect([refused.status, refused.body.error?.details?.[0]?.reason]).toEqual([409, 'limit']);
    expect(refused.body.error?.message).toContain('at most 200');
  });
});

describe('a hundred at once', () => {
  it('accept an invite: one does, and there is one membership', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    const token = await mailed(id);
    const answers = await statuses(Array.from({ length: 100 }, (_, n) => accept(user, n % 2 === 0 ? token : id)));
    expect(answers.toSorted((a, b) => a - b)).toEqual([200, ...Array.from({ length: 99 }, () => 409)]);
    await world.settled();
    const members = world.mirror.tenant('default').by('member', 'project', project);
    expect(members.map(({ desired }) => desired.user_id)).toEqual([user.id]);
  });

  it('invite one address: one does', async () => {
    const answers = await statuses(
      Array.from({ length: 100 }, (_, n) => invite(owner, n % 2 === 0 ? 'same@example.test' : 'SAME@example.test')),
    );
    expect(answers.toSorted((a, b) => a - b)).toEqual([201, ...Array.from({ length: 99 }, () => 409)]);
  });

  it('accept and cancel: who is a member was not cancelled', async () => {
    const user = await aUser();
    const { id } = (await invite(owner, user.email)).data;
    const [accepting, cancelling] = [
      Array.from({ length: 10 }, () => accept(user, id)),
      Array.from({ length: 10 }, () => cancel(owner, id)),
    ];
    const accepted = (await statuses(accepting)).filter((status) => status === 200).length;
    const cancelled = (await statuses(cancelling)).filter((status) => status === 204).length;
    expect(accepted + cancelled).toBe(1);
    expect((await user.get(`/projects/${project}`)).status).toBe(accepted === 1 ? 200 : 403);
  });
});
