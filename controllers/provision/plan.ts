import type { CheckResult } from '../../agent-protocol/diagnosis.ts';
import type { Look } from '../ssh/machines.ts';
import { requirementsOf } from '../ssh/requirements.ts';
import type { Requirement } from '../ssh/requirements.ts';
import { triesAgain } from './steps.ts';
import type { Fault } from './steps.ts';

/** Requirements that provisioning meets itself where it can. */
const installed: readonly Requirement[] = ['engine', 'git'];
/** These, and one that has a reason of its own. */
const apart: readonly Requirement[] = [...installed, 'agent'];
const failing = ({ status }: CheckResult): boolean => status === 'fail';

/** What the machine is to do next. `engine`: what is known of its engine. */
export type Plan = { job: 'packages' } | { job: 'agent'; engine: string };

/**
 * What to do with a machine that was looked at. `fits`: what is known of one that can become a server. `otherServer`: the
 * server whose agent is there, if it is another one. Pure.
 */
export function planOf(
  { facts, login, at }: Look,
  otherServer: string | undefined,
): { fault: Fault; fits?: string; plan?: undefined } | { fault?: undefined; fits: string; plan: Plan } {
  const checks = requirementsOf(facts, { login, now: at, otherServer });
  const unmet = checks.filter((it) => failing(it) && !apart.some((name) => name === it.name));
  if (unmet.length > 0) return { fault: unfit('MachineFits', 'MachineUnfit', unmet) };
  const other = checks.filter((it) => it.name === 'agent' && failing(it));
  if (other.length > 0) {
    const isLeaving = facts.agent_leaves === 'yes';
    return { fault: { ...unfit('MachineFits', isLeaving ? 'AgentLeaves' : 'OtherAgent', other), isFinal: !isLeaving } };
  }
  const fits = facts.os_name === undefined ? 'It has what a server needs' : `It runs ${facts.os_name}`;
  const tooOld = checks.filter((it) => it.name === 'engine' && failing(it) && facts.docker !== undefined);
  if (tooOld.length > 0) return { fault: unfit('EngineInstalled', 'EngineTooOld', tooOld), fits };
  const { docker, git, iptables, fetch } = facts;
  if (docker === undefined || git === undefined || iptables === undefined || fetch === undefined)
    return { fits, plan: { job: 'packages' } };
  return { fits, plan: { job: 'agent', engine: `Docker ${docker} answers` } };
}

function unfit(step: Fault['step'], reason: string, checks: readonly CheckResult[]): Fault {
  return {
    step,
    reason,
    message: checks.map(({ message }) => message).join('; '),
    remedy: `${checks.map(({ remediation }) => remediation ?? '').join('; ')}; then ${triesAgain}`,
    isFinal: true,
  };
}
