import { CallError } from '../../agent-protocol/call-error.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { OperationType } from '../../store/kinds/operation.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { limits } from '../runtime/limits.ts';
import { OperationFailure, type Operation, type Run, type RunTools } from './run.ts';
import { runs } from './runs.ts';

type Observed = ObservedOf<'operation'>;

/**
 * Carries out each operation once, by the row of its type: the deadline, the result and the failure are kept here, the
 * row does the work.
 */
export function operationController(
  reached: Pick<RunTools, 'agents' | 'machines'>,
  table: Readonly<Record<OperationType, Run>> = runs,
): Controller<'operation'> {
  return {
    name: 'operation',
    kind: 'operation',
    reads: ['application', 'deployment', 'server', 'ssh_key'],
    children: [],
    notifies: { never: 'The request that began it answers with its failure' },
    wakes: [],
    async reconcile(it, ctx) {
      if (it.observed?.finished_at !== undefined) return ended(it.observed);
      const outcome = await carryOut(it, ctx);
      return ended({ ...outcome, finished_at: ctx.clock.now().toISOString() });
    },
  };

  async function carryOut(it: Operation, ctx: Context): Promise<Observed> {
    const timeoutMs = Math.min(it.desired.deadline_seconds * 1000, limits.operations.runMs);
    const { signal, cancel } = signalAfter(ctx.clock, timeoutMs, ctx.signal);
    try {
      const result = await table[it.desired.type](it, { ...reached, ctx, signal, timeoutMs });
      return { phase: 'succeeded', result };
    } catch (error) {
      if (ctx.signal.aborted) throw error;
      if (signal.aborted)
        return { phase: 'expired', error: { code: 'timeout', message: `It did not end within ${timeoutMs / 1000} s` } };
      return { phase: 'failed', error: describe(error, ctx) };
    } finally {
      cancel();
    }
  }
}

function describe(error: unknown, { log }: Context): { code: string; message: string } {
  if (error instanceof OperationFailure || error instanceof CallError)
    return { code: error.code, message: error.message };
  log.error(
    { err: error },
    'An operation failed by an unexpected error, which is a bug: its request is answered with the code failed',
  );
  return { code: 'failed', message: 'Internal error: the log of the control plane has the cause' };
}

const outcomes = {
  succeeded: { status: 'true', reason: 'Succeeded', message: 'It was carried out' },
  failed: { status: 'false', reason: 'Failed', message: 'It failed' },
  expired: { status: 'false', reason: 'Expired', message: 'It did not end in time' },
} as const;

function ended(observed: Observed): Verdict<'operation'> {
  const outcome = observed.phase === 'succeeded' || observed.phase === 'expired' ? observed.phase : 'failed';
  const { status, reason, message } = outcomes[outcome];
  return {
    observed,
    conditions: [{ type: 'Ready', status, reason, message: observed.error?.message ?? message }],
    next: { settled: true },
  };
}
