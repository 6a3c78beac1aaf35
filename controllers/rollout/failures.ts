import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ConditionInput } from '../../store/resource.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import type { Assignment } from './slots.ts';

export type Failure = NonNullable<ObservedOf<'assignment'>['error']>;

interface Meaning {
  /** Waiting does not cure it: the deployment fails at once. An exit does not count before it is a crash loop. */
  isFatal?: true;
  /** What to do, if no container can be made or started because of it; absent where the logs show why. */
  remedy?: string;
}

/** What a failure that an agent reports means for an instance: a code without a row does not compile. */
const meanings: Readonly<Record<FailureCode, Meaning>> = {
  image_not_found: { isFatal: true, remedy: 'deploy the application again' },
  image_not_allowed: { isFatal: true, remedy: 'ask an administrator to allow the image, or deploy another one' },
  image_pull_failed: { remedy: 'check that its server reaches the registry' },
  repository_unreachable: {},
  branch_not_found: {},
  dockerfile_not_found: {},
  path_outside_repository: {},
  build_failed: {},
  build_timeout: {},
  invalid_source: { isFatal: true, remedy: 'change the source, and deploy' },
  run_failed: {},
  run_timeout: {},
  backup_failed: {},
  backup_timeout: {},
  restore_failed: {},
  restore_timeout: {},
  archive_waits: {},
  archive_refused: {},
  recovery_failed: {},
  recovery_timeout: {},
  not_serving: {},
  not_started: {},
  exited: {},
  unhealthy: {},
  port_taken: { isFatal: true, remedy: 'free the port on its server, or change exposed_port' },
  out_of_memory: {},
  no_space: { remedy: 'free space on the disk of its server' },
  name_taken: { isFatal: true, remedy: 'remove the other container from its server' },
  create_failed: { isFatal: true, remedy: 'change what the engine refuses, and deploy' },
  in_use: {},
  route_refused: { remedy: 'change the domains of the application' },
  ingress_unavailable: { remedy: 'see the conditions of its server' },
  proxy_refused: { remedy: 'change the ingress of the server, or free its ports' },
  interrupted: {},
  volume_in_use: { remedy: 'stop the other instance, or unbind the volume' },
  data_lost: { isFatal: true, remedy: 'put it back from a copy, or unbind it and bind another one' },
  copy_waits: {},
  copy_refused: {},
  copy_failed: {},
  transfer_failed: {},
  runtime_unavailable: { remedy: 'see the conditions of its server' },
  secret_unavailable: { remedy: 'restore the key file of the control plane, or set the variables again' },
  agent_outdated: { remedy: 'upgrade the agent of its server' },
};

/** The code of a reported failure: agents of a later release may send codes that this one does not know. */
interface Reported {
  readonly code: string;
}

/** What a reported failure means; a code that this release does not know means nothing. */
export function meaningOf({ code }: Reported): Meaning {
  const known: Readonly<Record<string, Meaning>> = meanings;
  return Object.hasOwn(known, code) ? (known[code] ?? {}) : {};
}

/** Whether a failure was reported, and with that code. */
export function hasCode(error: Reported | undefined, code: FailureCode): boolean {
  return error?.code === code;
}

/** The condition of an object one of whose assignments failed as the agent of its server is too old. */
export function agentTooOld(failures: readonly (Failure | undefined)[]): ConditionInput[] {
  const outdated = failures.find((failure) => hasCode(failure, 'agent_outdated'));
  if (outdated === undefined) return [];
  return [{ type: 'AgentTooOld', status: 'true', reason: 'AgentOfEarlierRelease', message: outdated.message }];
}

/** Why the instance will not become ready as it is; `undefined` while it may. */
export function failureOf(it: Assignment): Failure | undefined {
  const observed = upToDate(it);
  if (observed?.error === undefined) return undefined;
  const hopeless = observed.phase === 'failed' || observed.crash_loop || meaningOf(observed.error).isFatal === true;
  return hopeless ? observed.error : undefined;
}
