import type { VNode } from 'preact';
import type { ObjectOf } from '../../model.ts';
import { Shape } from '../../parts/shape.tsx';
import { lookOf } from '../../parts/status-words.ts';
import { relativeTime } from '../../parts/relative-time.ts';

type Backup = ObjectOf<'backup'>;

const dayMs = 86_400_000;
const shownDays = 30;
/** Marks of one line; beyond that they would cover each other. */
const mostMarks = 120;

/** The backups of one database or volume over the last 30 days, as a line with a mark for each. */
export function BackupLine({ of, now = Date.now() }: { readonly of: readonly Backup[]; readonly now?: number }): VNode {
  const from = now - shownDays * dayMs;
  const shown = of.filter((one) => instantOf(one) >= from).slice(0, mostMarks);
  const good = shown.filter(({ status }) => status === 'completed');
  const failed = shown.filter(({ status }) => status === 'failed').length;
  const [newest] = good;
  const text = [
    `In ${shownDays} days: ${good.length} good, ${failed} failed`,
    newest === undefined
      ? 'no good one'
      : `the last good one ${relativeTime(newest.completed_at ?? newest.requested_at, now)}`,
  ].join('; ');
  return (
    <div class="backup-line" role="img" aria-label={text}>
      {shown.map((one) => (
        <span
          key={one.id}
          class="backup-mark"
          style={{ insetInlineStart: `${(((instantOf(one) - from) / (now - from)) * 100).toFixed(2)}%` }}
        >
          <Shape of={lookOf('backup', one).shape} />
        </span>
      ))}
    </div>
  );
}

function instantOf({ completed_at: end, requested_at: begin }: Backup): number {
  return Date.parse(end ?? begin);
}
