import { isDiskFull } from '../disk/disk-full.ts';
import type { Failure } from './memory.ts';
import { backoffMs } from './memory.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** Least delay before another try if only a change of the request or of the environment can help. */
const finalRetryMs = 30_000;
/** After this number of failed tries, a failure is reported as final. */
const triesUntilFinal = 3;
/** As many for an image, which take a minute: a registry that restarts, or that asks for patience, is back by then. */
const pullsUntilFinal = 7;

/** Makes the failure of a step. Pure. Errors of the machine itself are reported without their details. */
export function stepFailure(step: string, error: unknown, before: Failure | undefined, now: number): Failure {
  const tries = (before?.tries ?? 0) + 1;
  const { code, message, retryable } = reportable(error);
  const most = step === 'resolveImage' ? pullsUntilFinal : triesUntilFinal;
  return {
    step,
    code,
    message,
    // A loss of the engine is never final: it shows nothing about the step.
    final: !retryable || (tries >= most && !isAway(error)),
    tries,
    until: now + (retryable ? backoffMs(tries) : Math.max(finalRetryMs, backoffMs(tries))),
  };
}

function isAway(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'runtime_unavailable';
}

function reportable(error: unknown): Pick<RuntimeFailure, 'code' | 'message' | 'retryable'> {
  if (error instanceof RuntimeFailure) return error;
  if (isDiskFull(error))
    return { code: 'no_space', message: 'The disk of the server is full: free space on it', retryable: true };
  return {
    code: 'runtime_unavailable',
    message: 'The server could not carry out a step: its agent log has the cause',
    retryable: true,
  };
}
