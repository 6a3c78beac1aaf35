import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { full, fullUnknown, outcomeUnknown, unavailable } from '../../store/errors.ts';
import { password, startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { FailingStore } from '../harness/failing-store.ts';
import type { TxnFault } from '../harness/failing-store.ts';

let world: ApiWorld;
let store: FailingStore;
let owner: Client;

beforeEach(async () => {
  world = await startApi({ wrap: (inner) => (store = new FailingStore(inner)) });
  owner = await world.owner();
});
afterEach(async () => {
  store.heal();
  expect(world.faults).toEqual([]);
  await world[Symbol.asyncDispose]();
});

const down = unavailable('down');

/** The faults that begin with the `n`-th transaction. */
const from =
  (n: number, fault: TxnFault) =>
  (at: number): TxnFault | undefined =>
    at >= n ? fault : undefined;

function expectOutcome(answer: Answer, outcome: string): void {
  expect(answer.status).toBe(503);
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(answer.body.error?.code).toBe('SERVICE_UNAVAILABLE');
  expect(answer.body.error?.details?.[0]?.reason).toBe(outcome);
}

describe('a 503 says whether something was written', () => {
  const create = (key?: string) =>
    owner.post('/projects', { name: 'new' }, key === undefined ? {} : { 'idempotency-key': key });
  const isStored = async () => {
    store.heal();
    const all: { name: string }[] = (await owner.get('/projects')).data;
    return all.some(({ name }) => name === 'new');
  };

  it('not, where the store does not answer to the first look', async () => {
    store.reads = down;
    expectOutcome(await create(), 'not_written');
    expect(await isStored()).toBe(false);
  });

  it('not, where the transaction was not sent', async () => {
    store.setFault(from(0, { before: down }));
    expectOutcome(await create(), 'not_written');
    expect(await isStored()).toBe(false);
  });

  it('is not known, where a full store may have taken the write', async () => {
    store.setFault(from(0, { after: fullUnknown('database space exceeded') }));
    const answer = await create();
    expectOutcome(answer, 'outcome_unknown');
    expect(answer.body.error?.details).toMatchObject([{ reason: 'outcome_unknown' }, { reason: 'store_full' }]);
    expect(await isStored()).toBe(true);
  });

  it('not, where the store is full, and what helps', async () => {
    store.setFault(from(0, { before: full('database space exceeded') }));
    const answer = await create();
    expectOutcome(answer, 'not_written');
    expect(answer.body.error?.details).toEqual([
      expect.objectContaining({ reason: 'not_written' }),
      expect.objectContaining({ reason: 'store_full' }),
    ]);
    expect(answer.body.error?.message).toMatch(/full.*docs\/operations\.md.*nothing was written/);
    expect(await isStored()).toBe(false);
  });

  it('is not known, where the answer of the store is lost, and the same key then finds out', async () => {
    store.setFault(from(0, { after: outcomeUnknown('cut') }));
    expectOutcome(await create('k'), 'outcome_unknown');
    expect(await isStored()).toBe(true);
    expect((await create('k')).status).toBe(201);
    expect((await owner.get('/projects')).data).toHaveLength(1);
  });

  it('is not known, where the transaction may be lost', async () => {
    store.setFault(from(0, { before: outcomeUnknown('cut') }));
    expectOutcome(await create(), 'outcome_unknown');
    expect(await isStored()).toBe(false);
  });

  it('in part, where the request had committed something before', async () => {
    // sessions that began meanwhile are ended by a second transaction, which looks at the store first
    store.setFault(from(0, { readsFail: down }));
    const answer = await owner.put('/auth/me/password', {
      current_password: password,
      new_password: 'another horse battery',
    });
    expectOutcome(answer, 'partly_written');
    store.heal();
    const body = { email: 'owner@example.test', password: 'another horse battery' };
    expect((await world.client().post('/auth/login', body)).status).toBe(200);
  });
});

describe('an agent that is away', () => {
  it.each([
    ['away', 'The agent of the server is not connected: check that the machine is up and runs its agent', 'agent_away'],
    ['timeout', 'The agent of the server did not answer in time', undefined],
    ['too_many', 'The agent of the server is busy', undefined],
  ])('or answers %s makes a 503 that says so, that nothing was written, and what may last', async (...row) => {
    const [code, message, lasting] = row;
    const { server } = await world.place(owner);
    world.agents.answer = () => {
      throw new CallError(code, 'no');
    };
    const answer = await owner.post(`/servers/${server}/ping`);
    expectOutcome(answer, 'not_written');
    expect(answer.body.error?.message).toBe(`${message}; nothing was written`);
    expect(answer.body.error?.details?.[1]?.reason).toBe(lasting);
  });
});

describe('a write that waits', () => {
  it('is answered with what was stored by a replica that cannot follow the store any more', async () => {
    store.setFault(from(0, { readsFail: down }));
    const answer = await owner.post('/projects?wait=10', { name: 'waited for' });
    expect(answer.status).toBe(201);
    expect(answer.data.name).toBe('waited for');
    store.heal();
    expect((await owner.get(`/projects/${answer.data.id}`)).status).toBe(200);
  });
});
