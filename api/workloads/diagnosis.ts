import { Diagnosis, machineChecks } from '../../agent-protocol/diagnosis.ts';
import type { CheckResult, CheckStatus } from '../../agent-protocol/diagnosis.ts';
import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { reconnectsOf } from '../../store/connections.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { isCapable, requireAgent } from './agent-capability.ts';

type Server = ReadonlyResource<'server'>;
type Context = Pick<RequestContext, 'view' | 'tenant' | 'clock' | 'agents' | 'config' | 'signal'>;

const capability = 'diagnose';
/** Longer than the agent takes at most. */
const askMs = 12_000;
/** Connections within 24 h from which the connection counts as bad. */
const manyReconnects = 20;
/** Differences of the clocks in milliseconds: the answer of an agent may be a while on its way. */
const skew = { warn: 5_000, fail: 30_000 } as const;

/**
 * Examines a server: what the control plane knows of it, then what its agent finds on the machine. What is not known as
 * the agent does not answer is a warning in its place.
 */
export async function examine(ctx: Context, it: Server): Promise<CheckResult[]> {
  const live = ctx.view.agent(it.meta.id);
  const own = [agentCheck(ctx, it), versionCheck(ctx, it)];
  if (live === undefined) return [...own, ...unknown('the agent is away')];
  if (!isCapable(live, capability)) return [...own, ...unknown('the agent is of an earlier release')];
  try {
    const options = { timeoutMs: askMs, signal: ctx.signal() };
    const answer = await ctx.agents.call(ctx.tenant, it.meta.id, { method: 'diagnose' }, options);
    const { at, checks } = answerOf(Diagnosis, answer);
    return [...own, clockCheck(Date.parse(at) - ctx.clock.now().getTime()), ...checks];
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    return [...own, ...unknown(`the agent did not answer (${error.message})`)];
  }
}

/** The worst of the results. */
export function worstOf(checks: readonly Pick<CheckResult, 'status'>[]): CheckStatus {
  const order = ['fail', 'warn'] as const;
  return order.find((status) => checks.some((one) => one.status === status)) ?? 'pass';
}

/** @throws ApiError UNAVAILABLE if the agent is away, CONFLICT if it is of an earlier release */
export function requireExaminable(ctx: Pick<Context, 'view'>, it: Server): void {
  requireAgent(ctx.view.agent(it.meta.id), capability, { lack: 'cannot examine its machine' });
}

function agentCheck({ view, clock }: Pick<Context, 'view' | 'clock'>, it: Server): CheckResult {
  const live = view.agent(it.meta.id);
  if (live === undefined) {
    const hasJoined = it.desired.agent_public_key !== undefined;
    return result(
      'agent',
      'fail',
      hasJoined ? 'The agent is not connected' : 'No agent has joined as this server yet',
      {
        remedy: hasJoined
          ? 'Check that the machine is up and runs its agent: systemctl status setpoint-agent. Its log has the cause'
          : `Run on the machine what \`setpoint join ${shellWord(it.desired.name)}\` prints`,
      },
    );
  }
  if (live.conflict === true)
    return result('agent', 'fail', 'Agents of several machines keep replacing each other as this server', {
      remedy: 'Stop the agent of the copy, and let it join as a server of its own with an empty data directory',
    });
  const reconnects = reconnectsOf(view.connections(it.meta.id), clock.now());
  if (reconnects >= manyReconnects)
    return result('agent', 'warn', `The agent is connected, and connected again ${reconnects} times in 24 hours`, {
      remedy: 'Look at GET /servers/:id/tunnel-status for the last cause, and at the log of the agent',
    });
  return result('agent', 'pass', 'The agent is connected');
}

function versionCheck({ view, config }: Pick<Context, 'view' | 'config'>, it: Server): CheckResult {
  const live = view.agent(it.meta.id);
  const version = live?.agentVersion ?? it.observed?.agent_version;
  if (version === undefined)
    return result('agent_version', 'warn', 'The version of the agent is not known', {
      remedy: 'It is known once the agent has connected',
    });
  if (live !== undefined && !isCapable(live, capability))
    return result('agent_version', 'fail', `The agent, version ${version}, is too old to examine its machine`, {
      remedy: `Upgrade the agent to ${config.version}: workloads go on meanwhile`,
    });
  if (version !== config.version)
    return result('agent_version', 'warn', `The agent has version ${version}, the control plane ${config.version}`, {
      remedy: `Upgrade the older one: setpoint update-agent ${shellWord(it.desired.name)} is for the agent`,
    });
  return result('agent_version', 'pass', `The agent has version ${version}, as the control plane`);
}

/** `ahead`: how far the clock of the machine is ahead of that of this replica, in milliseconds. */
function clockCheck(ahead: number): CheckResult {
  const off = Math.abs(ahead);
  if (!(off >= skew.warn))
    return result('clock_skew', 'pass', 'The clock of the machine agrees with the control plane');
  const message = `The clock of the machine is ${Math.round(off / 1000)} s ${ahead > 0 ? 'ahead of' : 'behind'} that of the control plane`;
  return result('clock_skew', off < skew.fail ? 'warn' : 'fail', message, {
    remedy: 'Let both follow a time server: timedatectl set-ntp true, then timedatectl timesync-status',
  });
}

function unknown(why: string): CheckResult[] {
  return ['clock_skew', ...machineChecks].map((name) =>
    result(name, 'warn', `Not known as ${why}`, { remedy: 'See the checks agent and agent_version' }),
  );
}

function result(name: string, status: CheckStatus, message: string, { remedy }: { remedy?: string } = {}): CheckResult {
  return { name, status, message: message.slice(0, 1000), remediation: remedy ?? null, auto_fixable: false };
}
