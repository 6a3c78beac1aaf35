import { describe, expect, it } from 'vitest';
import { importedText, restoreSteps, touchedNow } from '../../../web/pages/backups/restore-steps.ts';
import type { RestoreStatus } from '../../../web/pages/backups/restore-steps.ts';
import { touchedBy, whyNotYet } from '../../../web/pages/database/restore-draft.ts';

const own = 'own';
const restore = (status: RestoreStatus, target_time: string | null = null) => ({
  kind: 'database' as const,
  resource_id: own,
  target_time,
  status,
  progress: null,
  started_at: null,
  is_drill: false,
});
const shown = (status: RestoreStatus, time: string | null = null, from: string | undefined = own): string[] =>
  restoreSteps(restore(status, time), from).map((step) => `${step.name} ${step.status}`);

describe('the steps of a restore', () => {
  it('of a backup go on to the switch by themselves', () => {
    expect(shown('restoring')).toEqual([
      'Prepare done',
      'Copy running',
      'Check waiting',
      'Switch waiting',
      'Done waiting',
    ]);
  });

  it('to an instant of the same database wait for a decision, and of another one do not', () => {
    const time = '2026-01-01T00:00:00Z';
    expect(shown('ready_to_switch', time)).toContain('Your decision running');
    expect(shown('verifying', time, 'another')).not.toContain('Your decision waiting');
  });

  it('are all done at the end, and say so if it failed', () => {
    expect(shown('completed').every((one) => one.endsWith('done'))).toBe(true);
    expect(shown('failed').at(-1)).toBe('Done failed');
  });

  it('say what is touched, and that nothing that serves is before the switch', () => {
    for (const status of ['pending', 'preparing', 'verifying', 'ready_to_switch'] as const)
      expect(touchedNow(restore(status))).toContain('Touched: nothing');
    expect(touchedNow(restore('switching'))).toContain('Touched: what serves');
  });

  it('for trial end with the check', () => {
    const trial = (status: RestoreStatus) => ({ ...restore(status), is_drill: true });
    expect(restoreSteps(trial('verifying'), own).map(({ name }) => name)).toEqual(['Prepare', 'Copy', 'Check', 'Done']);
    expect(touchedNow(trial('completed'))).toContain('is removed');
  });

  it('have how far the copy is', () => {
    const progress = { done_bytes: 1024, total_bytes: 4096, bytes_per_second: 512 };
    const [, copy] = restoreSteps({ ...restore('restoring'), progress }, own);
    expect(copy?.detail).toBe('1 KiB of 4 KiB, 512 B/s');
  });
});

describe('a restore that is being asked for', () => {
  const draft = { when: { backup: 'b' }, into: 'same' as const, newName: '', otherId: undefined };

  it('names what is missing', () => {
    expect(whyNotYet({ ...draft, when: undefined })).toContain('Choose a backup');
    expect(whyNotYet({ ...draft, into: 'new' })).toContain('name');
    expect(whyNotYet({ ...draft, into: 'other' })).toContain('other database');
    expect(whyNotYet(draft)).toBeUndefined();
  });

  it('says that a backup switches by itself, an instant on a decision, and a new database touches nothing', () => {
    expect(touchedBy(draft, 'orders').join(' ')).toContain('orders switches by itself');
    expect(touchedBy({ ...draft, when: { instant: 1 } }, 'orders').join(' ')).toContain('only your decision');
    expect(touchedBy({ ...draft, into: 'new', newName: 'copy' }, 'orders')[0]).toBe(
      'Nothing of orders is touched, now or later.',
    );
  });
});

it('what an import reads is told in words', () => {
  const none = { url: null, path: null, size_bytes: null };
  expect(importedText({ ...none, kind: 'backup' })).toBeUndefined();
  expect(importedText({ ...none, kind: 'upload', size_bytes: 2048 })).toBe('a file that was sent, 2 KiB');
  expect(importedText({ ...none, kind: 'url', url: 'https://a.test/d' })).toBe('https://a.test/d');
  expect(importedText({ ...none, kind: 'path', path: 'd.sql' })).toBe('file d.sql of its server');
});
