import type { TenantView } from '../../store/mirror.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';

/** Requires that one more template instance may be made in a project. @throws ApiError CONFLICT */
export function requireInstanceRoom(view: TenantView, projectId: string): void {
  requireRoom(view.by('template_instance', 'project', projectId).length, countLimits.templateInstancesPerProject, {
    where: 'The project',
    what: 'template instances',
    remedy: 'delete one that is not needed',
  });
}
