import { describe, expect, it } from 'vitest';
import {
  actionLookOf,
  differences,
  formerCommits,
  losesData,
  lossOf,
  providerOf,
  withOneFollowed,
} from '../../../web/pages/syncs/sync-words.ts';
import type { RunStep, Sync, SyncRun } from '../../../web/pages/syncs/sync-words.ts';

const step = (action: string, key: string, ...fields: string[]): RunStep => ({
  action,
  key,
  renamed_from: null,
  fields,
  loses_data: null,
});
const run = (change: Partial<SyncRun>): SyncRun => ({
  commit: 'b',
  commit_message: null,
  tag: null,
  at: '2026-01-01T00:00:00.000Z',
  outcome: 'waiting',
  message: null,
  steps: [],
  changes: 0,
  is_of_present_source: true,
  ...change,
});
const sync = (change: Partial<Sync>): Sync =>
  ({ status: 'waiting', commit_wanted: 'b', differs: [], needs_force: [], ...change }) as Sync;

describe('what a sync differs in', () => {
  const gone = step('delete', 'volumes.files');
  const runs = [run({ steps: [gone, step('update', 'applications.web', 'replicas')] })];

  it('has the step of each key in the plan that waits, and what has to be forced first', () => {
    const it = sync({ differs: ['applications.web', 'volumes.files'], needs_force: ['volumes.files'] });
    expect(differences(it, runs)).toEqual([
      { key: 'volumes.files', step: gone, needsForce: true },
      { key: 'applications.web', step: runs[0]?.steps[1], needsForce: false },
    ]);
  });

  it('has no step of another commit, nor of what was changed after the plan was done', () => {
    const of = { differs: ['applications.web'] };
    const none = [{ key: 'applications.web', step: undefined, needsForce: false }];
    expect(differences(sync({ ...of, commit_wanted: 'c' }), runs)).toEqual(none);
    expect(differences(sync({ ...of, status: 'drifted' }), runs)).toEqual(none);
    expect(differences(sync(of), [])).toEqual(none);
  });
});

describe('what a sync can go back to', () => {
  it('is each commit that was applied as a whole, once, and not the present one', () => {
    const outcomes = [
      run({ commit: 'd', outcome: 'applied' }),
      run({ commit: 'c', outcome: 'failed' }),
      run({ commit: 'b', outcome: 'unchanged' }),
      run({ commit: 'b', outcome: 'applied' }),
      run({ commit: 'a', outcome: 'partly' }),
      run({ commit: 'e', outcome: 'applied', is_of_present_source: false }),
    ];
    expect(formerCommits({ commit_applied: 'd', commit_wanted: 'd' }, outcomes)).toEqual([outcomes[2]]);
    expect(formerCommits({ commit_applied: null, commit_wanted: 'e' }, outcomes)).toEqual([outcomes[0], outcomes[2]]);
  });
});

describe('what a forced step loses', () => {
  it.each([
    ['volumes.files', step('delete', 'volumes.files'), true, 'volumes.files: the volume with its data'],
    ['databases.db', step('replace', 'databases.db'), true, 'the data of the present database'],
    [
      'databases.db',
      step('update', 'databases.db', 'cpu_limit'),
      false,
      'What others have set of databases.db: cpu_limit',
    ],
    ['applications.web', step('update', 'applications.web', 'replicas'), false, 'applications.web: replicas'],
    ['applications.web', step('delete', 'applications.web'), false, 'which the commit does not declare'],
    ['template_instances.wiki', step('update', 'template_instances.wiki'), true, 'What others have set'],
    ['volumes.more', undefined, true, 'What is there as volumes.more'],
    ['functions.hello', { ...step('delete', 'functions.hello'), loses_data: true }, true, 'functions.hello, which'],
    ['volumes.files', { ...step('replace', 'volumes.files'), loses_data: false }, false, 'volumes.files'],
  ] as const)('of %s by %o is said, with data: %s', (key, of, hasData, text) => {
    expect(losesData(key, of)).toBe(hasData);
    expect(lossOf(key, of)).toContain(text);
  });
});

it('shows the action of a newer server as it is named', () => {
  expect(actionLookOf('delete')).toEqual({ word: 'deleted', tone: 'bad' });
  expect(actionLookOf('adopt')).toEqual({ word: 'adopt' });
});

it.each([
  ['https://github.com/team/shop.git', 'github'],
  ['git@gitlab.example.org:team/shop.git', 'gitlab'],
  ['ssh://git@gitea.example.org:2222/team/shop.git', 'gitea'],
  ['https://git.example.org/github/shop.git', 'generic'],
  ['', 'generic'],
])('takes the provider of %s to be %s', (repository, provider) => {
  expect(providerOf(repository)).toBe(provider);
});

describe('what a sync follows', () => {
  const branch = { branch: 'main', tag_pattern: null };

  it('is the one that was entered last: a branch or tags', () => {
    expect(withOneFollowed(branch, { ...branch, tag_pattern: 'v' })).toEqual({ branch: null, tag_pattern: 'v' });
    const tags = { branch: null, tag_pattern: 'v*' };
    expect(withOneFollowed(tags, { ...tags, branch: 'm' })).toEqual({ branch: 'm', tag_pattern: null });
  });

  it('stays what it is where something else is entered, or one of them is emptied', () => {
    for (const next of [
      { ...branch, name: 'shop' },
      { ...branch, branch: null },
    ])
      expect(withOneFollowed(branch, next)).toEqual(next);
  });
});
