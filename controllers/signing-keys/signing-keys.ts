import { wait } from '../../time/clock.ts';
import type { Guard } from '../../store/store.ts';
import { limits } from '../runtime/limits.ts';
import type { Background } from '../runtime/manager.ts';

/** The result of a pass over the keys that sign tokens: one was added, old ones were dropped, or nothing was due. */
export type Tended = 'rotated' | 'dropped' | 'kept';

/** Calls `tend` from time to time, which rotates or drops the keys that sign tokens if due, guarded by the fence. */
export function signingKeyRotation(tend: (fence: Guard) => Promise<Tended>): Background {
  return {
    name: 'signing-keys',
    async run({ fence, signal }, { clock, log }) {
      for (;;) {
        try {
          const done = await tend(fence);
          if (done !== 'kept') log.info({ done }, 'The keys that sign tokens were changed');
        } catch (error) {
          if (signal.aborted) return;
          log.warn({ err: error }, 'Cannot check the keys that sign tokens: the next pass tries again');
        }
        await wait(clock, limits.rotation.signingKeysEveryMs, signal);
      }
    },
  };
}
