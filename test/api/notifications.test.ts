import { afterEach, beforeEach, expect, test } from 'vitest';
import { commit } from '../../store/unit.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';

let world: ApiWorld;
let owner: Client;

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function notify(
  userId: string,
  about: { kind: 'project' | 'server'; project_id?: string } | undefined,
  title = 't',
) {
  const id = crypto.randomUUID();
  await world.create('notification', id, {
    user_id: userId,
    type: 'deployment_failed',
    severity: 'error',
    title,
    message: 'm',
    read: false,
    ...(about !== undefined && { resource: { ...about, id: crypto.randomUUID(), name: 'web' } }),
  });
  return id;
}

function listen(by: Client): Promise<Frames> {
  return openFrames(`${world.url.replace('http', 'ws')}/default/ws/notifications?token=${by.token}`);
}

const ids = (answer: { data: { id: string }[] }): string[] => answer.data.map(({ id }) => id);

test('are listed newest first, by pages, read and unread, with the number of unread ones', async () => {
  const user = await world.user();
  const stranger = await world.user();
  const made: string[] = [];
  for (let n = 0; n < 5; n++) made.unshift(await notify(user.id, undefined, `number ${n}`));
  await notify(stranger.id, undefined);
  const first = await user.get('/notifications?limit=2');
  expect(ids(first)).toEqual(made.slice(0, 2));
  expect(first.body.meta).toMatchObject({ total: 5, unread: 5, limit: 2 });
  const second = await user.get(`/notifications?limit=2&cursor=${first.body.meta?.next_cursor}`);
  expect(ids(second)).toEqual(made.slice(2, 4));
  expect((await user.post('/notifications/read', { ids: made.slice(0, 2) })).data).toEqual({ marked: 2 });
  expect((await user.post('/notifications/read', { ids: made.slice(0, 2) })).data).toEqual({ marked: 0 });
  const unread = await user.get('/notifications?unread=true');
  expect(ids(unread)).toEqual(made.slice(2));
  expect(unread.body.meta).toMatchObject({ total: 3, unread: 3 });
  const read = await user.get('/notifications?unread=false');
  expect(ids(read)).toEqual(made.slice(0, 2));
  expect(read.body.meta).toMatchObject({ total: 2, unread: 3 });
  expect((await user.post('/notifications/read', { all: true })).data).toEqual({ marked: 3 });
  expect((await user.get('/notifications')).body.meta).toMatchObject({ total: 5, unread: 0 });
  expect((await stranger.get('/notifications')).body.meta).toMatchObject({ total: 1, unread: 1 });
});

test('of one millisecond are listed newest first, too', async () => {
  await world[Symbol.asyncDispose]();
  world = await startApi({ clock: new FakeClock() });
  const user = await world.user();
  const made: string[] = [];
  for (let n = 0; n < 10; n++) {
    const id = crypto.randomUUID();
    const fields = { user_id: user.id, type: 'x', severity: 'info', title: 't', message: 'm', read: false } as const;
    await world.create('notification', id, fields);
    made.unshift(id);
  }
  const first = await user.get('/notifications?limit=4');
  const rest = await user.get(`/notifications?cursor=${first.body.meta?.next_cursor}`);
  expect([...ids(first), ...ids(rest)]).toEqual(made);
  await user.post('/notifications/read', { ids: made.slice(3, 5) });
  expect(ids(await user.get('/notifications'))).toEqual(made);
});

test('are marked by ids or all together, never those of somebody else', async () => {
  const user = await world.user();
  const stranger = await world.user();
  const mine = await notify(user.id, undefined);
  const theirs = await notify(stranger.id, undefined);
  for (const body of [{ ids: [mine], all: true }, { all: false }, { ids: ['x'] }, { every: true }])
    expect((await user.post('/notifications/read', body)).status, JSON.stringify(body)).toBe(400);
  expect((await user.post('/notifications/read', { ids: [theirs] })).data).toEqual({ marked: 0 });
  expect((await stranger.get('/notifications')).body.meta).toMatchObject({ unread: 1 });
  expect((await user.post('/notifications/read', { ids: [mine], all: null })).data).toEqual({ marked: 1 });
});

test('come by the stream also when they are read elsewhere', async () => {
  const user = await world.user();
  const stranger = await world.user();
  await using frames = await listen(user);
  await using others = await listen(stranger);
  await frames.next('ready');
  await others.next('ready');
  const id = await notify(user.id, undefined);
  expect(await frames.next('notification')).toMatchObject({ id, read: false });
  const elsewhere = world.client(
    (await world.client().post('/auth/login', { email: 'user-1@example.test', password: 'correct horse battery' })).data
      .token,
  );
  await elsewhere.post('/notifications/read', { all: true });
  expect(await frames.next('notification')).toMatchObject({ id, read: true });
  const last = await notify(stranger.id, undefined);
  expect(await others.next('notification')).toMatchObject({ id: last });
  expect(others.all.filter(({ type }) => type === 'notification')).toHaveLength(1);
});

test('show nothing that a user may no longer see', async () => {
  const { project } = await world.place(owner);
  const member = await world.user('user');
  const admin = await world.user('admin');
  const place = await world.create('member', crypto.randomUUID(), {
    project_id: project,
    user_id: member.id,
    role: 'viewer',
  });
  const about = { kind: 'project' as const, project_id: project };
  const ofProject = await notify(member.id, about);
  const plain = await notify(member.id, undefined);
  const ofServer = await notify(admin.id, { kind: 'server' });
  expect(ids(await member.get('/notifications'))).toEqual([plain, ofProject]);
  expect(ids(await admin.get('/notifications'))).toEqual([ofServer]);
  await using frames = await listen(member);
  await frames.next('ready');
  const unit = world.repo.begin();
  unit.requestDelete(place);
  unit.change((await world.repo.get('user', admin.id))!, (draft) => void (draft.role = 'user'));
  await commit(unit);
  await world.settled();
  expect(ids(await member.get('/notifications'))).toEqual([plain]);
  expect((await member.get('/notifications')).body.meta).toMatchObject({ unread: 1 });
  const again = await world
    .client()
    .post('/auth/login', { email: 'user-2@example.test', password: 'correct horse battery' });
  expect(ids(await world.client(again.data.token).get('/notifications'))).toEqual([]);
  await notify(member.id, about);
  const seen = await notify(member.id, undefined);
  expect(await frames.next('notification')).toMatchObject({ id: seen });
});

test('of other projects are not sent to a key that is narrowed to one', async () => {
  const one = await world.place(owner);
  const two = await world.place(owner);
  const { id } = (await owner.get('/auth/me')).data;
  const mine = await notify(id, { kind: 'project', project_id: one.project });
  await notify(id, { kind: 'project', project_id: two.project });
  await notify(id, { kind: 'server' });
  await notify(id, { kind: 'project' });
  await notify(id, undefined);
  const { key } = (await owner.post('/settings/service-keys', { name: 'ci', project_id: one.project })).data;
  const narrowed = await world.client().get('/notifications', { 'x-service-key': key });
  expect(ids(narrowed)).toEqual([mine]);
  const marked = await world.client().post('/notifications/read', { all: true }, { 'x-service-key': key });
  expect(marked.data).toEqual({ marked: 1 });
  expect((await owner.get('/notifications?unread=true')).data).toHaveLength(4);
});
