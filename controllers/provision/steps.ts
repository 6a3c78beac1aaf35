import { provisioningSteps } from '../../store/kinds/provisioning-step.ts';
import type { ProvisioningStep, StepName } from '../../store/kinds/provisioning-step.ts';
import type { SshFailure, SshFailureCode } from '../ssh/ssh-failure.ts';

/** Why a step is not done, in words for operators: what happened, and what to do. */
export interface Fault {
  step: StepName;
  /** CamelCase, as that of a condition. */
  reason: string;
  message: string;
  remedy: string;
  /** Another attempt cannot help before something is changed. */
  isFinal: boolean;
  /** A job on the machine failed: the next attempt is another job. */
  ofJob?: boolean;
}

/** How an operator has it tried again, in words that end a remedy. */
export const triesAgain = 'setpoint provision SERVER (POST /servers/:id/provision) tries again';

/** What was seen of a step, as the condition has it. */
export interface Seen {
  reason: string;
  message: string;
}

/** A step of provisioning failed. */
export class StepFailure extends Error {
  readonly fault: Fault;

  constructor(fault: Fault, options?: ErrorOptions) {
    super(fault.message, options);
    this.name = 'StepFailure';
    this.fault = fault;
  }
}

/** Steps that are done. */
type Done = ReadonlyMap<StepName, Seen>;

/** What an attempt found: the steps in their order, all but those that are done and the open one as pending. Pure. */
export function stepsOf(done: Done, open?: (Seen & { step: StepName }) | Fault): ProvisioningStep[] {
  const first = openStep(done);
  const at = open === undefined ? -1 : provisioningSteps.indexOf(open.step);
  return provisioningSteps.map((type, index) => {
    const seen = done.get(type);
    if (seen !== undefined) return { type, status: 'true', ...seen };
    if (open?.step !== type) {
      const message =
        index < at
          ? 'It is not known yet: see the step that is open'
          : open === undefined && type === first
            ? 'It has not begun yet'
            : 'It waits for the steps before it';
      return { type, status: 'unknown', reason: 'Pending', message };
    }
    const { reason, message } = open;
    return 'remedy' in open
      ? { type, status: 'false', reason, message: `${message}. ${open.remedy}` }
      : { type, status: 'unknown', reason, message };
  });
}

/** The first step that is not done. */
export function openStep(done: Done): StepName {
  return provisioningSteps.find((type) => !done.has(type)) ?? 'AgentJoined';
}

/** The step that an operator has to look at: the one that failed, else the first that is not done. */
export function decisiveStep(steps: readonly ProvisioningStep[]): ProvisioningStep | undefined {
  return steps.find(({ status }) => status === 'false') ?? steps.find(({ status }) => status !== 'true');
}

/** `isUnseen`: it is mended where provisioning does not look, such as on the machine or in the file of the master keys. */
const faults: Readonly<Record<SshFailureCode, { step?: StepName; reason: string; isFinal: boolean; isUnseen?: true }>> =
  {
    incomplete: { step: 'Reachable', reason: 'Incomplete', isFinal: true },
    unreachable: { step: 'Reachable', reason: 'Unreachable', isFinal: false },
    not_allowed: { step: 'Reachable', reason: 'AddressRefused', isFinal: true },
    host_key_changed: { step: 'HostKeyTrusted', reason: 'HostKeyChanged', isFinal: true },
    auth_failed: { step: 'LoggedIn', reason: 'LoginRefused', isFinal: true, isUnseen: true },
    bad_key: { step: 'LoggedIn', reason: 'KeyUnreadable', isFinal: true, isUnseen: true },
    no_shell: { step: 'LoggedIn', reason: 'NoShell', isFinal: true, isUnseen: true },
    no_root: { step: 'MachineFits', reason: 'NoPrivileges', isFinal: true, isUnseen: true },
    cut: { reason: 'ConnectionBroke', isFinal: false },
    timeout: { reason: 'TooSlow', isFinal: false },
  };

/** The fault that a failure of SSH is, after these steps. */
export function faultOf({ code, message, remedy }: SshFailure, done: Done): Fault {
  const { step = openStep(done), reason, isFinal, isUnseen } = faults[code];
  return { step, reason, message, remedy: isUnseen ? `${remedy}; then ${triesAgain}` : remedy, isFinal };
}
