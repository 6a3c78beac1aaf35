import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { Arrivals } from '../../../agent/logs/arrivals.ts';
import type { Entry } from '../../../agent/logs/record.ts';
import { WorkloadLog } from '../../../agent/logs/workload-log.ts';
import { systemClock } from '../../../time/clock.ts';
import { within } from '../../harness/within.ts';

const entry: Entry = { at: 0, stream: 'stdout', level: 'info', instance: 'i', message: 'x'.repeat(1000) };

test('lines are flushed once they are on disk, also while others are written all the time', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'workload-log-'));
  const log = await WorkloadLog.open({
    folder,
    segmentBytes: 8 * 1024 * 1024,
    clock: systemClock,
    log: pino({ level: 'silent' }),
    arrivals: new Arrivals(systemClock),
    keeps: () => undefined,
    rotated: () => undefined,
    makeRoom: async () => false,
  });
  let isOver = false;
  const writeOn = (): void => {
    if (isOver) return;
    log.append([entry]);
    setImmediate(writeOn);
  };
  try {
    writeOn();
    log.append(Array.from({ length: 100 }, () => entry));
    await within('the lines are flushed', log.flushed());
    expect(log.lastSeq).toBeGreaterThanOrEqual(101);
  } finally {
    isOver = true;
    await log[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  }
});
