import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { takeLiveKey } from '../../../controllers/gateway/live-key.ts';
import { systemClock } from '../../../time/clock.ts';
import { keys } from '../../../store/keys.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Store } from '../../../store/store.ts';

let store: Store & AsyncDisposable;
const place = { tenant: 'acme', server: randomUUID() };
const key = keys.agent(place.tenant, place.server);

beforeEach(async () => {
  store = await openSqlite({ path: ':memory:' });
});

afterEach(() => store[Symbol.asyncDispose]());

function about(session: string) {
  return {
    replica: 'r',
    session,
    machineId: 'm',
    bootId: 'b',
    agentVersion: '1',
    runtime: 'mock',
    runtimeVersion: '1',
    since: '2030-01-01T00:00:00.000Z',
  };
}

async function createServer(): Promise<void> {
  await store.txn({ if: [], then: [{ put: keys.desired(place.tenant, 'server', place.server), value: '{}' }] });
}

describe('the live key of a server', () => {
  it('is not written for a server that is gone', async () => {
    expect(await takeLiveKey(store, systemClock, place, about('one'))).toBeUndefined();
    expect(await store.get(key)).toBeUndefined();
  });

  it('goes to whoever takes it last, and the end of the earlier lease does not take it away', async () => {
    await createServer();
    const one = await takeLiveKey(store, systemClock, place, about('one'));
    const two = await takeLiveKey(store, systemClock, place, about('two'));
    expect(two!.epoch).toBeGreaterThan(one!.epoch);
    await one!.lease.revoke();
    expect(JSON.parse((await store.get(key))!.value)).toMatchObject({ session: 'two' });
    await two!.lease.revoke();
    expect(await store.get(key)).toBeUndefined();
  });

  it('is left to a holder that must stay', async () => {
    await createServer();
    const one = await takeLiveKey(store, systemClock, place, about('one'));
    expect(await takeLiveKey(store, systemClock, place, about('two'), () => true)).toBeUndefined();
    expect((await store.get(key))?.modRevision).toBe(one!.epoch);
  });

  it('is won by one of several that take it at once, each under an epoch of its own', async () => {
    await createServer();
    const names = ['a', 'b', 'c', 'd'];
    const taken = await Promise.all(names.map((name) => takeLiveKey(store, systemClock, place, about(name))));
    const epochs = taken.flatMap((it) => it?.epoch ?? []);
    expect(new Set(epochs).size).toBe(epochs.length);
    expect((await store.get(key))?.modRevision).toBe(Math.max(...epochs));
  });

  it('that another version wrote is replaced like any other', async () => {
    await createServer();
    await store.txn({ if: [], then: [{ put: key, value: '{"later":true}' }] });
    expect(await takeLiveKey(store, systemClock, place, about('one'))).toBeDefined();
  });
});
