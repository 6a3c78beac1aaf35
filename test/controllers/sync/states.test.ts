import { describe, expect, it } from 'vitest';
import {
  changedByHand,
  cleared,
  conditionsOf,
  decide,
  known,
  runOf,
  toBeForced,
  withRun,
} from '../../../controllers/sync/states.ts';
import type { Decision, Observed } from '../../../controllers/sync/states.ts';
import { brokenLaws } from '../../../controllers/runtime/conditions.ts';
import type { CommitPlan, CommitStep } from '../../../store/declared/commit.ts';
import { maxMessageChars, maxRunSteps, maxSyncKeys, maxSyncRuns, SyncPhase } from '../../../store/kinds/sync.ts';
import { object } from '../../harness/objects.ts';

const step = (key: string, more: Partial<CommitStep> = {}): CommitStep => ({
  action: 'update',
  key,
  renamed_from: null,
  fields: [],
  loses_data: null,
  waits_for: null,
  ...more,
});
const byHand = step('applications.web', { fields: [{ field: 'image_url', by_hand: true }] });
const losing = step('volumes.files', { action: 'delete', loses_data: 'All that is in it' });
const plain = step('applications.api');
const same = step('applications.same', { action: 'unchanged' });

function plan(...steps: CommitStep[]): CommitPlan {
  const needs_force = [byHand, losing].filter((it) => steps.includes(it)).map(({ key }) => key);
  return { changes: steps.some(({ action }) => action !== 'unchanged'), steps, needs_force };
}

interface Case {
  applied?: string;
  drift?: 'warn' | 'correct';
  force?: string[];
  /** The commit whose steps are to be forced. */
  seen?: string;
  isHandled?: boolean;
}

function decided({ applied, drift = 'warn', force, seen = 'new', isHandled = false }: Case, of: CommitPlan): Decision {
  const request = force === undefined ? {} : { request: { at: '2026-01-01T00:00:00.000Z', force, commit: seen } };
  const observed: Observed = {
    ...known(undefined),
    ...(applied !== undefined && { commit_applied: applied }),
    ...(isHandled && { handled_request: '2026-01-01T00:00:00.000Z' }),
  };
  return decide(object('sync', { drift, ...request }, { observed }), 'new', of);
}

describe('a plan', () => {
  it.each<[what: string, of: CommitPlan, is: Case, leadsTo: Decision]>([
    ['of the commit that is applied and changes nothing', plan(same), { applied: 'new' }, { does: 'nothing' }],
    ['of a new commit that changes nothing', plan(same), { applied: 'old' }, { does: 'apply', force: [] }],
    ['that is asked for and changes nothing', plan(same), { applied: 'new', force: [] }, { does: 'apply', force: [] }],
    ['of a new commit', plan(plain), { applied: 'old' }, { does: 'apply', force: [] }],
    ['of the first commit', plan(plain), {}, { does: 'apply', force: [] }],
    ['of the commit that is applied', plan(plain), { applied: 'new' }, { does: 'tell' }],
    ['that is asked for', plan(plain), { applied: 'new', force: [] }, { does: 'apply', force: [] }],
    ['that was asked for', plan(plain), { applied: 'new', force: [], isHandled: true }, { does: 'tell' }],
    ['to be corrected', plan(plain), { applied: 'new', drift: 'correct' }, { does: 'apply', force: [] }],
    ['that others declare', plan(byHand), { applied: 'new', drift: 'correct' }, { does: 'wait', keys: [byHand.key] }],
    ['that overwrites', plan(plain, byHand), { applied: 'old' }, { does: 'wait', keys: [byHand.key] }],
    ['that loses data', plan(losing), { applied: 'old', drift: 'correct' }, { does: 'wait', keys: [losing.key] }],
    [
      'that loses data as a person has named',
      plan(losing, byHand),
      { applied: 'old', force: [losing.key, byHand.key] },
      { does: 'apply', force: [losing.key, byHand.key] },
    ],
    [
      'with the text of a template that a person has named',
      plan(plain),
      { applied: 'new', force: [`${plain.key}#text`, 'applications.none#text'] },
      { does: 'apply', force: [`${plain.key}#text`] },
    ],
    [
      'of which a person has named a part',
      plan(losing, byHand),
      { applied: 'old', force: [losing.key], isHandled: true },
      { does: 'wait', keys: [byHand.key] },
    ],
    [
      'that loses data as a person has named of another commit',
      plan(losing),
      { applied: 'old', force: [losing.key], seen: 'other' },
      { does: 'wait', keys: [losing.key] },
    ],
    [
      'whose names were used up',
      plan(losing),
      { applied: 'old', force: [losing.key], isHandled: true },
      { does: 'wait', keys: [losing.key] },
    ],
  ])('%s', (_what, of, is, leadsTo) => {
    expect(decided(is, of)).toEqual(leadsTo);
  });
});

