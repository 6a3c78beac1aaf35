import type { VNode } from 'preact';
import { useHref } from '../../frame/context.ts';
import type { ObjectOf } from '../../model.ts';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { exactTime } from '../../parts/relative-time.ts';
import { bytesText } from '../../parts/units.ts';

type Restore = ObjectOf<'restore'>;

/** Restores as a list, with how far each is. */
export function RestoresTable({ rows }: { readonly rows: readonly Restore[] }): VNode {
  const href = useHref();
  return (
    <Table
      label="Restores"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['restores', id])}
      columns={[
        {
          id: 'of',
          title: 'Into',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: ({ id, name, kind, is_drill: isTrial }) => (
            <span>
              <a class="strong" href={href(['restores', id])}>
                {name}
              </a>{' '}
              <span class="quiet">{isTrial ? `${kind}, for trial` : kind}</span>
            </span>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => (
            <span class="stack-tight">
              <Status kind="restore" object={one} />
              {one.progress !== null && (
                <span class="small quiet numeric">
                  {bytesText(one.progress.done_bytes)} of {bytesText(one.progress.total_bytes)}
                </span>
              )}
              {one.error !== null && <span class="small">{one.error.message}</span>}
            </span>
          ),
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('restore', one).shape),
        },
        {
          id: 'asof',
          title: 'As of',
          cell: ({ target_time: at, backup_id: of }) =>
            at === null ? (of === null ? 'a dump' : 'its backup') : exactTime(at),
        },
        {
          id: 'asked',
          title: 'Asked',
          cell: ({ requested_at: at }) => <Time at={at} />,
          sortBy: ({ requested_at: at }) => at,
        },
        { id: 'ended', title: 'Ended', cell: ({ finished_at: at }) => at !== null && <Time at={at} /> },
      ]}
    />
  );
}
