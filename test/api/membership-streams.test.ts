import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { permissionOf } from '../../api/rights/permissions.ts';
import { Audience } from '../../api/streams/audience.ts';
import type { Channel } from '../../api/streams/channel.ts';
import { keys } from '../../store/keys.ts';
import { agentLog } from '../harness/agent-log.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';

type Person = Client & { id: string };

let world: ApiWorld;
let root: Client;
let owner: Person;
let project: string;
let server: string;
let app: string;
let opened: Frames[];

beforeEach(async () => {
  world = await startApi();
  root = await world.owner();
  owner = await world.user();
  ({ project, server } = await world.place(owner));
  app = await anApplication('web');
  agentLog(world.agents);
  const value = JSON.stringify({ replica: 'r', session: crypto.randomUUID(), machineId: 'm' });
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value }] });
  await world.settled();
  opened = [];
});
afterEach(async () => {
  for (const frames of opened) await frames[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function anApplication(name: string): Promise<string> {
  const source = { source_type: 'image', image_url: 'example/web' };
  const made = await owner.post('/applications', { project_id: project, server_id: server, name, ...source });
  expect(made.status).toBe(201);
  return made.data.id;
}

async function aMember(role: string): Promise<Person> {
  const user = await world.user();
  const made = await owner.post(`/projects/${project}/members`, { user_id: user.id, role });
  expect(made.status).toBe(201);
  return user;
}

async function open(path: string, by: Client, query = '', replica = world.url): Promise<Frames> {
  const base = `${replica.replace('http', 'ws')}/default/ws${path}`;
  const frames = await openFrames(`${base}?token=${by.token ?? ''}${query}`);
  opened.push(frames);
  await frames.next('ready');
  return frames;
}

const member = (user: Person): string => `/projects/${project}/members/${user.id}`;
const isOpen = (frames: Frames): boolean => frames.socket.readyState === frames.socket.OPEN;

/** Everything that happened before was sent when this answers. */
async function expectNotified(frames: Frames, by: Client): Promise<void> {
  const { id } = (await by.post('/projects', { name: `mark ${crypto.randomUUID()}` })).data;
  for (;;) if ((await frames.next('change'))['id'] === id) return;
}

describe('SEC-48: a stream of logs', () => {
  it('is closed to whoever is removed or leaves, and to nobody else', async () => {
    const [removed, leaving, staying] = [await aMember('member'), await aMember('viewer'), await aMember('viewer')];
    const [first, second, third] = [
      await open(`/applications/${app}/logs`, removed),
      await open(`/applications/${app}/logs`, leaving),
      await open(`/applications/${app}/logs`, staying),
    ];
    await owner.delete(member(removed));
    expect(await first.closed).toMatchObject({ code: 4403 });
    expect(first.all.at(-1)).toMatchObject({ type: 'end' });
    await leaving.delete(member(leaving));
    expect(await second.closed).toMatchObject({ code: 4403 });
    expect(isOpen(third)).toBe(true);
  });

  it('is closed on every replica, wherever the role was taken', async () => {
    const [user, other] = [await aMember('member'), await world.replica()];
    const frames = await open(`/applications/${app}/logs`, user, '', other);
    await owner.delete(member(user));
    expect(await frames.closed).toMatchObject({ code: 4403 });
    const answer = await fetch(`${other}/default/api/v1/projects/${project}`, {
      headers: { authorization: `Bearer ${user.token}` },
    });
    expect(answer.status).toBe(403);
  });

  it('stays open to whoever still may read it with another role', async () => {
    const [heir, reader] = [await aMember('viewer'), await aMember('admin')];
    const streams = [];
    for (const one of [owner, heir, reader]) streams.push(await open(`/applications/${app}/logs`, one));
    await owner.put(member(reader), { role: 'viewer' });
    await owner.post(`/projects/${project}/transfer`, { new_owner_id: heir.id });
    await heir.put(member(owner), { role: 'viewer' });
    await world.settled();
    expect(streams.map(isOpen)).toEqual([true, true, true]);
    await heir.delete(member(owner));
    expect(await streams[0]!.closed).toMatchObject({ code: 4403 });
    expect(streams.slice(1).map(isOpen)).toEqual([true, true]);
  });

  it('is closed to a service key of whoever is removed', async () => {
    const user = await aMember('member');
    const { key } = (await user.post('/settings/service-keys', { name: 'ci' })).data;
    const address = `${world.url.replace('http', 'ws')}/default/ws/applications/${app}/logs`;
    const frames = await openFrames(address, { 'x-service-key': key });
    opened.push(frames);
    await frames.next('ready');
    await owner.delete(member(user));
    expect(await frames.closed).toMatchObject({ code: 4403 });
  });
});

describe('SEC-48: watch', () => {
  it('sends a member changes of the project from the moment of the membership to its end', async () => {
    const user = await world.user();
    const frames = await open('/watch', user);
    await anApplication('before');
    await expectNotified(frames, user);
    expect(frames.all.filter(({ kind }) => kind === 'application')).toEqual([]);

    await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'viewer' });
    expect(await frames.next('gap')).toMatchObject({ dropped: 1 });
    const during = await anApplication('during');
    await expectNotified(frames, user);
    expect(frames.all.filter(({ type }) => type === 'gap')).toHaveLength(1);
    // another role shows other things of the same objects
    await owner.put(member(user), { role: 'member' });
    await frames.next('gap');
    await owner.put(member(user), { role: 'member' });
    await expectNotified(frames, user);
    expect(frames.all.filter(({ kind }) => kind === 'application').map(({ id }) => id)).toEqual([during]);
    expect(frames.all.filter(({ type }) => type === 'gap')).toHaveLength(2);

    await owner.delete(member(user));
    await frames.next('gap');
    const seen = frames.all.length;
    await owner.put(`/projects/${project}`, { description: 'secret' });
    await anApplication('after');
    await owner.delete(`/applications/${during}`);
    await expectNotified(frames, user);
    expect(JSON.stringify(frames.all.slice(seen))).not.toMatch(new RegExp(`secret|after|${during}|${project}`));
    expect(isOpen(frames)).toBe(true);
  });

  it('sends a reader who resumes only what the reader may see now', async () => {
    const user = await aMember('viewer');
    const { cursor } = (await open('/watch', user)).all[0]!;
    await anApplication('unseen');
    await owner.delete(member(user));
    await owner.delete(`/applications/${app}`);
    const again = await open('/watch', user, `&cursor=${String(cursor)}`);
    await expectNotified(again, user);
    expect(JSON.stringify(again.all)).not.toMatch(new RegExp(`${project}|${app}|unseen`));

    await owner.post(`/projects/${project}/members`, { user_id: user.id, role: 'viewer' });
    const third = await open('/watch', user, `&cursor=${String(cursor)}`);
    await third.next('gap');
    await expectNotified(third, user);
    expect(third.all.filter(({ kind }) => kind === 'application')).toHaveLength(2);
    const late = await open('/watch', user, `&cursor=${String(third.all[0]!['cursor'])}`);
    await expectNotified(late, user);
    expect(late.all.filter(({ type }) => type === 'gap')).toEqual([]);
  });

  it('sends members the end of their project', async () => {
    const user = await aMember('viewer');
    const frames = await open('/watch', user, '&kinds=project');
    await owner.delete(`/projects/${project}`);
    expect(await frames.next('change')).toMatchObject({ op: 'put', id: project });
    const unit = world.repo.begin();
    unit.release((await world.repo.get('project', project))!, 'project');
    await unit.commit();
    expect(await frames.next('change')).toMatchObject({ op: 'delete', id: project });
  });

  it('of one project is not disturbed by others', async () => {
    const user = await aMember('viewer');
    const other = (await root.post('/projects', { name: 'other' })).data.id;
    const frames = await open('/watch', user, `&projectId=${project}`);
    await root.post(`/projects/${other}/members`, { user_id: user.id, role: 'viewer' });
    await anApplication('one more');
    await frames.next('change');
    expect(frames.all.filter(({ type }) => type === 'gap')).toEqual([]);
  });
});

it('a stream of the tenant is closed to whoever has no project any more', async () => {
  const user = await aMember('viewer');
  const closed = Promise.withResolvers<number>();
  const ended = new AbortController();
  const channel = {
    signal: ended.signal,
    close(code: number) {
      ended.abort();
      closed.resolve(code);
    },
  } as unknown as Channel; // what the audience uses of it
  using audience = new Audience(world.mirror, world.clock);
  const view = world.mirror.tenant('default');
  const session = view.by('session', 'user', user.id)[0]!;
  audience.add({
    tenant: 'default',
    view,
    principal: { user: view.get('user', user.id)!, by: { type: 'session', session } },
    permission: permissionOf('WS', '/ws/servers/:id/metrics'),
    about: new Set([server]),
    place: () => ({ tenant: view }),
    channel,
  });
  const own = (await user.post('/projects', { name: 'own' })).data.id;
  await owner.delete(member(user));
  await world.settled();
  expect(ended.signal.aborted).toBe(false);
  const heir = await world.user();
  await user.post(`/projects/${own}/members`, { user_id: heir.id, role: 'viewer' });
  await user.post(`/projects/${own}/transfer`, { new_owner_id: heir.id });
  await heir.delete(`/projects/${own}/members/${user.id}`);
  expect(await closed.promise).toBe(4403);
});
