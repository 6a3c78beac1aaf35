import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { createByteRate } from '../../../api/budgets/byte-rate.ts';
import { capacityOf, watchCapacity } from '../../../api/budgets/capacity.ts';
import { createReservations } from '../../../api/budgets/reservations.ts';
import { boundsOf } from '../../../api/budgets/scope.ts';
import { defaultSettings } from '../../../store/settings.ts';
import { startApi } from '../../harness/api.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const MiB = 1024 * 1024;

describe('bytes written in a minute', () => {
  it('may be so many at once, and then as many as drain', async () => {
    const clock = new FakeClock();
    const rate = createByteRate(clock);
    expect(rate.waitMs('a', 6000, 0)).toBe(0);
    rate.add('a', 6000, 5999);
    expect(rate.waitMs('a', 6000, 0)).toBe(0);
    rate.add('a', 6000, 1);
    expect(rate.waitMs('a', 6000, 0)).toBe(1);
    expect(rate.waitMs('b', 6000, 0)).toBe(0);
    rate.add('a', 6000, 600);
    expect([rate.waitMs('a', 6000, 0), rate.level('a')]).toEqual([6000, 6600]);
    await clock.advance(6000);
    expect([rate.waitMs('a', 6000, 0), rate.level('a')]).toEqual([1, 6000]);
    await clock.advance(1);
    expect(rate.waitMs('a', 6000, 0)).toBe(0);
    await clock.advance(3_600_000);
    expect(rate.level('a')).toBe(0);
  });

  it('are fewer for whom a part is kept back from', () => {
    const rate = createByteRate(new FakeClock());
    rate.add('a', 6000, 5400);
    expect([rate.waitMs('a', 6000, 0.1), rate.waitMs('a', 6000, 0.02)]).toEqual([1, 0]);
  });

  it('that nobody refuses keep others waiting for no more than two minutes', () => {
    const rate = createByteRate(new FakeClock());
    for (let n = 0; n < 100; n++) rate.add('a', 6000, 6000);
    expect(rate.waitMs('a', 6000, 0)).toBe(60_000);
    rate.add('none', 0, 6000);
    expect([rate.waitMs('none', 0, 0), rate.level('none')]).toEqual([0, 0]);
  });
});

describe('the capacity of an installation', () => {
  it('is that of the heap or of the store, whichever is less', () => {
    expect(capacityOf(1000 * MiB, { bytes: 0, room: Infinity })).toEqual({
      storedBytes: 300 * MiB,
      writtenBytesPerMinute: Infinity,
      freeShare: 1,
    });
    const small = capacityOf(1000 * MiB, { bytes: 56 * MiB, room: 200 * MiB });
    expect(small.storedBytes).toBe(Math.floor(256 * MiB * 0.35));
    expect(small.writtenBytesPerMinute).toBe(Math.floor(256 * MiB * 0.08));
    expect(small.freeShare).toBeCloseTo(200 / 256);
    expect(capacityOf(1000, { bytes: 0, room: 0 }).freeShare).toBe(0);
  });

  it('is looked at again when it is asked for some seconds later; where that fails, what was seen holds', async () => {
    const clock = new FakeClock();
    let size = async () => ({ bytes: 100, room: 900 });
    const watch = watchCapacity({ store: { size: () => size() }, clock, log: pino({ level: 'silent' }) });
    await watch.look();
    expect(watch.now.storedBytes).toBe(350);
    size = async () => ({ bytes: 1000, room: 1000 });
    expect(watch.now.storedBytes).toBe(350);
    await clock.advance(5000);
    expect(watch.now.storedBytes).toBe(350);
    await Promise.resolve();
    expect(watch.now.storedBytes).toBe(700);
    size = () => Promise.reject(new Error('nobody answers'));
    await watch.look();
    expect(watch.now.storedBytes).toBe(700);
  });

  it('bounds every scope by a share, whatever the settings say', async () => {
    await using world = await startApi();
    const root = await world.owner();
    const view = world.mirror.tenant('default');
    const capacity = capacityOf(Infinity, { bytes: 0, room: 256 * MiB });
    const stored = (of: 'project' | 'user' | 'tenant') =>
      boundsOf(view, of === 'tenant' ? { of } : { of, id: 'x' }, capacity).stored_bytes;
    const all = Math.floor(256 * MiB * 0.35);
    expect([stored('project'), stored('user'), stored('tenant')]).toEqual([
      Math.floor(all / 4),
      Math.floor(all / 4),
      Math.floor(all / 2),
    ]);
    const budgets = { project: { stored_bytes: 1000 }, user: { stored_bytes: 0 }, tenant: { stored_bytes: 0 } };
    await root.put('/settings', { budgets });
    await world.settled();
    expect([stored('project'), stored('user'), stored('tenant')]).toEqual([
      1000,
      Math.floor(all / 4),
      Math.floor(all / 2),
    ]);
    const endless = capacityOf(1e12, { bytes: 0, room: Infinity });
    expect(boundsOf(view, { of: 'project', id: 'x' }, endless).written_bytes_per_minute).toBe(
      defaultSettings.budgets.project.written_bytes_per_minute,
    );
    expect(boundsOf(view, { of: 'installation' }, endless).written_bytes_per_minute).toBe(0);
  });
});

it('what is promised counts until it is over', () => {
  const reservations = createReservations();
  let isOver = false;
  reservations.add(new Map([['a', { bytes: 10, objects: 1 }]]), () => isOver);
  reservations.add(
    new Map([
      ['a', { bytes: 5, objects: 0 }],
      ['b', { bytes: 5, objects: 0 }],
    ]),
    () => false,
  );
  expect([reservations.of('a'), reservations.of('b'), reservations.of('c')]).toEqual([
    { bytes: 15, objects: 1 },
    { bytes: 5, objects: 0 },
    { bytes: 0, objects: 0 },
  ]);
  isOver = true;
  expect(reservations.of('a')).toEqual({ bytes: 5, objects: 0 });
});
