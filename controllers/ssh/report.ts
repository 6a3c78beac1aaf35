import type { CheckResult } from '../../agent-protocol/diagnosis.ts';
import { requirements, requirementsOf } from './requirements.ts';
import type { Requirement } from './requirements.ts';
import type { HostKey, PinnedKey } from './host-key.ts';
import type { Look } from './machines.ts';
import type { SshFailure } from './ssh-failure.ts';

type Name = 'ssh' | 'host_key' | 'authentication' | Requirement;

/** Whether a machine can become a server. The checks are always the same, in the same order. */
export interface MachineReport {
  status: CheckResult['status'];
  /** `is_pinned`: it is the one that was known before. */
  host_key: (HostKey & { is_pinned: boolean }) | null;
  checks: CheckResult[];
}

const named: readonly Name[] = ['ssh', 'host_key', 'authentication'];

/** The report of a machine that was looked at. Pure. */
export function reportOf(look: Look, pinned: PinnedKey | undefined, otherServer: string | undefined): MachineReport {
  const { hostKey, login, facts, at } = look;
  return report(hostKey, pinned, [
    reached,
    hostKeyCheck(hostKey, pinned),
    passed('authentication', login === 'key' ? 'It takes the key' : 'It takes the password'),
    ...requirementsOf(facts, { login, now: at, otherServer }),
  ]);
}

/** The report of a machine that could not be looked at. What was not reached is not known. Pure. */
export function reportOfFailure(failure: SshFailure, pinned: PinnedKey | undefined): MachineReport {
  const { hostKey } = failure;
  const seen = hostKey === undefined ? [] : [reached, hostKeyCheck(hostKey, pinned)];
  const failed = failing(failedCheck(failure), failure);
  const checks = named.map((name) => [failed, ...seen].find((it) => it.name === name) ?? unknown(name));
  return report(hostKey, pinned, [...checks, ...requirements.map(unknown)]);
}

function hostKeyCheck({ type, fingerprint }: HostKey, pinned: PinnedKey | undefined): CheckResult {
  return passed(
    'host_key',
    pinned === undefined
      ? `Its host key is pinned from now on: ${type} ${fingerprint}`
      : 'Its host key is the pinned one',
  );
}

function failedCheck({ code }: SshFailure): Name {
  switch (code) {
    case 'host_key_changed':
      return 'host_key';
    case 'auth_failed':
    case 'bad_key':
    case 'no_shell':
    case 'no_root':
      return 'authentication';
    case 'incomplete':
    case 'unreachable':
    case 'not_allowed':
    case 'cut':
    case 'timeout':
      return 'ssh';
  }
}

const passed = (name: Name, message: string): CheckResult => ({
  name,
  status: 'pass',
  message,
  remediation: null,
  auto_fixable: false,
});

const reached = passed('ssh', 'An SSH server answers');

function failing(name: Name, { message, remedy }: SshFailure): CheckResult {
  return { name, status: 'fail', message, remediation: remedy, auto_fixable: false };
}

const unknown = (name: Name): CheckResult => ({
  name,
  status: 'warn',
  message: 'Not known, as the machine could not be looked at',
  remediation: 'Mend what failed, then validate again',
  auto_fixable: false,
});

function report(hostKey: HostKey | undefined, pinned: PinnedKey | undefined, checks: CheckResult[]): MachineReport {
  const statuses = checks.map(({ status }) => status);
  return {
    status: statuses.includes('fail') ? 'fail' : statuses.includes('warn') ? 'warn' : 'pass',
    host_key: hostKey === undefined ? null : { ...hostKey, is_pinned: hostKey.fingerprint === pinned?.fingerprint },
    checks,
  };
}
