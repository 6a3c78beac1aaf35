import type { Context, Controller, Verdict, Wake } from '../runtime/controller.ts';
import { isKind } from '../runtime/kind-guard.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** A project has nothing to converge to while it lives; deleting it waits for its environments. */
export const projectController: Controller<'project'> = {
  name: 'project',
  kind: 'project',
  reads: ['environment'],
  children: ['environment'],
  wakes: [wakeByEnvironment()],
  reconcile: () => Promise.resolve(active()),
  async finalize(it, ctx) {
    const left = ctx.view.by('environment', 'project', it.meta.id);
    await retireAll(ctx, left);
    return {
      ...deleting(left.length, 'environment'),
      next:
        left.length === 0
          ? { settled: true }
          : {
              waitingFor: left.map((child) => ({ kind: 'environment', id: child.meta.id })),
              because: 'its environments to be gone',
            },
      released: left.length === 0,
    };
  },
};

async function retireAll(ctx: Context, left: readonly ReadonlyResource<'environment'>[]): Promise<void> {
  for (const child of left) {
    if (child.meta.deletionRequestedAt === undefined) await ctx.retire('environment', child.meta.id);
  }
}

function active(): Verdict<'project'> {
  return {
    observed: { phase: 'active' },
    conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
    next: { settled: true },
  };
}

function deleting(left: number, what: string): Pick<Verdict<'project'>, 'observed' | 'conditions'> {
  return {
    observed: { phase: 'deleting' },
    conditions: [{ type: 'Ready', status: 'false', reason: 'Deleting', message: `Waits for ${left} ${what}(s) to go` }],
  };
}

function wakeByEnvironment(): Wake<'project'> {
  return {
    kind: 'environment',
    ids: ({ before, after }) =>
      after === undefined && before !== undefined && isKind(before, 'environment') ? [before.desired.project_id] : [],
  };
}
