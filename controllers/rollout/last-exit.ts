import { upToDate } from '../runtime/up-to-date.ts';
import { isCrashLooping } from './slots.ts';
import type { Assignment } from './slots.ts';

/** How the process of an instance that keeps exiting ended last, and what it wrote; an older agent tells nothing of it. */
export function loopOf(instances: readonly Assignment[]): { how: string; lines: string } {
  const looping = instances.filter(isCrashLooping).map((it) => upToDate(it)?.last_exit);
  const { code, out_of_memory: isKilled = false, lines = '' } = looping.find((it) => it !== undefined) ?? {};
  const end = code === undefined ? '' : `, last with code ${code}`;
  const why = isKilled ? ', killed as it used more memory than it may' : '';
  return { how: `Its process keeps exiting${end}${why}`, lines };
}

/** That the process of an instance keeps exiting, with its last lines. */
export function loopMessage(instances: readonly Assignment[]): string {
  const { how, lines } = loopOf(instances);
  return `${how}: ${lines === '' ? 'its log shows why' : lines}`;
}
