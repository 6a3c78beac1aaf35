import type { ObjectOf } from '../../model.ts';
import { relativeTime } from '../../parts/relative-time.ts';
import type { Shape } from '../../parts/status-words.ts';

type Backup = ObjectOf<'backup'>;

/** Something that was looked at before a backup counts as good, or since. */
interface BackupCheck {
  readonly shape: Shape;
  readonly text: string;
}

/** What is known of a backup. */
export function checksOf(it: Backup, now: number): readonly BackupCheck[] {
  if (it.error !== null) return [{ shape: 'bad', text: it.error.message }];
  if (it.status === 'expired') return [{ shape: 'gone', text: 'Its object was removed, as its time was over' }];
  if (it.status !== 'completed') return [{ shape: 'waiting', text: 'It is checked once all of it was sent' }];
  const changed = it.changed_files ?? 0;
  const left = it.left_out ?? 0;
  return [
    {
      shape: 'good',
      text:
        it.kind === 'database'
          ? 'The program of its engine ended well, and the end of its format was seen'
          : 'The archive was read to its end',
    },
    { shape: 'good', text: 'The bucket took every part by its checksum, and has the size and the tag that follow' },
    it.verified_at === null
      ? { shape: 'waiting', text: 'The bucket is asked for it once a day, and was not yet' }
      : { shape: 'good', text: `The bucket was found to have it ${relativeTime(it.verified_at, now)}` },
    ...(changed > 0
      ? [
          {
            shape: 'warn' as const,
            text: `${changed} files changed while they were read, and are as they were in part`,
          },
        ]
      : []),
    ...(left > 0 ? [{ shape: 'info' as const, text: `${left} sockets are not in it` }] : []),
    triedText(it, now),
  ];
}

/** Whether it could be restored. */
function triedText({ verification, proven_at: at }: Backup, now: number): BackupCheck {
  if (verification?.status === 'not_proven')
    return { shape: 'bad', text: `It could not be restored for trial: ${verification.error?.message ?? ''}` };
  return at === null
    ? { shape: 'info', text: 'It was never restored: a trial shows whether it can be' }
    : { shape: 'good', text: `All of it was restored and read ${relativeTime(at, now)}` };
}
