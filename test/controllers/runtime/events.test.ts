import { pino } from 'pino';
import { expect, test } from 'vitest';
import { EventRecorder } from '../../../controllers/runtime/events.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { readEvents } from '../../../store/event-ring.ts';
import { keys } from '../../../store/keys.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { Guard, Store } from '../../../store/store.ts';
import { FaultyStore } from '../../harness/faulty-store.ts';
import { settle } from '../../harness/fake-clock.ts';
import { createProject, openRig, tenant } from './rig.ts';

async function withRecorder({ guards = [] as Guard[], wrap = (store: Store): Store => store } = {}) {
  const rig = await openRig();
  const id = await createProject(rig.repo, 'one');
  await rig.rest();
  rig.store.reset();
  let dropped = 0;
  const recorder = new EventRecorder({
    store: wrap(rig.store),
    mirror: rig.mirror,
    clock: rig.clock,
    log: pino({ level: 'silent' }),
    guards: () => guards,
    onDropped: () => dropped++,
    onWritten: () => undefined,
  });
  const it = rig.mirror.tenant(tenant).get('project', id) as ReadonlyResource;
  return {
    rig,
    recorder,
    it,
    dropped: () => dropped,
    record: (reason: string, message = 'It happened') => recorder.record(it, { type: 'normal', reason, message }),
    stored: () => readEvents(rig.mirror.key(keys.events(tenant, 'project', id))?.value),
  };
}

test('the first event of a reason is written at once, and those of the next ten seconds together', async () => {
  const { rig, recorder, record, stored } = await withRecorder();
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  expect(stored()).toMatchObject([{ reason: 'Pulled', count: 1 }]);
  for (let n = 0; n < 1000; n++) record('Pulled', 'Again');
  await rig.clock.advance(limits.events.intervalMs - 1);
  expect(rig.store.committed).toBe(1);
  await rig.clock.advance(1);
  await rig.rest();
  expect(rig.store.committed).toBe(2);
  expect(stored()).toMatchObject([{ reason: 'Pulled', count: 1001, message: 'Again' }]);
  await recorder[Symbol.asyncDispose]();
});

test('another reason does not wait for the first one', async () => {
  const { rig, recorder, record, stored } = await withRecorder();
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  record('Started');
  await rig.rest();
  expect(stored().map(({ reason }) => reason)).toEqual(['Pulled', 'Started']);
  await recorder[Symbol.asyncDispose]();
});

test('what is buffered is written when the recorder is disposed', async () => {
  const { rig, recorder, record, stored } = await withRecorder();
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  record('Pulled');
  record('Pulled');
  await recorder[Symbol.asyncDispose]();
  await rig.rest();
  expect(stored()).toMatchObject([{ count: 3 }]);
});

test('a recorder at rest holds no timer', async () => {
  const { rig, recorder, record } = await withRecorder();
  await using _ = rig;
  const before = rig.clock.pending;
  record('Pulled');
  await rig.clock.advance(2 * limits.events.intervalMs);
  expect(rig.clock.pending).toBe(before);
  await recorder[Symbol.asyncDispose]();
});

test('a ring that somebody else wrote meanwhile is appended to, not replaced', async () => {
  const { rig, recorder, it, record, stored } = await withRecorder();
  await using _ = rig;
  record('First');
  await rig.rest();
  const other = new EventRecorder({
    store: rig.store,
    mirror: { ...rig.mirror, key: () => undefined },
    clock: rig.clock,
    log: pino({ level: 'silent' }),
    guards: () => [],
    onDropped: () => undefined,
    onWritten: () => undefined,
  });
  other.record(it, { type: 'warning', reason: 'Second', message: 'By another' });
  await rig.rest();
  expect(stored().map(({ reason }) => reason)).toEqual(['First', 'Second']);
  await other[Symbol.asyncDispose]();
  await recorder[Symbol.asyncDispose]();
});

test('an object that is gone gets no events', async () => {
  const { rig, recorder, it, record } = await withRecorder();
  await using _ = rig;
  const unit = rig.repo.begin();
  unit.requestDelete(it);
  unit.release(it, 'project');
  await unit.commit();
  await rig.rest();
  record('Pulled');
  await rig.rest();
  expect(await rig.store.get(keys.events(tenant, 'project', it.meta.id))).toBeUndefined();
  await recorder[Symbol.asyncDispose]();
});

test('a recorder whose term is over writes nothing', async () => {
  const { rig, recorder, record, stored } = await withRecorder({
    guards: [{ key: keys.leader('gone'), is: 'present' }],
  });
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  expect(stored()).toEqual([]);
  await recorder[Symbol.asyncDispose]();
});

test('what the store did not take is written with the next interval', async () => {
  const { rig, recorder, record, stored, dropped } = await withRecorder({
    wrap: (store) => new FaultyStore(store).at(1, 'fail-before-commit'),
  });
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  expect(stored()).toEqual([]);
  record('Pulled', 'Again');
  await rig.clock.advance(limits.events.intervalMs);
  await rig.rest();
  expect(stored()).toMatchObject([{ reason: 'Pulled', count: 2, message: 'Again' }]);
  expect(dropped()).toBe(0);
  await recorder[Symbol.asyncDispose]();
});

test('what the store never takes is dropped and counted at the end', async () => {
  const { rig, recorder, record, dropped } = await withRecorder({
    wrap: (store) => new FaultyStore(store).at(1, 'fail-before-commit').at(2, 'fail-before-commit'),
  });
  await using _ = rig;
  record('Pulled');
  await rig.rest();
  await recorder[Symbol.asyncDispose]();
  expect(dropped()).toBe(1);
});

test('memory is bounded: too many reasons and too many objects are dropped and counted', async () => {
  const { rig, recorder, it, record, dropped } = await withRecorder();
  await using _ = rig;
  for (let n = 0; n < limits.events.reasons + 5; n++) record(`Reason${n}`);
  expect(dropped()).toBe(5);
  for (let n = 0; n < limits.events.objects + 7; n++)
    recorder.record({ ...it, meta: { ...it.meta, id: `object-${n}` } }, { type: 'normal', reason: 'R', message: '' });
  expect(dropped()).toBe(5 + 8);
  const disposed = recorder[Symbol.asyncDispose]();
  await settle(50);
  await rig.clock.advance(limits.reconcile.graceMs);
  await disposed;
});
