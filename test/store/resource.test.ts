import { expect, test } from 'vitest';
import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import { isDeleting, isKind, isStaying } from '../../store/resource.ts';
import { anApplication, aServer } from '../harness/objects.ts';

test('an object is deleting from the request of its deletion on', () => {
  const [staying, deleting] = [anApplication(), anApplication({}, { deleting: true })];
  expect([staying, deleting].map(isDeleting)).toEqual([false, true]);
  expect([staying, deleting, undefined].map((it) => isStaying(it))).toEqual([true, false, false]);
});

test('an object is of one kind', () => {
  const it = [anApplication(), aServer()][0];
  expect([isKind(it, 'application'), isKind(it, 'server'), isKind(undefined, 'server')]).toEqual([true, false, false]);
});

test('a deployment that was not observed yet has not ended', () => {
  const phases = [
    undefined,
    'queued',
    'building',
    'deploying',
    'succeeded',
    'failed',
    'cancelled',
    'superseded',
  ] as const;
  expect(phases.filter(hasDeploymentEnded)).toEqual(['succeeded', 'failed', 'cancelled', 'superseded']);
});
