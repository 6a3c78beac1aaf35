import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { Mirror } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import { randomId } from '../harness/random-id.ts';
import { eventually } from '../harness/eventually.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

let cleanup: AsyncDisposableStack;
let mirror: Mirror;
let repo: Repository;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  const store = cleanup.use(await openSqlite({ path: ':memory:' }));
  mirror = cleanup.use(startMirror({ store, clock: systemClock, log: pino({ level: 'silent' }) }));
  repo = openRepository(store, 'acme', systemClock);
  await mirror.ready;
});

afterEach(() => cleanup.disposeAsync());

describe('eventually', () => {
  it('answers with what it looked for as soon as a change brings it', async () => {
    const id = randomId();
    const found = eventually(mirror, () => mirror.tenant('acme').get('project', id));
    const unit = repo.begin();
    unit.create('project', id, desiredState('project', { name: 'a' }));
    await unit.commit();
    expect((await found).desired.name).toBe('a');
  });

  it('takes a failed expectation for "not yet"', async () => {
    const unit = repo.begin();
    const it = unit.create('project', randomId(), desiredState('project'));
    await unit.commit();
    const seen = eventually(mirror, () => {
      expect(mirror.tenant('acme').get('project', it.meta.id)?.observed?.phase).toBe('active');
      return true;
    });
    await repo.observe(it, projectObserved('active'), []);
    await seen;
  });

  it('fails after its time with the last answer and the state of the object', async () => {
    const unit = repo.begin();
    const it = unit.create('project', randomId(), desiredState('project', { name: 'stuck' }));
    await unit.commit();
    await repo.observe(it, projectObserved('active'), []);
    await mirror.reached(it.meta.desiredRevision, AbortSignal.timeout(5000));
    const of = { tenant: 'acme', kind: 'project', id: it.meta.id } as const;
    const failure = eventually(mirror, () => false, { timeoutMs: 20, of });
    await expect(failure).rejects.toThrow(/Not so within 20 ms, at revision \d+\n.*answer: false.*\n[^]*'stuck'/);
  });
});
