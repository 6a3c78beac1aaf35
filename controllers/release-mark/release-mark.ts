import { isUnavailable } from '../../store/errors.ts';
import { markRelease } from '../../store/release-mark.ts';
import { wait } from '../../time/clock.ts';
import { limits } from '../runtime/limits.ts';
import type { Background } from '../runtime/manager.ts';

/** Marks the store with the release that leads, once in a term, so that an earlier one refuses to start on it. */
export function releaseMark(version: string): Background {
  return {
    name: 'release-mark',
    async run({ fence, signal }, { store, clock }) {
      for (;;) {
        try {
          if (await markRelease(store, version, fence)) return;
        } catch (error) {
          if (!isUnavailable(error)) throw error;
        }
        await wait(clock, limits.leader.failureMs, signal);
      }
    },
  };
}
