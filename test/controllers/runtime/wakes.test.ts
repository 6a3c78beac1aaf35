import { expect, test } from 'vitest';
import type { Wake } from '../../../controllers/runtime/controller.ts';
import { onChange, onChild, onGone } from '../../../controllers/runtime/wakes.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { aDeployment, anApplication, aServer } from '../../harness/objects.ts';

const view = { tenant: 'acme' } as TenantView; // no wake of these tests reads it

const before: ReadonlyResource<'deployment'> = aDeployment(anApplication());
const same = { ...before, meta: { ...before.meta, labels: { team: 'a' } } };
const cancelled = { ...before, desired: { ...before.desired, cancel_requested: true } };
const { application_id: app } = before.desired;

const named = ({ desired }: ReadonlyResource<'deployment'>): string[] => [
  desired.application_id,
  desired.cancel_requested ? 'cancelled' : 'as asked',
];

/** What the creation, a change of a label, its cancellation and the removal wake. */
function woken(wake: Wake): (readonly string[])[] {
  const changes: { before?: ReadonlyResource<'deployment'>; after?: ReadonlyResource<'deployment'> }[] = [
    { after: before },
    { before, after: same },
    { before, after: cancelled },
    { before: cancelled },
  ];
  return changes.map((change) => wake.ids(change as Parameters<Wake['ids']>[0], view));
}

test('every change of a child wakes what it names, as it is or was', () => {
  const wake = onChild('deployment', named);
  expect(woken(wake)).toEqual([
    [app, 'as asked'],
    [app, 'as asked'],
    [app, 'cancelled'],
    [app, 'cancelled'],
  ]);
});

test('an object that goes wakes what it named last', () => {
  const wake = onGone('deployment', named);
  expect(woken(wake)).toEqual([[], [], [], [app, 'cancelled']]);
});

test('a change of what is picked wakes, as do the creation and the removal', () => {
  const wake = onChange(
    'deployment',
    ({ desired }) => ({ is: desired.cancel_requested }),
    ({ desired }) => [desired.application_id],
  );
  expect(woken(wake)).toEqual([[app], [], [app], [app]]);
});

test('an object of another kind wakes nothing', () => {
  const wake = onChild('deployment', () => ['something']);
  expect(wake.ids({ after: aServer() as ReadonlyResource }, view)).toEqual([]);
});
