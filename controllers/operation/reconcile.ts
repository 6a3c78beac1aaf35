import { CallError } from '../../agent-protocol/call-error.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { OperationType } from '../../store/kinds/operation.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { provisioningOf } from '../../store/provisioning.ts';
import { JoinTokens } from '../provision/join-tokens.ts';
import { Turns } from '../provision/turns.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { causeOf } from '../runtime/failure.ts';
import { limits } from '../runtime/limits.ts';
import { onChange } from '../runtime/wakes.ts';
import { OperationFailure, Unfinished, type Operation, type Run, type RunTools } from './run.ts';
import { runs } from './runs.ts';

/** Time between two tries to reach a server that is away, and how long they go on. */
const awayPauseMs = 10_000;
const awayPatienceMs = 24 * 3_600_000;

/** How long a file that a deployment waits for is read again, and the time between two tries. */
const readPauseMs = 5_000;
const readPatienceMs = 10 * 60_000;

type Observed = ObservedOf<'operation'>;

/**
 * Carries out each operation once, by the row of its type: the deadline, the result and the failure are kept here, the
 * row does the work. One that has done a part is called again. An operation of which something else is asked than what
 * was carried out begins anew.
 */
export function operationController(
  reached: Pick<RunTools, 'agents' | 'machines' | 'installation'> &
    Partial<Pick<RunTools, 'buildDeadlineMs' | 'secrets'>>,
  table: Readonly<Record<OperationType, Run>> = runs,
): Controller<'operation'> {
  const tokens = new JoinTokens((server) => reached.installation.joinToken(server));
  const turns = new Turns(limits.operations.provisionings);

  return {
    name: 'operation',
    kind: 'operation',
    concurrency: limits.operations.atOnce,
    shareOf: ({ desired: { type, project_id } }) => project_id ?? (type === 'provision' ? 'provisionings' : 'servers'),
    reads: [
      'application',
      'deployment',
      'server',
      'settings',
      'ssh_key',
      'git_credential',
      'registry',
      'environment',
      'preview',
    ],
    // it pins the first host key of a server, deploys the head of a branch, and adds to a deployment what its file declares
    children: ['server', 'application', 'deployment'],
    notifies: { never: 'The request that began it answers with its failure, or its server shows it' },
    wakes: [
      onChange(
        'server',
        ({ desired }) => desired.agent_public_key,
        ({ meta }, view) => (view.get('operation', provisioningOf(meta.id)) ? [provisioningOf(meta.id)] : []),
      ),
    ],
    async reconcile(it, ctx) {
      const { asked } = it.desired;
      if (it.observed?.finished_at !== undefined && it.observed.asked === asked)
        return ended(plainCopy<Observed>(it.observed));
      const outcome = await carryOut(it, ctx);
      const of = asked === undefined ? {} : { asked };
      if (!(outcome instanceof Unfinished))
        return ended({ ...outcome, ...of, finished_at: ctx.clock.now().toISOString() });
      const { provisioning, againMs, because } = outcome;
      return {
        observed: { phase: 'running', ...of, ...(provisioning !== undefined && { provisioning }) },
        conditions: [{ type: 'Ready', status: 'false', reason: 'Running', message: 'It is carried out' }],
        next: { again: againMs, because },
      };
    },
  };

  async function carryOut(it: Operation, ctx: Context): Promise<Observed | Unfinished> {
    const timeoutMs = Math.min(it.desired.deadline_seconds * 1000, limits.operations.runMs);
    const { signal, cancel } = signalAfter(ctx.clock, timeoutMs, ctx.signal);
    try {
      const result = await table[it.desired.type](it, {
        buildDeadlineMs: 30 * 60_000,
        secrets: { seal: unable, unseal: unable },
        ...reached,
        tokens,
        turns,
        ctx,
        signal,
        timeoutMs,
      });
      return result instanceof Unfinished ? result : { phase: 'succeeded', result };
    } catch (error) {
      const { cause } = causeOf(error);
      if (ctx.signal.aborted || cause === 'conflict' || cause === 'unavailable') throw error;
      if (mayWait(it, error, ctx)) return new Unfinished(undefined, awayPauseMs, 'the agent of its server to connect');
      if (signal.aborted && mayRead(it, ctx))
        return new Unfinished(undefined, readPauseMs, 'its server to read the repository');
      if (signal.aborted)
        return { phase: 'expired', error: { code: 'timeout', message: lateMessage(it, timeoutMs / 1000) } };
      const provisioning = error instanceof OperationFailure ? error.provisioning : undefined;
      return { phase: 'failed', error: describe(error, ctx), ...(provisioning !== undefined && { provisioning }) };
    } finally {
      cancel();
    }
  }
}

function unable(): never {
  throw new TypeError('The controller was given no secrets');
}

/**
 * What deploys is decided later if its server is away for a while: a delivery, a deployment that waits for its file, and
 * a comparison, whose caller may have hung up long before.
 */
function mayWait({ desired }: Operation, error: unknown, { clock }: Context): boolean {
  const isPatient = desired.delivery_id !== undefined || desired.deployment_id !== undefined || desired.deploy === true;
  if (!isPatient || !(error instanceof CallError) || error.code !== 'away') return false;
  return clock.now().getTime() - Date.parse(desired.requested_at) < awayPatienceMs;
}

/** A server reads one repository of a project at a time: what waits for its turn until its time is over is read later. */
function mayRead({ desired }: Operation, ctx: Context): boolean {
  return desired.deployment_id !== undefined && ctx.since('late', true) < readPatienceMs;
}

function lateMessage({ desired }: Operation, seconds: number): string {
  if (desired.deployment_id === undefined) return `It did not end within ${seconds} s`;
  return (
    `The repository was not read within ${seconds} s, in several tries: its server has others of the project to read, or it is ` +
    'too large. Deploy again later, or put the compose file into a smaller repository'
  );
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
