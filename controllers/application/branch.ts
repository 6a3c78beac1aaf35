import type { ConditionInput } from '../../store/resource.ts';
import { branchCondition, branchGone, codesOfAgents, intervalOf, polledOf } from '../polling/look.ts';
import type { Context } from '../runtime/controller.ts';
import type { App } from './world.ts';

const type = branchCondition;

/**
 * Whether the branch that the application follows could be read when it was last compared because of a look. Absent: it
 * was not compared yet, or the branch is not looked at. Records an event when it cannot be read any more.
 */
export function branchConditions(app: App, ctx: Pick<Context, 'view' | 'event'>): ConditionInput[] {
  if (intervalOf(app) === undefined) return [];
  const before = app.observed?.conditions.find((it) => it.type === type);
  const last = polledOf(ctx.view, app.meta.id).find(
    ({ observed }) => observed?.finished_at !== undefined && !codesOfAgents.has(observed.error?.code ?? ''),
  );
  // comparisons are forgotten after a day, and what they showed is not
  if (last === undefined)
    return before === undefined
      ? []
      : [{ type, status: before.status, reason: before.reason, message: before.message }];
  const { phase, error } = last.observed ?? {};
  if (phase === 'succeeded')
    return [{ type, status: 'true', reason: 'Read', message: 'The branch that it follows can be read' }];
  const why = error?.message ?? 'The comparison did not end in time';
  const message = `The branch that it follows cannot be read, and is looked at again: ${why}`;
  if (before?.status !== 'false') ctx.event(app, { type: 'warning', reason: 'BranchUnreadable', message });
  return [{ type, status: 'false', reason: error?.code === 'branch_not_found' ? branchGone : 'Unreadable', message }];
}
