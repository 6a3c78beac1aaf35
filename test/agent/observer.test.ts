import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { Ledger } from '../../agent/ledger.ts';
import { Observer } from '../../agent/observer.ts';
import { defaultContainerLimits, dockerRuntime } from '../../agent/runtime/docker/docker-runtime.ts';
import { systemClock } from '../../store/clock.ts';

test('an engine that never answered is told of, once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-observer-'));
  try {
    const lines: string[] = [];
    await using ledger = await Ledger.open(join(folder, 'ledger'), Buffer.alloc(32));
    using runtime = dockerRuntime({
      socketPath: join(folder, 'no-engine.sock'),
      clock: systemClock,
      containers: defaultContainerLimits,
      builds: { memoryBytes: 2 ** 30, cpuShares: 512 },
    });
    await using observer = new Observer({
      runtime,
      server: '0b7c1c1e-6c1c-4f0e-9d64-1c1d4d0a3c55',
      ledger,
      clock: systemClock,
      log: pino({}, { write: (line) => void lines.push(line) }),
      changed: () => undefined,
      returned: () => undefined,
      silent: () => undefined,
    });
    await expect(observer.relist()).rejects.toThrow('does not answer');
    await expect(observer.relist()).rejects.toThrow('does not answer');
    expect(lines.filter((it) => it.includes('Container engine does not answer'))).toHaveLength(1);
  } finally {
    await rm(folder, { recursive: true });
  }
});
