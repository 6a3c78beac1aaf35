import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, it, vi } from 'vitest';
import { systemRandom } from '../../api/ground/random.ts';
import { startReplica } from '../../cli/replica.ts';
import { keys } from '../../store/keys.ts';
import { thisRelease } from '../../store/release.ts';
import { openKeyring } from '../../store/seal.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import { systemClock } from '../../time/clock.ts';

it('a replica that leads marks the store, and refuses one on which a later release has led without writing to it', async () => {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-later-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const store = cleanup.use(await openSqlite({ path: ':memory:', clock: systemClock }));
  const keyring = await openKeyring({ path: join(folder, 'keys.json'), store });
  const start = () =>
    startReplica({
      store,
      keyring,
      clock: systemClock,
      random: systemRandom,
      uniform: Math.random,
      log: pino({ level: 'silent' }),
      registry: new Registry(),
      replica: { id: crypto.randomUUID(), url: 'http://replica.test', version: '1.2.3' },
      publicUrl: 'https://setpoint.example',
      ownPorts: [],
      trustedProxies: [],
      buildDeadlineMs: 600_000,
      rolloutDeadlineMs: 120_000,
      auditKeepMs: 3_600_000,
      strict: true,
    });
  const mark = keys.meta('release');
  const replica = await start();
  await vi.waitFor(async () => {
    const { value = '{}' } = (await store.get(mark)) ?? {};
    expect(JSON.parse(value)).toEqual({ version: '1.2.3', reads: thisRelease.reads });
  });
  await replica[Symbol.asyncDispose]();
  const later = { version: '2.0.0', reads: { ...thisRelease.reads, machine: 1 } };
  const { revision } = await store.txn({ if: [], then: [{ put: mark, value: JSON.stringify(later) }] });
  await expect(start()).rejects.toThrow('A later release (2.0.0) wrote this store');
  expect(await store.revision()).toBe(revision);
});
