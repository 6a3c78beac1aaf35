import { Worker } from 'node:worker_threads';
import PQueue from 'p-queue';
import type { Clock } from '../../time/clock.ts';
import { serviceUnavailable, tooMany } from '../ground/api-error.ts';
import type { KeyFault, KeyPair, KeyPairOrder } from './key-pair.ts';

const atOnce = 2;
const waiting = 16;
const timeoutMs = 30_000;
const memoryMb = 64;

export interface KeyPairs {
  /**
   * Makes or reads a key pair. @throws ApiError TOO_MANY_REQUESTS when too many wait already, SERVICE_UNAVAILABLE when
   * none could be made in time; the signal's reason when it aborts
   */
  from(order: KeyPairOrder, signal: AbortSignal): Promise<KeyPair | KeyFault>;
}

/**
 * Makes and reads key pairs in threads of their own: a passphrase may be hashed for seconds, and a file says how often.
 * Each thread ends at its deadline.
 */
export function createKeyPairs(clock: Clock): KeyPairs {
  const pool = new PQueue({ concurrency: atOnce });
  return {
    async from(order, signal) {
      if (pool.size >= waiting) throw tooMany('Too many SSH keys are made or read at once', 1);
      return pool.add(() => inThread(order, clock, signal));
    },
  };
}

async function inThread(order: KeyPairOrder, clock: Clock, signal: AbortSignal): Promise<KeyPair | KeyFault> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<KeyPair | KeyFault>();
  const worker = new Worker(new URL('worker.ts', import.meta.url), {
    workerData: order,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  });
  worker.once('message', resolve);
  worker.once('error', (cause) => reject(new Error('Cannot make or read an SSH key', { cause })));
  worker.once('exit', () => reject(new Error('The thread that makes or reads an SSH key ended without an answer')));
  const cancel = clock.timer(timeoutMs, () => {
    if ('generate' in order) reject(serviceUnavailable(`No SSH key could be made within ${timeoutMs / 1000} s`));
    else resolve({ fault: 'slow' });
  });
  const abort = (): void => reject(signal.reason as Error); // an AbortSignal's reason is an error unless a caller passed another value
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await promise;
  } finally {
    cancel();
    signal.removeEventListener('abort', abort);
    await worker.terminate();
  }
}
