import { expect, test } from 'vitest';
import type { DiskSpace } from '../../../agent/disk/disk-guard.ts';
import { bytesBetween, LoadMeter, parseInterfaces } from '../../../agent/machine/load.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { idle } from '../../harness/idle.ts';

test('traffic between containers is not counted as the machine’s', () => {
  const head = 'Inter-|   Receive\n face |bytes\n';
  const line = (name: string, received: number, sent: number): string =>
    `  ${name}: ${received} 1 0 0 0 0 0 0 ${sent} 1 0 0 0 0 0 0\n`;
  const text = `${head}${line('lo', 5, 5)}${line('eth0', 100, 200)}${line('br-1a', 7, 7)}${line('veth2', 7, 7)}${line('ens3', 1, 2)}`;
  expect([...parseInterfaces(text)]).toEqual([
    ['eth0', { received: 100, sent: 200 }],
    ['ens3', { received: 1, sent: 2 }],
  ]);
});

test('an interface that comes, goes or begins anew does not hide what passed the others', () => {
  const counted = (all: Record<string, number>) =>
    new Map(Object.entries(all).map(([name, bytes]) => [name, { received: bytes, sent: 2 * bytes }]));
  const between = (before: Record<string, number>, now: Record<string, number>) =>
    bytesBetween(counted(before), counted(now));
  expect(between({ a: 100 }, { a: 110 })).toEqual({ received: 10, sent: 20 });
  expect(between({ a: 100, gone: 5000 }, { a: 110 })).toEqual({ received: 10, sent: 20 });
  expect(between({ a: 100 }, { a: 110, came: 5000 })).toEqual({ received: 10, sent: 20 });
  expect(between({ a: 100, anew: 5000 }, { a: 110, anew: 3 })).toEqual({ received: 13, sent: 26 });
  expect(between({ gone: 5000 }, { came: 5000 })).toBeUndefined();
});

test('a disk that does not answer is not known, and delays the other values by 2 s at most', async () => {
  const clock = new FakeClock();
  let asked = 0;
  const hangs = new Promise<DiskSpace>(() => undefined);
  const disk = (): Promise<DiskSpace> => {
    asked += 1;
    return hangs;
  };
  using meter = new LoadMeter({ clock, disk });
  const started = meter.start();
  await clock.advance(2000);
  await started;
  expect(meter.sample.values).not.toHaveProperty('disk_used_bytes');
  expect(meter.sample.values.memory_total_bytes).toBeGreaterThan(0);
  expect(meter.load).toMatchObject({ disk_used_bytes: 0, disk_total_bytes: 0 });
  let samples = 0;
  meter.onSample(() => (samples += 1));
  for (let n = 0; n < 40; n++) {
    await clock.advance(1000);
    await idle();
  }
  expect(samples).toBeGreaterThan(5);
  expect(asked).toBe(1); // each question keeps a thread of the agent
});

test('samples lie in the middle of each 5 s, and no rate is of a short time', async () => {
  const clock = new FakeClock('2030-01-01T00:00:01.000Z');
  const disk = { freeBytes: 40, totalBytes: 100 };
  using meter = new LoadMeter({ clock, disk: () => Promise.resolve(disk) });
  const at: number[] = [];
  meter.onSample((sample) => at.push(sample.at % 5000));
  await meter.start();
  expect(meter.sample.values).toMatchObject({ disk_used_bytes: 60, disk_total_bytes: 100 });
  for (let n = 0; n < 30; n++) {
    await clock.advance(500);
    await idle();
  }
  expect(at).toEqual([1000, 2500, 2500]);
});
