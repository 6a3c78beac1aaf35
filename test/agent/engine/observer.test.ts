import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { Ledger } from '../../../agent/engine/ledger.ts';
import { Observer } from '../../../agent/engine/observer.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import { defaultContainerLimits, dockerRuntime } from '../../../agent/runtime/docker/docker-runtime.ts';
import { systemClock } from '../../../time/clock.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { testBuilds } from '../../harness/docker.ts';

test('an engine that never answered is reported, once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-observer-'));
  try {
    const lines: string[] = [];
    await using ledger = await Ledger.open(join(folder, 'ledger'), Buffer.alloc(32));
    using runtime = dockerRuntime({
      socketPath: join(folder, 'no-engine.sock'),
      clock: systemClock,
      containers: defaultContainerLimits,
      builds: testBuilds,
    });
    await using observer = new Observer({
      runtime,
      server: '0b7c1c1e-6c1c-4f0e-9d64-1c1d4d0a3c55',
      ledger,
      clock: systemClock,
      log: pino({}, { write: (line) => void lines.push(line) }),
      changed: () => undefined,
      told: () => undefined,
      listed: () => undefined,
      returned: () => undefined,
      silent: () => undefined,
    });
    await expect(observer.relist()).rejects.toThrow('does not answer');
    await expect(observer.relist()).rejects.toThrow('does not answer');
    expect(
      lines.filter((it) =>
        it.includes(
          'The container engine does not answer: instances go on, and no instance is changed until it answers',
        ),
      ),
    ).toHaveLength(1);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('a container that is made while a list is on its way is not forgotten by that list', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-observer-'));
  try {
    const clock = new FakeClock();
    const answer = Promise.withResolvers<void>();
    const runtime = mockRuntime(new MockEngine(clock));
    const changed: string[] = [];
    await using ledger = await Ledger.open(join(folder, 'ledger'), Buffer.alloc(32));
    await using observer = new Observer({
      runtime: { ...runtime, list: () => answer.promise.then(() => []) },
      server: '0b7c1c1e-6c1c-4f0e-9d64-1c1d4d0a3c55',
      ledger,
      clock,
      log: pino({ level: 'silent' }),
      changed: (ids) => changed.push(...ids),
      told: () => undefined,
      listed: () => undefined,
      returned: () => undefined,
      silent: () => undefined,
    });
    const listing = observer.relist();
    const container = { id: 'c1', name: 'sp-web-1', labels: { [labels.assignment]: 'a1' }, imageId: 'sha256:1' };
    observer.note({ ...container, state: 'created' });
    answer.resolve();
    await listing;
    expect([...observer.ids()]).toEqual(['c1']);
    expect(changed).toEqual([]);
    await observer.relist();
    expect([...observer.ids()]).toEqual([]);
    expect(changed).toEqual(['a1']);
  } finally {
    await rm(folder, { recursive: true });
  }
});
