import { repositoryOf } from '../../../store/kinds/application.ts';
import { z } from 'zod';
import { conflicting, serviceUnavailable } from '../../ground/api-error.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { SyncDecision } from '../../../store/kinds/operation.ts';
import { beginOperation } from '../../workloads/operations.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { untilSettled } from '../../ground/settle.ts';

/** How long the request waits; a comparison that deploys goes on after it. */
const syncPatienceMs = 20_000;
const deployDeadlineSeconds = 45;

const compared = {
  up_to_date: z.boolean(),
  current_commit: z.string().nullable(),
  latest_commit: z.string(),
  branch: z.string(),
};

/** The result of an operation; one that a leader of an earlier release wrote has no files and no decision. */
const SyncResult = z.object({
  ...compared,
  changed_files: z.array(z.string()).default([]),
  changed_files_known: z.boolean().default(false),
  matched: z.boolean().optional(),
  decision: SyncDecision.default('would_deploy'),
  reason: z.string().default('The leader is of an earlier release, which does not decide'),
  deployment_id: z.string().nullable().default(null),
});

export const syncDeployments = defineEndpoint({
  method: 'POST',
  path: '/applications/:appId/deployments/sync',
  summary: 'Compare the branch with what serves; deploys a newer commit that matches where autodeploy is on',
  on: ['application', 'appId'],
  heavy: true,
  actsOnce: true,
  waitsForAgent: true,
  body: z.strictObject({
    dry_run: z.boolean().default(false).meta({ description: 'Only say what would be done: nothing is deployed' }),
  }),
  response: z.object({
    ...compared,
    changed_files: z.array(z.string()).meta({ description: 'Files that differ between both commits, at most 1000' }),
    changed_files_known: z
      .boolean()
      .meta({ description: 'Whether changed_files is complete; what is not counts as matched' }),
    matched: z.boolean().meta({ description: 'There is another commit, and a changed file is one of watch_paths' }),
    decision: SyncDecision.meta({ description: 'What was done, or why nothing was' }),
    reason: z.string().meta({ description: 'The decision in words' }),
    deployment_id: z.string().nullable().meta({ description: 'The deployment that this request made' }),
  }),
  handle: async (ctx, { it, body: { dry_run } }) => {
    if (repositoryOf(it.desired.source) === undefined)
      throw conflicting('Only an application whose source is in a git repository can be compared');
    const { view, tenant } = ctx;
    const kept = view.by('operation', 'application', it.meta.id).filter(({ desired }) => desired.type === 'sync');
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
      deadline_seconds: dry_run ? syncPatienceMs / 1000 : deployDeadlineSeconds,
      ...(!dry_run && { deploy: true }),
    });
    const isOver = (): boolean => view.get('operation', id)?.observed?.finished_at !== undefined;
    await untilSettled(ctx, tenant, isOver, syncPatienceMs, ctx.signal());
    const { observed } = view.get('operation', id) ?? {};
    if (observed?.phase === 'failed' && observed.error !== undefined && observed.error.code !== 'away')
      throw conflicting(observed.error.message, [
        { field: '', reason: observed.error.code, message: observed.error.message },
      ]);
    if (observed?.phase !== 'succeeded')
      throw serviceUnavailable(
        dry_run
          ? 'The agent of the server did not answer in time'
          : 'The agent of the server did not answer in time: the comparison goes on, and what it deploys is among the deployments',
      );
    const result = SyncResult.parse(observed.result);
    return { ...result, matched: result.matched ?? !result.up_to_date };
  },
});
