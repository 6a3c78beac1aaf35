import { GitHead } from '../../agent-protocol/messages.ts';
import type { CallParams } from '../../agent-protocol/messages.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { isWatched } from './watch-paths.ts';

/** The calls of agents that an operation needs. */
export interface AgentCalls {
  call(
    tenant: string,
    server: string,
    params: CallParams,
    options: { timeoutMs: number; signal: AbortSignal },
  ): Promise<unknown>;
}

type Operation = ReadonlyResource<'operation'>;
type Observed = ObservedOf<'operation'>;

/** Carries out operations. They only observe, so that repeating one after a crash is harmless. */
export function operationController(agents: AgentCalls): Controller<'operation'> {
  return {
    name: 'operation',
    kind: 'operation',
    reads: ['application', 'deployment'],
    children: [],
    wakes: [],
    async reconcile(it, ctx) {
      if (it.observed?.finished_at !== undefined) return ended(it.observed);
      const finished_at = ctx.clock.now().toISOString();
      try {
        const result = await sync(it, agents, ctx);
        return ended({ phase: 'succeeded', result, finished_at });
      } catch (error) {
        if (ctx.signal.aborted) throw error;
        return ended({ phase: 'failed', error: describe(error), finished_at });
      }
    },
  };
}

/**
 * Compares the head of the branch with the commit that serves: whether it differs, in which files, and whether one of
 * them is watched. If the files are not all known, they count as watched.
 */
async function sync(it: Operation, agents: AgentCalls, ctx: Context): Promise<Record<string, unknown>> {
  const app =
    it.desired.application_id === undefined ? undefined : ctx.view.get('application', it.desired.application_id);
  if (app === undefined) throw new OperationFailure('not_found', 'Its application was deleted');
  const { source } = app.desired;
  if (source.type !== 'git')
    throw new OperationFailure('invalid_source', `Only a git source can be compared: this one is ${source.type}`);
  const current = app.observed?.current_commit ?? null;
  const answer = await agents.call(
    ctx.tenant,
    app.desired.server_id,
    {
      method: 'git.head',
      repository_url: source.repository_url,
      branch: source.branch,
      ...(current !== null && { since: current }),
    },
    { timeoutMs: Math.min(it.desired.deadline_seconds, 45) * 1000, signal: ctx.signal },
  );
  const { commit: latest, changed_files, truncated = false } = GitHead.parse(answer);
  const up_to_date = current === latest;
  const files = up_to_date ? [] : (changed_files ?? []);
  const known = up_to_date || (changed_files !== undefined && !truncated);
  return {
    up_to_date,
    current_commit: current,
    latest_commit: latest,
    branch: source.branch,
    changed_files: files,
    changed_files_known: known,
    matched: !up_to_date && (!known || isWatched(app.desired.watch_paths ?? '', files).watched),
  };
}

class OperationFailure extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'OperationFailure';
    this.code = code;
  }
}

function describe(error: unknown): { code: string; message: string } {
  if (error instanceof Error) {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : 'failed';
    return { code, message: error.message };
  }
  return { code: 'failed', message: 'It failed without a reason' };
}

function ended(observed: Observed): Verdict<'operation'> {
  const ok = observed.phase === 'succeeded';
  return {
    observed,
    conditions: [
      {
        type: 'Ready',
        status: ok ? 'true' : 'false',
        reason: ok ? 'Succeeded' : 'Failed',
        message: ok ? 'It was carried out' : (observed.error?.message ?? 'It failed'),
      },
    ],
    next: { settled: true },
  };
}
