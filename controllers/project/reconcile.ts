import { kindsIn } from '../../store/objects-in.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Controller } from '../runtime/controller.ts';
import { onChange, onGone } from '../runtime/wakes.ts';
import { remainderOf } from './states.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';

const parts = kindsIn('environment');

/** A project has nothing to converge to until its deletion, which waits for its environments and shows what is left. */
export const projectController: Controller<'project'> = {
  name: 'project',
  kind: 'project',
  reads: ['environment', ...parts, 'assignment', 'server'],
  children: ['environment'],
  wakes: [
    // A part that is gone brings the end of a project nearer.
    ...(['environment', ...parts, 'assignment'] as const).map((kind) =>
      onGone(kind, ({ desired }, view) => ('project_id' in desired ? going([desired.project_id], view) : [])),
    ),
    // A server that goes away or comes back changes what the end of a project waits for.
    onChange(
      'server',
      ({ observed }) => observed?.phase,
      ({ meta }, view) =>
        going(
          view.by('assignment', 'server', meta.id).map(({ desired }) => desired.project_id),
          view,
        ),
    ),
  ],
  reconcile: () =>
    Promise.resolve({
      observed: { phase: 'active' },
      conditions: [{ type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' }],
      next: { settled: true },
    }),
  async finalize(it, ctx) {
    const { environments, message } = remainderOf(it.meta.id, ctx.view);
    for (const { meta } of environments.filter(isStaying)) await ctx.retire('environment', meta.id);
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

/** Those of the projects that are being deleted, each once. */
function going(projects: readonly (string | undefined)[], view: TenantView): string[] {
  return [...new Set(projects)].flatMap((id) => {
    const it = id === undefined ? undefined : view.get('project', id);
    return it !== undefined && isDeleting(it) ? [it.meta.id] : [];
  });
}
