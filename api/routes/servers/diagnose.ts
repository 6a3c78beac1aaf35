import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { CheckResult, CheckStatus, HealableCheck, HealAction, Healing } from '../../../agent-protocol/diagnosis.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { agentAway, conflicting, serviceUnavailable } from '../../ground/api-error.ts';
import { untilSettled } from '../../ground/settle.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { examine, requireExaminable, worstOf } from '../../workloads/diagnosis.ts';
import { beginOperation } from '../../workloads/operations.ts';

/** How long a request waits for the end of a healing, and how long a healing may take. */
const patienceMs = 15_000;
const deadlineSeconds = 45;

export const diagnoseServer = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/diagnose',
  summary: 'Examine a server: its agent and its machine, with what to do about each finding',
  on: ['server', 'id'],
  heavy: true,
  waitsForAgent: true,
  response: z.object({
    status: CheckStatus.meta({ description: 'The worst of the checks' }),
    checks: z.array(CheckResult),
  }),
  handle: async (ctx, { it }) => {
    const checks = await examine(ctx, it);
    return { status: worstOf(checks), checks };
  },
});

export const healServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/heal',
  summary:
    'Heal what the checks of a server found and the agent may: nothing that runs and nothing with data is removed',
  on: ['server', 'id'],
  heavy: true,
  actsOnce: true,
  waitsForAgent: true,
  body: z
    .strictObject({
      checks: z
        .array(HealableCheck)
        .min(1)
        .max(HealableCheck.options.length)
        .optional()
        .meta({ description: 'Only what these checks found; by default all' }),
    })
    .default({}),
  response: z.object({
    status: z.enum(['done', 'running']).meta({
      description:
        'running: it goes on for longer than the request waits. The same request again waits for it while it does',
    }),
    actions: z.array(HealAction),
  }),
  handle: async (ctx, { it, body }) => {
    const { view, tenant } = ctx;
    requireExaminable(ctx, it);
    const kept = view.by('operation', 'server', it.meta.id).filter(({ desired }) => desired.type === 'heal');
    let id = kept.find(({ observed }) => observed?.finished_at === undefined)?.meta.id;
    if (id === undefined) {
      requireRoom(kept.length, countLimits.healingsPerServer, {
        where: 'The server',
        what: 'healings within an hour',
        remedy: 'see what GET /servers/:id/diagnose shows that only a person can heal',
      });
      id = await beginOperation(ctx, it, kept, {
        type: 'heal',
        server_id: it.meta.id,
        ...(body.checks !== undefined && { checks: body.checks }),
        deadline_seconds: deadlineSeconds,
      });
    }
    // Another request began it, at the same time or before.
    const begun = view.get('operation', id);
    if (begun !== undefined && !isDeepStrictEqual(begun.desired.checks, body.checks))
      throw conflicting('The server is being healed of other findings: wait until that has ended, a minute at most');
    const observed = () => view.get('operation', id)?.observed;
    await untilSettled(ctx, tenant, () => observed()?.finished_at !== undefined, patienceMs, ctx.signal());
    const { phase, result, error, finished_at } = observed() ?? {};
    if (finished_at === undefined) return { status: 'running' as const, actions: [] };
    if (phase === 'succeeded') return { status: 'done' as const, ...Healing.parse(result) };
    if (error?.code === 'away') throw agentAway();
    if (error === undefined || error.code === 'timeout')
      throw serviceUnavailable('The agent of the server did not answer in time');
    throw conflicting(error.message, [{ field: '', reason: error.code, message: error.message }]);
  },
});
