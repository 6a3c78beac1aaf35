import type { DestinationPhase } from '../../store/kinds/backup-destination.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';

/** Durations in milliseconds. */
export const pace = {
  /** Between two probes of a bucket that can be used. */
  usualMs: 60 * 60_000,
  /** After a probe that found trouble; it doubles with each further one. */
  retryMs: 60_000,
  slowestRetryMs: 15 * 60_000,
  /** Probes in a row that must find what may pass by itself, before nothing else is sent there. */
  patience: 3,
} as const;

type Destination = ReadonlyResource<'backup_destination'>;
type Observed = ObservedOf<'backup_destination'>;

/** What a probe found. */
export interface Found {
  trouble: { code: string; message: string; isPassing: boolean } | undefined;
  isClockOff: boolean;
}

/** Milliseconds from a probe to the next one, after so many in a row that found trouble. */
export function pauseAfter(failures: number): number {
  if (failures === 0) return pace.usualMs;
  return Math.min(pace.retryMs * 2 ** Math.min(failures - 1, 10), pace.slowestRetryMs);
}

/** Milliseconds until the destination is to be probed; 0: now. A change of it is probed at once. */
export function dueIn({ meta, observed }: Destination, now: Date): number {
  if (observed === undefined || observed.observedGeneration !== meta.generation) return 0;
  const pause = pauseAfter(observed.failures);
  // a clock that was set back must not put off a probe
  return Math.min(pause, Math.max(0, Date.parse(observed.probed_at) + pause - now.getTime()));
}

/**
 * What is known after a probe. The bucket counts as unreachable at once where nothing but a change can help, and after
 * some probes in a row where the trouble may pass. Pure.
 */
export function observedAfter({ observed }: Destination, { trouble, isClockOff }: Found, now: Date): Observed {
  const failures = trouble === undefined ? 0 : (observed?.failures ?? 0) + 1;
  const phase = phaseAfter(observed?.phase, trouble, failures);
  return {
    ...(phase !== undefined && { phase }),
    probed_at: now.toISOString(),
    failures,
    ...(trouble !== undefined && { trouble: { code: trouble.code, message: trouble.message } }),
    is_clock_off: isClockOff,
  };
}

function phaseAfter(
  before: DestinationPhase | undefined,
  trouble: Found['trouble'],
  failures: number,
): DestinationPhase | undefined {
  if (trouble === undefined) return 'reachable';
  return !trouble.isPassing || failures >= pace.patience ? 'unreachable' : before;
}

/** The conditions that follow from what is known. Pure. */
export function conditionsOf({ phase, trouble, is_clock_off }: Observed): ConditionInput[] {
  const reachable = reachableOf(phase, trouble);
  const { status, reason, message } = reachable;
  const clocks: ConditionInput = {
    type: 'ClocksAgree',
    status: 'false',
    reason: 'ClockOff',
    message:
      'The clocks of the bucket and of the control plane differ by more than a minute, and requests are refused from 15 minutes on: set the clock of the control plane',
  };
  return [{ type: 'Ready', status, reason, message }, reachable, ...(is_clock_off ? [clocks] : [])];
}

function reachableOf(phase: Observed['phase'], trouble: Observed['trouble']): ConditionInput {
  const type = 'Reachable';
  if (trouble === undefined)
    return {
      type,
      status: 'true',
      reason: 'Probed',
      message: 'The last probe wrote, read, listed, deleted and uploaded in parts',
    };
  const reason = reasonOf(trouble.code);
  if (phase === 'unreachable') return { type, status: 'false', reason, message: trouble.message };
  const status = phase === 'reachable' ? 'true' : 'unknown';
  return { type, status, reason, message: `The last probe failed, and is repeated soon. ${trouble.message}` };
}

/** In the form of conditions: `no_bucket` is `NoBucket`. */
function reasonOf(code: string): string {
  return code.replaceAll(/(?:^|_)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
