import type { Clock } from '../../time/clock.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';

/** Where engines keep their own, for as long as this one has not answered. */
const usual: readonly string[] = ['/var/lib/docker'];
/** An answer holds for so long: an engine can be started anew with other folders. */
const freshMs = 60_000;
/** A measurement of the disk waits for the engine for so long. */
const answerMs = 1_000;

/** Returns what gives the folders in which the engine keeps images and containers, by its last answer. It does not throw. */
export function engineFolders(
  { folders }: Pick<ContainerRuntime, 'folders'>,
  clock: Clock,
): () => Promise<readonly string[]> {
  let known = usual;
  let staleAt = clock.monotonic();
  let asking: Promise<void> | undefined;
  const ask = async (): Promise<void> => {
    try {
      known = await folders(AbortSignal.timeout(answerMs));
      staleAt = clock.monotonic() + freshMs;
    } catch {
      // the engine is asked again with the next measurement
    } finally {
      asking = undefined;
    }
  };
  return async () => {
    if (clock.monotonic() >= staleAt) await (asking ??= ask());
    return known;
  };
}
