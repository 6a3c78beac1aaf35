import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { dueOf, possibleOf, stateOf } from '../../../controllers/template-instance/states.ts';
import type { Child, World } from '../../../controllers/template-instance/states.ts';
import type { Progress } from '../../../store/instance-progress.ts';
import { object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';

type States = Readonly<Record<string, Progress['state']>>;

/** Two volumes, then two applications that need them. */
const waves: Readonly<Record<string, number>> = { a: 0, b: 0, c: 1, d: 1 };

function world(states: States, changes: Partial<World> = {}, observed?: object): World {
  const children = Object.entries(waves).map(([key, wave]) => ({
    kind: 'volume' as const,
    id: randomUUID(),
    key,
    wave,
    desired: desiredState('volume', { name: key }),
  }));
  const was = observed === undefined ? {} : { observed: { phase: 'deploying' as const, made: [], ...observed } };
  return {
    instance: object('template_instance', { children }, was),
    progress: ({ key }) => ({ state: states[key] ?? 'waiting', message: `it is ${states[key]}` }),
    lack: () => undefined,
    ...changes,
  };
}

const keys = (children: readonly Child[]) => children.map(({ key }) => key);

it.each<[what: string, states: States, due: string[]]>([
  ['the first wave at first', {}, ['a', 'b']],
  ['the rest of a wave that a crash cut', { a: 'starting' }, ['b']],
  ['the rest of a wave of which one has failed', { a: 'failed' }, ['b']],
  ['nothing while a wave comes up', { a: 'up', b: 'starting' }, []],
  ['the next wave once one is up', { a: 'up', b: 'up' }, ['c', 'd']],
  ['nothing after a wave that failed', { a: 'up', b: 'failed' }, []],
  ['nothing after one that was stopped', { a: 'up', b: 'stopped' }, []],
  ['nothing after one that was deleted', { a: 'up', b: 'gone' }, []],
  ['nothing once all is made', { a: 'up', b: 'up', c: 'starting', d: 'up' }, []],
])('makes %s', (_, states, due) => {
  expect(keys(dueOf(world(states)))).toEqual(due);
});

const up: States = { a: 'up', b: 'up', c: 'up', d: 'up' };

it.each<[states: States, phase: string, completed: string, reason: string]>([
  [{}, 'deploying', 'deploying', 'Deploying'],
  [{ a: 'up', b: 'starting' }, 'deploying', 'deploying', 'Deploying'],
  [up, 'running', 'running', 'Ready'],
  [{ ...up, d: 'starting' }, 'deploying', 'deploying', 'Deploying'],
  [{ ...up, d: 'failed' }, 'failed', 'degraded', 'ChildFailed'],
  [{ a: 'up', b: 'failed' }, 'failed', 'degraded', 'ChildFailed'],
  [{ ...up, d: 'gone' }, 'failed', 'degraded', 'ChildGone'],
  [{ ...up, d: 'stopped' }, 'degraded', 'degraded', 'ChildStopped'],
])('with %o it is %s, and %s once all was up', (states, phase, completed, reason) => {
  const first = stateOf(world(states));
  expect([first.observed.phase, first.ready.reason]).toEqual([phase, reason]);
  const later = stateOf(world(states, {}, { completed: true }));
  expect([later.observed.phase, later.observed.completed]).toEqual([completed, true]);
});

it('says which child has failed and why, and waits for nothing then', () => {
  const { ready, pending, isLacking } = stateOf(world({ ...up, c: 'failed' }));
  expect(ready).toMatchObject({ status: 'false', message: 'volume c: it is failed' });
  expect([pending, isLacking]).toEqual([[], false]);
});

it('counts what is up, and names the wave', () => {
  expect(stateOf(world({ a: 'up', b: 'starting' })).ready.message).toBe('1 of 4 are up, wave 1 of 2 is being made');
});

it('makes what it can of a wave, and says what is in the way of the rest', () => {
  const lack: World['lack'] = ({ key }) => (key === 'a' ? { reason: 'NameTaken', message: 'a is taken' } : undefined);
  const it = world({}, { lack });
  const made = possibleOf(it);
  expect(keys(made)).toEqual(['b']);
  const { observed, ready, isLacking } = stateOf(it, made);
  expect([observed.phase, ready.reason, isLacking]).toEqual(['failed', 'NameTaken', true]);
  expect(observed.made).toEqual([made[0]!.id]);
});

it('remembers what was made, so that what is deleted is not made again', () => {
  const before = randomUUID();
  const { observed } = stateOf(world({ a: 'up' }, {}, { made: [before] }));
  expect(observed.made).toHaveLength(2);
  expect(observed.made[0]).toBe(before);
});