it.each([changedByHand, toBeForced])('a message has room for the longest keys', (inWords) => {
  const keys = Array.from({ length: maxSyncKeys }, () => `template_instances.${'e'.repeat(100)}/${'n'.repeat(100)}`);
  expect(inWords(keys).length).toBeLessThanOrEqual(maxMessageChars);
  expect(inWords(['volumes.files'])).toContain('volumes.files');
});

describe('the record of commits', () => {
  const at = new Date('2026-01-01T00:00:00.000Z');
  const read = (commit: string) => ({ commit, message: `Say ${commit}` });

  it('has what a plan changes, bounded', () => {
    const steps = Array.from({ length: maxRunSteps + 5 }, (_, n) => step(`applications.a${n}`));
    const run = runOf(read('a'), 'applied', {
      at,
      plan: plan(step('same', { action: 'unchanged' }), byHand, ...steps),
    });
    expect(run).toMatchObject({ commit: 'a', commit_message: 'Say a', outcome: 'applied', changes: maxRunSteps + 6 });
    expect(run.steps).toHaveLength(maxRunSteps);
    expect(run.steps[0]).toEqual({
      action: 'update',
      key: 'applications.web',
      fields: ['image_url'],
      loses_data: false,
    });
    expect(runOf(read('a'), 'waiting', { at, plan: plan(losing) }).steps).toMatchObject([{ loses_data: true }]);
  });

  it('has the present plan of a commit that still waits in the same words', () => {
    const waiting = (of: CommitPlan) => runOf(read('b'), 'waiting', { at, plan: of, message: 'It waits' });
    const former = runOf(read('a'), 'applied', { at });
    const once = withRun([former], waiting(plan(losing)));
    const other = waiting(plan(losing, plain));
    expect(withRun(once, other)).toEqual([other, former]);
    expect(withRun(withRun(once, other), other)).toEqual([other, former]);
  });

  it('keeps the newest, and does not repeat what still fails', () => {
    const failed = runOf(read('b'), 'failed', { at, message: 'It has a fault' });
    const once = withRun([runOf(read('a'), 'applied', { at })], failed);
    expect(withRun(once, failed)).toEqual(once);
    expect(withRun(once, { ...failed, message: 'It has another' })).toHaveLength(3);
    const applied = runOf(read('c'), 'applied', { at });
    let all = once;
    for (let n = 0; n < maxSyncRuns + 2; n += 1) all = withRun(all, applied);
    expect(all).toHaveLength(maxSyncRuns);
  });
});

it('a sync that lacks a tag says so by a reason of its own', () => {
  const failed: Observed = { ...known(undefined), phase: 'failed', message: 'It has none' };
  expect(conditionsOf({ is_paused: false }, failed)[0]?.reason).toBe('Failed');
  expect(conditionsOf({ is_paused: false }, { ...failed, lack: 'tag' })[0]?.reason).toBe('NoMatchingTag');
  expect(cleared({ ...failed, lack: 'tag' })).not.toHaveProperty('lack');
});

it.each(SyncPhase.options)('a sync that is %s shows why, in a form that is allowed', (phase) => {
  const observed = { ...known(undefined), phase, message: 'It is so' };
  const next = { again: 1, because: 'the time of its next look to come' } as const;
  expect(brokenLaws(1, conditionsOf({ is_paused: false }, observed), next)).toEqual([]);
  expect(conditionsOf({ is_paused: false }, observed)[0]?.status).toBe(phase === 'in_sync' ? 'true' : 'false');
  expect(conditionsOf({ is_paused: true }, observed)[0]?.reason).toBe('Paused');
  for (const is_paused of [true, false])
    expect(conditionsOf({ is_paused, pinned_commit: 'c'.repeat(40) }, observed)[0]?.message).toContain(
      'pinned to cccccccccccc',
    );
  const longest = { ...observed, message: 'x'.repeat(maxMessageChars) };
  const [shown] = conditionsOf({ is_paused: false, pinned_commit: 'c'.repeat(40) }, longest);
  expect(shown?.message.length).toBeLessThanOrEqual(maxMessageChars);
});
