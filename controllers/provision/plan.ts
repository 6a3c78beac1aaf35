import type { CheckResult } from '../../agent-protocol/diagnosis.ts';
import type { Look } from '../ssh/machines.ts';
import { requirementsOf } from '../ssh/requirements.ts';
import type { Requirement } from '../ssh/requirements.ts';
import type { Fault } from './steps.ts';

/** Requirements that provisioning meets itself where it can. */
const installed: readonly Requirement[] = ['engine', 'git'];
const failing = ({ status }: CheckResult): boolean => status === 'fail';

/** What the machine is to do next. `engine`: what is known of its engine. */
export type Plan = { job: 'packages' } | { job: 'agent'; engine: string };

/** What to do with a machine that was looked at. `fits`: what is known of one that can become a server. Pure. */
export function planOf(
  { facts, login, at }: Look,
  server: string,
): { fault: Fault; fits?: string; plan?: undefined } | { fault?: undefined; fits: string; plan: Plan } {
  const checks = requirementsOf(facts, { login, now: at });
  const unmet = checks.filter((it) => failing(it) && !installed.some((name) => name === it.name));
  if (unmet.length > 0) return { fault: unfit('MachineFits', 'MachineUnfit', unmet) };
  if (facts.agent_server !== undefined && facts.agent_server !== server)
    return { fault: otherAgent(facts.agent_server) };
  const fits = facts.os_name === undefined ? 'It has what a server needs' : `It runs ${facts.os_name}`;
  const tooOld = checks.filter((it) => it.name === 'engine' && failing(it) && facts.docker !== undefined);
  if (tooOld.length > 0) return { fault: unfit('EngineInstalled', 'EngineTooOld', tooOld), fits };
  const { docker, git, iptables, fetch } = facts;
  if (docker === undefined || git === undefined || iptables === undefined || fetch === undefined)
    return { fits, plan: { job: 'packages' } };
  return { fits, plan: { job: 'agent', engine: `Docker ${docker} answers` } };
}

function otherAgent(server: string): Fault {
  return {
    step: 'MachineFits',
    reason: 'OtherAgent',
    message: `The machine has the agent of another server: ${server}`,
    remedy:
      'Use another machine; or end that agent, remove its data (/var/lib/setpoint/agent), and provision the server again',
    isFinal: true,
  };
}

function unfit(step: Fault['step'], reason: string, checks: readonly CheckResult[]): Fault {
  return {
    step,
    reason,
    message: checks.map(({ message }) => message).join('; '),
    remedy: checks.map(({ remediation }) => remediation ?? '').join('; '),
    isFinal: true,
  };
}
