import { copiedKinds } from '../../store/copying.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Controller, Wake } from '../runtime/controller.ts';
import { isKind } from '../runtime/kind-guard.ts';
import { remainderOf } from './states.ts';

/** A project has nothing to converge to until its deletion, which waits for its environments and shows what is left. */
export const projectController: Controller<'project'> = {
  name: 'project',
  kind: 'project',
  reads: ['environment', ...copiedKinds, 'assignment', 'server'],
  children: ['environment'],
  wakes: [wakeByPart('environment'), ...copiedKinds.map(wakeByPart), wakeByPart('assignment'), wakeByServer()],
  reconcile: () =>
    Promise.resolve({
      observed: { phase: 'active' },
      conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
      next: { settled: true },
    }),
  async finalize(it, ctx) {
    const { environments, message } = remainderOf(it.meta.id, ctx.view);
    for (const { meta } of environments)
      if (meta.deletionRequestedAt === undefined) await ctx.retire('environment', meta.id);
    return {
      observed: { phase: 'deleting' },
      conditions: [{ type: 'Ready', status: 'false', reason: 'Deleting', message }],
      next:
        environments.length === 0
          ? { settled: true }
          : {
              waitingFor: environments.map(({ meta }) => ({ kind: 'environment', id: meta.id })),
              because: 'its environments to be gone',
            },
      released: environments.length === 0,
    };
  },
};

/** A part that is gone brings the end of a project nearer. */
function wakeByPart(kind: KindName): Wake<'project'> {
  return {
    kind,
    ids: ({ before, after }, view) => {
      if (after !== undefined || before === undefined || !('project_id' in before.desired)) return [];
      const { project_id } = before.desired;
      return project_id !== undefined && isGoing(project_id, view) ? [project_id] : [];
    },
  };
}

/** A server that goes away or comes back changes what the end of a project waits for. */
function wakeByServer(): Wake<'project'> {
  return {
    kind: 'server',
    ids: ({ before, after }, view) => {
      if (phaseOf(before) === phaseOf(after)) return [];
      const id = (after ?? before)?.meta.id ?? '';
      const projects = view.by('assignment', 'server', id).map(({ desired }) => desired.project_id);
      return [...new Set(projects)].filter((project) => isGoing(project, view));
    },
  };
}

function phaseOf(it: ReadonlyResource | undefined): string | undefined {
  return it !== undefined && isKind(it, 'server') ? it.observed?.phase : undefined;
}

function isGoing(id: string, view: TenantView): boolean {
  return view.get('project', id)?.meta.deletionRequestedAt !== undefined;
}
