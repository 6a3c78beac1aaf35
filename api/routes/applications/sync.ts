import { z } from 'zod';
import { conflicting, serviceUnavailable } from '../../ground/api-error.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { activeOf, addDeployment } from '../../workloads/deploying.ts';
import { beginOperation } from '../../workloads/operations.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { untilSettled } from '../../ground/settle.ts';

const syncPatienceMs = 20_000;

/** The result of an operation; one that a leader of an earlier release wrote has no files. */
const SyncResult = z.object({
  up_to_date: z.boolean(),
  current_commit: z.string().nullable(),
  latest_commit: z.string(),
  branch: z.string(),
  changed_files: z.array(z.string()).default([]),
  changed_files_known: z.boolean().default(false),
  matched: z.boolean().optional(),
});

export const syncDeployments = defineEndpoint({
  method: 'POST',
  path: '/applications/:appId/deployments/sync',
  summary: 'Compare the branch with what serves; deploys a newer commit that matches where autodeploy is on',
  on: ['application', 'appId'],
  heavy: true,
  waitsForAgent: true,
  response: z.object({
    up_to_date: z.boolean(),
    current_commit: z.string().nullable(),
    latest_commit: z.string(),
    branch: z.string(),
    changed_files: z.array(z.string()).meta({ description: 'Files that differ between both commits, at most 1000' }),
    changed_files_known: z
      .boolean()
      .meta({ description: 'Whether changed_files is complete; what is not counts as matched' }),
    matched: z.boolean().meta({ description: 'There is another commit, and a changed file is one of watch_paths' }),
    deployment_id: z.string().nullable(),
  }),
  handle: async (ctx, { it }) => {
    const { source } = it.desired;
    if (source.type !== 'git') throw conflicting('Only an application with a git source can be compared');
    const { view, tenant } = ctx;
    const kept = view.by('operation', 'application', it.meta.id);
    const underWay = kept.filter(({ observed }) => observed?.finished_at === undefined);
    requireRoom(underWay.length, countLimits.comparisonsPerApplication, {
      where: 'The application',
      what: 'comparisons under way',
      remedy: 'wait for one of them to end',
    });
    // It shares no comparison that began before this request: the push that it announces may have come since.
    const id = await beginOperation(ctx, it, kept, {
      type: 'sync',
      project_id: it.desired.project_id,
      application_id: it.meta.id,
      server_id: it.desired.server_id,
      deadline_seconds: syncPatienceMs / 1000,
    });
    const isOver = (): boolean => view.get('operation', id)?.observed?.finished_at !== undefined;
    await untilSettled(ctx, tenant, isOver, syncPatienceMs, ctx.signal());
    const { observed } = view.get('operation', id) ?? {};
    if (observed?.phase === 'failed' && observed.error !== undefined && observed.error.code !== 'away')
      throw conflicting(observed.error.message, [
        { field: '', reason: observed.error.code, message: observed.error.message },
      ]);
    if (observed?.phase !== 'succeeded') throw serviceUnavailable('The agent of the server did not answer in time');
    const result = SyncResult.parse(observed.result);
    const answer = { ...result, matched: result.matched ?? !result.up_to_date };
    const now = view.get('application', it.meta.id);
    if (!answer.matched || now === undefined || !now.desired.autodeploy || activeOf(now, view) !== undefined)
      return { ...answer, deployment_id: null };
    const unit = ctx.repo.begin();
    const deployment = addDeployment(ctx, unit, now, { trigger: 'webhook' });
    return ctx.commit(unit, () => ({ ...answer, deployment_id: deployment.meta.id }));
  },
});
