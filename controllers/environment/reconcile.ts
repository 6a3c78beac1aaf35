import type { Controller, Wake } from '../runtime/controller.ts';
import { isKind } from '../runtime/kind-guard.ts';

/** An environment has nothing to converge to while it lives; deleting it waits for its workloads. */
export const environmentController: Controller<'environment'> = {
  name: 'environment',
  kind: 'environment',
  reads: ['application'],
  children: ['application'],
  wakes: [wakeByApplication()],
  reconcile: () =>
    Promise.resolve({
      observed: { phase: 'active' },
      conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
      next: { settled: true },
    }),
  async finalize(it, ctx) {
    const left = ctx.view.by('application', 'environment', it.meta.id);
    for (const child of left) {
      if (child.meta.deletionRequestedAt === undefined) await ctx.retire('application', child.meta.id);
    }
    return {
      observed: { phase: 'deleting' },
      conditions: [
        {
          type: 'Ready',
          status: 'false',
          reason: 'Deleting',
          message: `Waits for ${left.length} application(s) to go`,
        },
      ],
      next:
        left.length === 0
          ? { settled: true }
          : {
              waitingFor: left.map((child) => ({ kind: 'application', id: child.meta.id })),
              because: 'its applications to be gone',
            },
      released: left.length === 0,
    };
  },
};

function wakeByApplication(): Wake<'environment'> {
  return {
    kind: 'application',
    ids: ({ before, after }) =>
      after === undefined && before !== undefined && isKind(before, 'application')
        ? [before.desired.environment_id]
        : [],
  };
}
