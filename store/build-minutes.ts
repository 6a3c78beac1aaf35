import { hasDeploymentEnded, isBuilt } from './kinds/application.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';
import { settingsOf } from './settings.ts';

const dayMs = 24 * 3_600_000;

/**
 * Whether the builds of the last 24 hours that are still known, and those under way, each as `deadlineMs`, use up what
 * the project or the tenant may take. It counts less than the API does, which also remembers deleted deployments.
 */
export function areBuildsUsedUp(view: TenantView, projectId: string, nowMs: number, deadlineMs: number): boolean {
  const { project, tenant } = settingsOf(view).budgets;
  const isOver = (minutes: number, all: readonly ReadonlyResource<'deployment'>[]): boolean =>
    minutes > 0 && all.reduce((sum, it) => sum + buildMs(it, nowMs, deadlineMs), 0) >= minutes * 60_000;
  return (
    isOver(project.build_minutes_per_day, view.by('deployment', 'project', projectId)) ||
    isOver(tenant.build_minutes_per_day, [...view.list('deployment')])
  );
}

function buildMs({ desired, observed }: ReadonlyResource<'deployment'>, nowMs: number, deadlineMs: number): number {
  if (!isBuilt(desired)) return 0;
  const end = observed?.built_at ?? observed?.finished_at;
  if (end === undefined) return hasDeploymentEnded(observed?.phase) ? 0 : deadlineMs;
  if (observed?.started_at === undefined || Date.parse(end) <= nowMs - dayMs) return 0;
  return Math.max(0, Date.parse(end) - Date.parse(observed.started_at));
}
