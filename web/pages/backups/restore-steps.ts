import type { ObjectOf } from '../../model.ts';
import type { Step } from '../../parts/steps.tsx';
import { bytesText } from '../../parts/units.ts';

type Restore = ObjectOf<'restore'>;
export type RestoreStatus = Restore['status'];

/** Whether a restore has not come to its end. */
export function isUnderWay(status: RestoreStatus): boolean {
  return status !== 'completed' && status !== 'failed' && status !== 'deleting';
}

/** A step of a restore: its name, the statuses in which it is worked on, and what it touches. */
interface Row {
  readonly name: string;
  readonly statuses: readonly RestoreStatus[];
  readonly touches: string;
}

const preparing: Row = {
  name: 'Prepare',
  statuses: ['pending', 'preparing'],
  touches: 'Touched: nothing that serves. A new volume is made on the server.',
};
const copying: Row = {
  name: 'Copy',
  statuses: ['restoring'],
  touches: 'Touched: the new volume alone, which no client can reach.',
};
const checking: Row = {
  name: 'Check',
  statuses: ['verifying'],
  touches: 'Touched: nothing. Object and data are checked to their end.',
};
const deciding: Row = {
  name: 'Your decision',
  statuses: ['ready_to_switch'],
  touches: 'Touched: nothing. What was recovered waits beside what serves; after a week without a decision it goes.',
};
const switching: Row = {
  name: 'Switch',
  statuses: ['switching'],
  touches:
    'Touched: what serves. It ends and starts on the new volume. If that does not serve within 15 minutes, it goes back by itself.',
};

type Shown = Pick<Restore, 'kind' | 'resource_id' | 'target_time' | 'status' | 'is_drill'>;

/** The steps of a restore: one of a database to an instant of itself waits for a decision. `from`: what the backup is of. */
function rowsOf(
  { kind, resource_id: id, target_time: instant, status, is_drill: isTrial }: Shown,
  from: string | undefined,
): Row[] {
  if (isTrial) return [preparing, copying, checking];
  const isToItself = from === undefined || from === id;
  const waits = status === 'ready_to_switch' || (kind === 'database' && instant !== null && isToItself);
  return [preparing, copying, checking, ...(waits ? [deciding] : []), switching];
}

/** The steps of a restore as they stand. `from`: the database or volume that its backup is of, as far as it is known. */
export function restoreSteps(it: Shown & Pick<Restore, 'progress' | 'started_at'>, from: string | undefined): Step[] {
  const rows = rowsOf(it, from);
  const at = rows.findIndex(({ statuses }) => statuses.includes(it.status));
  return [
    ...rows.map((row, index): Step => {
      const isCurrent = index === at;
      return {
        name: row.name,
        status: it.status === 'completed' || index < at ? 'done' : isCurrent ? 'running' : 'waiting',
        detail: isCurrent && row === copying ? progressText(it.progress) : undefined,
        ...(isCurrent && row === preparing && it.started_at !== null && { since: it.started_at }),
      };
    }),
    { name: 'Done', status: it.status === 'completed' ? 'done' : it.status === 'failed' ? 'failed' : 'waiting' },
  ];
}

/** What the present step touches, in a sentence. */
export function touchedNow(it: Shown): string {
  const row = rowsOf(it, undefined).find(({ statuses }) => statuses.includes(it.status));
  if (row !== undefined) return row.touches;
  if (it.status === 'completed' && it.is_drill)
    return 'All of the backup was restored and read, and what was restored is removed.';
  if (it.status === 'completed') return 'What was restored is in its place. The former data stays for a week.';
  if (it.status === 'failed') return 'Touched: nothing. What served before goes on serving; the new volume is removed.';
  return '';
}

/** What an import reads, in words; `undefined`: it is a restore of a backup. */
export function importedText({ kind, url, path, size_bytes: bytes }: Restore['source']): string | undefined {
  const size = bytes === null ? '' : `, ${bytesText(bytes)}`;
  switch (kind) {
    case 'backup':
      return undefined;
    case 'upload':
      return `a file that was sent${size}`;
    case 'url':
      return url ?? '';
    case 'path':
      return `file ${path ?? ''} of its server${size}`;
  }
}

function progressText(progress: Restore['progress']): string {
  if (progress === null) return '';
  const rate = progress.bytes_per_second > 0 ? `, ${bytesText(progress.bytes_per_second)}/s` : '';
  return `${bytesText(progress.done_bytes)} of ${bytesText(progress.total_bytes)}${rate}`;
}
