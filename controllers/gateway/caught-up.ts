import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Revision } from '../../store/revision.ts';
import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';

/** Whether the mirror comes to a revision in time; false: it has lost the store, or is too slow for an agent. */
export async function caughtUp(
  { mirror, clock }: { mirror: Pick<Mirror, 'reached'>; clock: Clock },
  revision: Revision,
): Promise<boolean> {
  const deadline = signalAfter(clock, limits.session.catchUpMs);
  try {
    await mirror.reached(revision, deadline.signal);
    return true;
  } catch {
    return false;
  } finally {
    deadline.cancel();
  }
}
