import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { forgetExpiredTickets } from '../../api/auth/stream-tickets.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames, Refusal } from '../harness/frames.ts';

/** SEC-46: the address of a stream carries a ticket in place of a token, good once, for moments, for one path. */
let world: ApiWorld;
let clock: FakeClock;
let owner: Client;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
  owner = await world.owner();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const path = '/ws/notifications';
const ticketFor = async (by: Client, at = path, headers: Record<string, string> = {}): Promise<string> => {
  const answer = await by.post('/auth/stream-tickets', { path: at }, headers);
  expect(answer.status).toBe(201);
  return answer.data.ticket;
};

/** 101 if the stream opens, else the status of the refusal. */
async function statusOf(ticket: string, at = path, { base = world.url, tenant = 'default' } = {}): Promise<number> {
  try {
    await using frames = await openFrames(`${base.replace('http', 'ws')}/${tenant}${at}?token=${ticket}`);
    await frames.next('ready');
    return 101;
  } catch (error) {
    if (error instanceof Refusal) return error.status;
    throw error;
  }
}

const stored = async () => (await world.store.list({ prefix: keys.ticket('default', '') })).entries;

describe('SEC-46: a ticket', () => {
  it('opens its stream once', async () => {
    const ticket = await ticketFor(owner);
    expect(ticket).toMatch(/^wst_[\w-]{50,}$/);
    expect((await stored()).map(({ key, value }) => `${key} ${value}`).join()).not.toContain(ticket.slice(20));
    expect([await statusOf(ticket), await statusOf(ticket)]).toEqual([101, 401]);
    expect(await stored()).toEqual([]);
  });

  it('of one replica opens a stream on another, and of many at once on both exactly one wins', async () => {
    const other = await world.replica();
    const ticket = await ticketFor(owner);
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) => statusOf(ticket, path, { base: n % 2 === 0 ? world.url : other })),
    );
    expect(answers.filter((status) => status === 101)).toHaveLength(1);
    expect(answers.filter((status) => status === 401)).toHaveLength(11);
  });

  it('is for one path and one tenant', async () => {
    expect(await statusOf(await ticketFor(owner), '/ws/watch')).toBe(401);
    const ticket = await ticketFor(owner);
    await world.store.txn({ if: [], then: [{ put: keys.tenant('other'), value: '{}' }] });
    expect(await statusOf(ticket, path, { tenant: 'other' })).toBe(401);
    expect(await statusOf(ticket)).toBe(101);
    expect(await statusOf('wst_')).toBe(401);
    expect(await statusOf(`wst_${'a'.repeat(60)}`)).toBe(401);
  });

  it('is good for thirty seconds', async () => {
    const [early, late] = [await ticketFor(owner), await ticketFor(owner)];
    await clock.advance(29_999);
    expect(await statusOf(early)).toBe(101);
    await clock.advance(1);
    expect(await statusOf(late)).toBe(401);
  });

  it('is good while the session or the key is that asked for it, and has no more rights', async () => {
    const user = await world.user();
    const { project } = await world.place(user);
    const { id, key } = (await user.post('/settings/service-keys', { name: 'k', project_id: project })).data;
    const headers = { 'x-service-key': key };
    expect(await statusOf(await ticketFor(world.client(), path, headers))).toBe(101);
    const ofKey = await ticketFor(world.client(), path, headers);
    await user.delete(`/settings/service-keys/${id}`);
    expect(await statusOf(ofKey)).toBe(401);
    const ofSession = await ticketFor(user);
    await user.post('/auth/logout');
    expect(await statusOf(ofSession)).toBe(401);
  });

  it('is no token for anything else', async () => {
    const ticket = await ticketFor(owner);
    expect((await world.client(ticket).get('/auth/me')).status).toBe(401);
    expect(await statusOf(ticket)).toBe(101);
  });

  it('is asked for with the path of a stream', async () => {
    for (const bad of ['/auth/me', '/ws/', '/ws/watch?kinds=x', '/default/ws/watch', 7])
      expect((await owner.post('/auth/stream-tickets', { path: bad })).status).toBe(400);
  });
});

describe('tickets that are not used', () => {
  it('have a bound for each caller, and make room when they are over', async () => {
    for (let n = 0; n < 100; n += 1) await ticketFor(owner);
    const refused = await owner.post('/auth/stream-tickets', { path });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '30']);
    await ticketFor(await world.user());
    await clock.advance(30_000);
    await ticketFor(owner);
    expect(await stored()).toHaveLength(82);
  });

  it('are forgotten', async () => {
    await ticketFor(owner);
    await clock.advance(30_000);
    const fresh = await ticketFor(await world.user());
    await world.settled();
    await forgetExpiredTickets(world);
    expect(await stored()).toHaveLength(1);
    expect(await statusOf(fresh)).toBe(101);
  });
});
