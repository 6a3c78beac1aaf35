import { isDiskFull } from './disk-full.ts';
import type { Failure } from './memory.ts';
import { backoffMs } from './memory.ts';
import { RuntimeFailure } from './runtime/runtime.ts';

/** Where only a change of the request, or of the world, can help: tried again, but seldom. */
const finalRetryMs = 30_000;
/** After so many tries in vain waiting is no longer the whole story: the failure is told to be one. */
const triesUntilFinal = 3;

/** What a failed step leaves behind. Pure. Errors of the machine itself are told without their details. */
export function stepFailure(error: unknown, before: Failure | undefined, now: number): Failure {
  const tries = (before?.tries ?? 0) + 1;
  const { code, message, retryable } = tellable(error);
  return {
    code,
    message,
    // That the engine went away says nothing of the step, however often.
    final: !retryable || (tries >= triesUntilFinal && !isAway(error)),
    tries,
    until: now + (retryable ? backoffMs(tries) : Math.max(finalRetryMs, backoffMs(tries))),
  };
}

function isAway(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'runtime_unavailable';
}

function tellable(error: unknown): Pick<RuntimeFailure, 'code' | 'message' | 'retryable'> {
  if (error instanceof RuntimeFailure) return error;
  if (isDiskFull(error)) return { code: 'no_space', message: 'The disk of the server is full', retryable: true };
  return {
    code: 'runtime_unavailable',
    message: 'The server could not carry out a step: its agent log has the cause',
    retryable: true,
  };
}
