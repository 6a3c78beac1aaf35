import { useConsole } from './context.ts';
import type { Rank } from './rights.ts';

/** The reader's rank in a project; `undefined` until it is known. */
export function useRank(projectId: string): Rank | undefined {
  return useConsole().rights.rankIn(projectId);
}
