import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { openFrames } from '../harness/frames.ts';
import { until } from '../harness/until.ts';

let world: ApiWorld;
let root: Client;

beforeEach(async () => {
  world = await startApi();
  root = await world.owner();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

function reasonOf({ status, body }: Answer): [number, string | undefined] {
  return [status, body?.error?.details?.[0]?.reason];
}

const notGranted = [403, 'not_granted'];

describe('a server that names its projects', () => {
  let ann: Client & { id: string };
  let eve: Client & { id: string };
  let own: { project: string; environment: string; server: string };
  let others: { project: string; environment: string; server: string };

  const application = (place: typeof own, name: string, server = own.server) => ({
    project_id: place.project,
    environment_id: place.environment,
    server_id: server,
    name,
    source_type: 'image',
    image_url: 'example/web:1',
  });

  beforeEach(async () => {
    [ann, eve] = [await world.user(), await world.user()];
    [own, others] = [await world.place(ann), await world.place(eve)];
    const set = await root.put(`/servers/${own.server}`, { allowed_projects: [own.project, own.project] });
    expect([set.status, set.data.allowed_projects]).toEqual([200, [own.project]]);
  });

  it('runs what these projects ask for, and nothing of others', async () => {
    expect((await ann.post('/applications', application(own, 'web'))).status).toBe(201);
    expect(reasonOf(await eve.post('/applications', application(others, 'web')))).toEqual(notGranted);
    expect(reasonOf(await root.post('/applications', application(others, 'web')))).toEqual(notGranted);
    const asDefault = { default_server_id: own.server };
    expect(reasonOf(await eve.put(`/projects/${others.project}`, asDefault))).toEqual(notGranted);
    expect(reasonOf(await eve.post('/projects', { name: 'more', ...asDefault }))).toEqual(notGranted);
    const newcomer = await world.user();
    expect(reasonOf(await newcomer.post('/projects', { name: 'first', ...asDefault }))).toEqual(notGranted);
    expect((await newcomer.post('/projects', { name: 'first', default_server_id: others.server })).status).toBe(201);
    expect((await ann.put(`/projects/${own.project}`, asDefault)).status).toBe(200);
    expect((await root.put(`/servers/${own.server}`, { allowed_projects: 'all' })).data.allowed_projects).toBe('all');
    expect((await eve.post('/applications', application(others, 'web'))).status).toBe(201);
  });

  it('takes no copies for others, neither by a map nor where their source runs', async () => {
    await eve.post('/applications', application(others, 'web', others.server));
    const clone = (name: string, body: object = {}) =>
      eve.post(`/projects/${others.project}/environments/${others.environment}/clone`, { name, ...body });
    expect(reasonOf(await clone('a', { server_map: { [others.server]: own.server } }))).toEqual(notGranted);
    await root.put(`/servers/${others.server}`, { allowed_projects: [] });
    expect(reasonOf(await clone('b'))).toEqual(notGranted);
    await root.put(`/servers/${others.server}`, { allowed_projects: null });
    expect((await clone('c')).status).toBe(201);
  });

  it('gets no new deployment of what runs there when the grant is taken; what is there goes on and may be stopped', async () => {
    const { id } = (await ann.post('/applications', application(own, 'web'))).data;
    expect((await ann.post(`/applications/${id}/deploy`)).status).toBe(200);
    await root.put(`/servers/${own.server}`, { allowed_projects: [others.project] });
    expect((await ann.put(`/applications/${id}`, { image_url: 'example/web:2' })).status).toBe(200);
    expect(reasonOf(await ann.post(`/applications/${id}/deploy`))).toEqual(notGranted);
    expect((await ann.post(`/applications/${id}/stop`)).status).toBe(200);
    expect((await ann.delete(`/applications/${id}`)).status).toBe(200);
  });

  it('is seen by who has a role in one of them, and by admins', async () => {
    const ids = async (client: Client) =>
      (await client.get('/servers')).data.map(({ id }: { id: string }) => id).toSorted();
    expect(await ids(ann)).toEqual([own.server, others.server].toSorted());
    expect(await ids(eve)).toEqual([others.server]);
    expect(await ids(root)).toEqual([own.server, others.server].toSorted());
    for (const path of ['', '/agent-status']) {
      expect((await ann.get(`/servers/${own.server}${path}`)).status).toBe(200);
      expect((await eve.get(`/servers/${own.server}${path}`)).status).toBe(403);
    }
    await root.put(`/servers/${own.server}`, { allowed_projects: [] });
    expect(await ids(ann)).toEqual([others.server]);
  });

  it('is sent on streams to the same people', async () => {
    const url = `${world.url.replace('http', 'ws')}/default/ws/watch?kinds=server&token=`;
    await using seen = await openFrames(`${url}${ann.token ?? ''}`);
    await using hidden = await openFrames(`${url}${eve.token ?? ''}`);
    await seen.next('ready');
    const { cursor } = await hidden.next('ready');
    await root.put(`/servers/${own.server}`, { name: 'a secret host' });
    await root.put(`/servers/${others.server}`, { name: 'known to all' });
    const has = (frames: typeof seen, text: string) => JSON.stringify(frames.all).includes(text);
    await until(
      'both are sent the server of all',
      async () => has(seen, 'known to all') && has(hidden, 'known to all'),
    );
    expect([has(seen, 'a secret host'), has(hidden, 'a secret host')]).toEqual([true, false]);
    await using resumed = await openFrames(`${url}${eve.token ?? ''}&cursor=${String(cursor)}`);
    await until('what was missed is sent', async () => has(resumed, 'known to all'));
    expect(has(resumed, 'a secret host')).toBe(false);
  });

  it('names only projects that there are', async () => {
    const put = (allowed_projects: unknown) => root.put(`/servers/${own.server}`, { allowed_projects });
    expect((await put([crypto.randomUUID()])).status).toBe(404);
    expect((await put(['no id'])).status).toBe(400);
    expect((await put('none')).status).toBe(400);
    const { data } = await root.get(`/servers/${own.server}`);
    expect((await root.put(`/servers/${own.server}`, { ...data, name: 'sent back' })).status).toBe(200);
    const made = await root.post('/servers', { name: 'new', allowed_projects: [others.project] });
    expect([made.status, made.data.allowed_projects]).toEqual([201, [others.project]]);
  });
});

describe('who may create projects', () => {
  it('is every user, or admins alone where the settings say so', async () => {
    const [user, admin] = [await world.user(), await world.user('admin')];
    expect((await user.post('/projects', { name: 'one' })).status).toBe(201);
    await root.put('/settings', { project_creation: 'admins' });
    expect((await user.post('/projects', { name: 'two' })).status).toBe(403);
    expect((await admin.post('/projects', { name: 'two' })).status).toBe(201);
  });
});

describe('an address without an account', () => {
  const email = 'stranger@example.test';

  /** Logs the stranger in by a code, as the mail has it. */
  async function enter(): Promise<Answer> {
    const visitor = world.client();
    await visitor.post('/auth/send-code', { email });
    const code = await until('the code is mailed', async () =>
      world.mails.map(({ to, text }) => (to === email ? /(\d{6}) is your code/.exec(text)?.[1] : undefined)).at(-1),
    );
    return visitor.post('/auth/verify-code', { email, code });
  }

  it('is invited to a project by admins, and by others only where the settings say so', async () => {
    const [user, admin] = [await world.user(), await world.user('admin')];
    const { project } = await world.place(user);
    const invite = (by: Client, address = email) =>
      by.post(`/projects/${project}/invites`, { email: address, role: 'viewer' });
    const refused = await invite(user);
    expect([refused.status, refused.body.error?.message]).toEqual([
      403,
      'Only admins of the tenant invite addresses without an account: ask one to invite it to the tenant first',
    ]);
    expect((await invite(admin)).status).toBe(201);
    const known = await world.user('user', 'known@example.test');
    expect((await invite(user, 'known@example.test')).status).toBe(201);
    expect(known.id).toBeDefined();
    await root.put('/settings', { new_addresses: 'users' });
    expect((await invite(user, 'other@example.test')).status).toBe(201);
  });

  it('gets an account by no invite whose sender may not bring it in any more', async () => {
    const user = await world.user();
    const { project } = await world.place(user);
    await root.put('/settings', { new_addresses: 'users' });
    expect((await user.post(`/projects/${project}/invites`, { email, role: 'viewer' })).status).toBe(201);
    await root.put('/settings', { new_addresses: 'admins' });
    await world.client().post('/auth/send-code', { email });
    expect((await world.client().post('/auth/verify-code', { email, code: '000000' })).status).toBe(401);
    expect(world.mails.filter(({ to }) => to === email)).toEqual([]);
  });

  it('that came by a project has rights there alone, until an admin widens it', async () => {
    const user = await world.user();
    const [place, other] = [await world.place(user), await world.place(user)];
    await root.put('/settings', { new_addresses: 'users' });
    const { data: invite } = await user.post(`/projects/${place.project}/invites`, { email, role: 'member' });
    const entered = await enter();
    expect(entered.status).toBe(200);
    const { id } = entered.data.user;
    const stranger = world.client(entered.data.token);
    expect((await root.get(`/users/${id}`)).data.confined_to).toEqual([place.project]);
    // the invite is not accepted yet: no right at all
    expect((await stranger.get('/servers')).data).toEqual([]);
    expect((await stranger.post('/projects', { name: 'mine' })).status).toBe(403);
    expect((await stranger.post(`/invites/${invite.id}/accept`)).status).toBe(200);
    expect((await stranger.get(`/projects/${place.project}`)).status).toBe(200);

    const add = () => user.post(`/projects/${other.project}/members`, { user_id: id, role: 'viewer' });
    const ask = () => user.post(`/projects/${other.project}/invites`, { email, role: 'viewer' });
    for (const refused of [await add(), await ask()]) {
      expect(refused.status).toBe(403);
      expect(refused.body.error?.message).toContain('ask an admin of the tenant to lift that');
    }
    expect((await user.put(`/users/${id}`, { confined_to: null })).status).toBe(403);
    // a place from before the account was confined gives no right either
    await world.create('member', crypto.randomUUID(), { project_id: other.project, user_id: id, role: 'admin' });
    expect((await stranger.get(`/projects/${other.project}`)).status).toBe(403);
    expect((await stranger.get('/projects')).data).toHaveLength(1);

    expect((await root.put(`/users/${id}`, { confined_to: [place.project, other.project] })).status).toBe(200);
    expect((await stranger.get(`/projects/${other.project}`)).status).toBe(200);
    expect((await stranger.post('/projects', { name: 'mine' })).status).toBe(403);
    const wide = await root.put(`/users/${id}`, { confined_to: null });
    expect([wide.status, wide.data.confined_to]).toEqual([200, null]);
    expect((await stranger.post('/projects', { name: 'mine' })).status).toBe(201);
  });
});

describe('what users ask for in vain', () => {
  it('shows them nothing of what there is: routes of admins answer 403 also for ids of nothing', async () => {
    const user = await world.user();
    await world.place(user);
    const nothing = crypto.randomUUID();
    for (const path of [`/users/${nothing}`, `/users/invites/${nothing}`, `/servers/${nothing}`]) {
      expect((await user.delete(path)).status, path).toBe(403);
      expect((await root.delete(path)).status, path).toBe(404);
    }
    expect((await user.get(`/applications/${nothing}`)).status).toBe(404);
  });

  it('is no file: an icon is refused before its bytes are sent', async () => {
    const [user, stranger] = [await world.user(), await world.user()];
    const { project } = await world.place(user);
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        sent += 1;
        controller.enqueue(new Uint8Array(64 * 1024));
        if (sent > 100) controller.close();
      },
    });
    const answer = await fetch(`${world.url}/default/api/v1/projects/${project}/icon`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stranger.token}`, 'content-type': 'multipart/form-data; boundary=x' },
      body,
      duplex: 'half',
    } as RequestInit & { duplex: 'half' });
    expect(answer.status).toBe(403);
    expect(sent).toBeLessThan(100);
    const { data } = await root.get('/audit?result=refused');
    expect(data[0]).toMatchObject({ route: 'POST /projects/:id/icon', result: 'refused' });
  });
});

describe('mails of one sender', () => {
  it('are so many in a day, to whatever addresses', async () => {
    const user = await world.user();
    const invited_by = user.id;
    const { project } = await world.place(user);
    await root.put('/settings', { new_addresses: 'users' });
    const expires_at = new Date(world.clock.now().getTime() + 3_600_000).toISOString();
    for (let n = 0; n < 49; n++)
      await world.create('invite', crypto.randomUUID(), {
        project_id: project,
        email: `a${n}@example.test`,
        role: 'viewer',
        invited_by,
        expires_at,
        state: 'cancelled',
      });
    const invite = (name: string) =>
      user.post(`/projects/${project}/invites`, { email: `${name}@example.test`, role: 'viewer' });
    expect((await invite('last')).status).toBe(201);
    const refused = await invite('too-many');
    expect([refused.status, refused.body.error?.message]).toEqual([
      429,
      'At most 50 invites a day are sent for one user',
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(80_000);
  });
});
