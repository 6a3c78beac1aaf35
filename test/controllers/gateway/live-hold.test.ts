import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LiveHold } from '../../../controllers/gateway/live-hold.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { systemClock } from '../../../time/clock.ts';
import type { Clock } from '../../../time/clock.ts';
import { keys } from '../../../store/keys.ts';
import type { LiveAgent } from '../../../store/mirror.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Store } from '../../../store/store.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

const place = { tenant: 'acme', server: randomUUID() };
const key = keys.agent(place.tenant, place.server);
let store: Store & AsyncDisposable;
let holds: LiveHold[];

beforeEach(async () => {
  store = await openSqlite({ path: ':memory:' });
  holds = [];
  await store.txn({ if: [], then: [{ put: keys.desired(place.tenant, 'server', place.server), value: '{}' }] });
});

afterEach(async () => {
  await Promise.all(holds.map((hold) => hold.release()));
  await store[Symbol.asyncDispose]();
});

function holdOf(session: string, { clock = systemClock, machineId = 'm' }: { clock?: Clock; machineId?: string } = {}) {
  const seen = { lost: 0, errors: [] as string[] };
  const about = {
    replica: 'r',
    session,
    machineId,
    bootId: 'b',
    agentVersion: '1',
    runtime: 'mock',
    runtimeVersion: '1',
    since: '2030-01-01T00:00:00.000Z',
  };
  const log = pino({ level: 'error' }, { write: (line: string) => void seen.errors.push(line) });
  const hold = new LiveHold({ ...place, store, clock, log, about, lost: () => void seen.lost++ });
  holds.push(hold);
  return { hold, seen };
}

/** What the mirror would show of the key. */
const shown = (session: string, epoch: number) => ({ session, epoch }) as LiveAgent; // only these are looked at

const holder = async (): Promise<unknown> => JSON.parse((await store.get(key))?.value ?? 'null');

describe('a hold on the live key', () => {
  it('whose key another session took before changes were listened for is lost, and stays with the other', async () => {
    const [one, other] = [holdOf('one'), holdOf('other')];
    await one.hold.take();
    const taken = await other.hold.take();
    one.hold.verify(shown('other', taken!.epoch));
    expect(one.seen.lost).toBe(1);
    expect(await holder()).toMatchObject({ session: 'other' });
  });

  it('whose key was gone before changes were listened for takes it again', async () => {
    const { hold, seen } = holdOf('one');
    const first = await hold.take();
    await store.txn({ if: [], then: [{ delete: key }] });
    hold.verify(undefined);
    await until('it is taken again', async () => hold.fence() !== undefined);
    expect(hold.fence()).not.toEqual(first!.fence);
    expect([await holder(), seen.lost]).toMatchObject([{ session: 'one' }, 0]);
  });

  it('that hears of another session gives up, and does not take the key back from it', async () => {
    const [one, other] = [holdOf('one'), holdOf('other')];
    await one.hold.take();
    await other.hold.take();
    one.hold.fenced();
    await until('it is lost', async () => one.seen.lost === 1, { timeoutMs: 5000 });
    expect([await holder(), other.seen.lost, one.hold.fence()]).toMatchObject([{ session: 'other' }, 0, undefined]);
  });

  it('marks two agents that take turns, until none has taken over for a while', async () => {
    const clock = new FakeClock();
    const turn = async (session: string, machineId: string): Promise<void> => {
      await holdOf(session, { clock, machineId }).hold.take();
      await clock.advance(10_000);
    };
    await turn('first', 'a');
    await turn('copy', 'b');
    await turn('first again', 'a');
    expect(await holder()).not.toHaveProperty('conflict');
    await turn('copy again', 'b');
    expect(await holder()).toMatchObject({ conflict: true });
    await turn('first at last', 'a'); // the copy was stopped
    await clock.advance(limits.conflict.withinMs - 20_000);
    await settle(100);
    expect(await holder()).toMatchObject({ session: 'first at last', conflict: true });
    await clock.advance(10_000);
    await until('the mark is gone', async () => !((await store.get(key))?.value ?? '').includes('conflict'));
    expect(await holder()).toMatchObject({ session: 'first at last' });
  });

  it('whose key is taken away again and again is given up, and the log says so', async () => {
    const { hold, seen } = holdOf('one');
    await hold.take();
    for (let n = 0; n <= limits.session.retakes && seen.lost === 0; n++) {
      await store.txn({ if: [], then: [{ delete: key }] });
      hold.fenced();
      await until('it is taken again or lost', async () => hold.fence() !== undefined || seen.lost > 0, { everyMs: 1 });
    }
    expect(seen.lost).toBe(1);
    expect(seen.errors.join()).toContain('more than 30 times within a minute');
    expect(await store.get(key)).toBeUndefined();
  });
});
