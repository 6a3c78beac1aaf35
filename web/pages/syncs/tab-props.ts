import type { Read } from '../../frame/use-read.ts';
import type { Sync, SyncRun } from './sync-words.ts';

/** What a tab of a sync gets. */
export interface TabProps {
  readonly it: Sync;
  readonly runs: Read<readonly SyncRun[]>;
  /** Why the reader may not change it; `undefined`: they may. */
  readonly below: string | undefined;
}
