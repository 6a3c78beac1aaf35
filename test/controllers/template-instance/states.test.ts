import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { dueOf, leftOf, possibleOf, retiredOf, stateOf } from '../../../controllers/template-instance/states.ts';
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
    former: () => undefined,
    obsolete: [],
    isUsed: () => false,
    drift: [],
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
  const first = world({ a: 'up' });
  const gone = first.instance.desired.children[3]!.id;
  const was = { phase: 'deploying' as const, made: [gone, randomUUID()] };
  const instance = object('template_instance', { children: [...first.instance.desired.children] }, { observed: was });
  const { observed } = stateOf({ ...first, instance });
  expect(observed.made).toEqual([gone, instance.desired.children[0]!.id]);
});

it.each<[what: string, states: States, due: string[]]>([
  ['what is outdated of the first wave', { ...up, a: 'outdated', c: 'outdated' }, ['a']],
  ['the second wave once the first is up', { ...up, c: 'outdated' }, ['c']],
  ['nothing of it while the first is not', { ...up, a: 'failed', c: 'outdated' }, []],
  ['what is outdated beside what is to be made', { ...up, c: 'outdated', d: 'waiting' }, ['c', 'd']],
])('changes %s', (_, states, due) => {
  expect(keys(possibleOf(world(states)))).toEqual(due);
});

/** The first volume of a later revision, and the object of an earlier one. */
function later(states: States, changes: Partial<World> = {}) {
  const it = world(states, changes, { completed: true });
  const children = it.instance.desired.children.map((child, at) => (at === 0 ? { ...child, revision: 2 } : child));
  const was = { observed: { phase: 'running' as const, made: [], completed: true as const } };
  return { ...it, instance: object('template_instance', { children: [...children], revision: 2 }, was) };
}

it('is brought to a revision once all of it is up, and fails where it is not', () => {
  const it = later({ ...up, a: 'outdated' });
  const [a] = possibleOf(it);
  expect(stateOf(it).observed).toMatchObject({ phase: 'deploying', completed: true });
  expect(stateOf(it, [a!]).observed.applied).toEqual({ [a!.id]: 2 });
  expect(stateOf(later({ ...up, a: 'failed' })).observed.phase).toBe('failed');
  const done = stateOf(later(up)).observed;
  expect(done).toMatchObject({ phase: 'running', completed_revision: 2 });
});

it('deletes what has the place of a child that is due first, and waits for that', () => {
  const former = object('volume', {});
  const it = world({ a: 'up' }, { obsolete: [former], former: ({ key }) => (key === 'b' ? former : undefined) });
  expect([keys(dueOf(it)), keys(possibleOf(it)), retiredOf(it)]).toEqual([['b'], [], [former]]);
  const { pending, observed } = stateOf(it);
  expect([keys(pending), observed.phase]).toEqual([['b'], 'deploying']);
});

it('deletes what is not declared any more once all is up, applications before what they use', () => {
  const [volume, application] = [object('volume', {}), object('application', {})];
  const obsolete = [volume, application];
  expect(retiredOf(world({ ...up, d: 'starting' }, { obsolete }))).toEqual([]);
  expect(retiredOf(world(up, { obsolete }))).toEqual([application]);
  expect(retiredOf(world(up, { obsolete: [volume] }))).toEqual([volume]);
  expect(stateOf(world(up, { obsolete: [volume] })).observed.phase).toBe('deploying');
});

it('leaves what others use, and deletes the rest', () => {
  const [used, volume] = [object('volume', {}), object('volume', {})];
  const isUsed: World['isUsed'] = ({ meta }) => meta.id === used.meta.id;
  const it = world(up, { obsolete: [used, volume], isUsed });
  expect([retiredOf(it), leftOf(it)]).toEqual([[volume], [used]]);
  const former: World['former'] = ({ key }) => (key === 'b' ? used : undefined);
  const inTheWay = world({ a: 'up' }, { obsolete: [used], former, isUsed });
  expect([retiredOf(inTheWay), leftOf(inTheWay)]).toEqual([[], [used]]);
});

it('changes no child that something is in the way of, and says what', () => {
  const lack: World['lack'] = ({ key }) => (key === 'a' ? { reason: 'NameTaken', message: 'a is taken' } : undefined);
  const it = later({ ...up, a: 'outdated' }, { lack });
  expect(possibleOf(it)).toEqual([]);
  const { observed, ready, isLacking } = stateOf(it);
  expect([observed.phase, ready.reason, isLacking]).toEqual(['failed', 'NameTaken', true]);
});

it('says why what was changed by hand is not changed back, although all is up', () => {
  const { observed, ready, isLacking } = stateOf(world(up), [], { reason: 'NameTaken', message: 'web is taken' });
  expect([observed.phase, ready.message, isLacking]).toEqual(['degraded', 'web is taken', true]);
});
