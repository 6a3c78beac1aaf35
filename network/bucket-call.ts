import { unlessAborted } from '../time/unless-aborted.ts';
import { CallTimedOut } from './bucket-trouble.ts';

/**
 * Calls a bucket. @throws CallTimedOut if the call takes longer than `ms`; the signal's reason; what the call throws
 */
export async function withinCall<T>(
  call: (options: { abortSignal: AbortSignal }) => Promise<T>,
  ms: number,
  signal: AbortSignal,
): Promise<T> {
  const deadline = AbortSignal.timeout(ms);
  try {
    const abortSignal = AbortSignal.any([signal, deadline]);
    // the SDK heeds its signal until an answer begins, and not while the answer is read
    return await unlessAborted(call({ abortSignal }), abortSignal);
  } catch (error) {
    if (deadline.aborted && !signal.aborted) throw new CallTimedOut();
    throw error;
  }
}
