import type { VNode } from 'preact';
import { useHref } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import type { Application, Instance } from '../../model.ts';
import { Id } from '../../parts/id.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

interface InstancesProps {
  readonly it: Application;
  readonly of: readonly Instance[];
  readonly isRead: boolean;
}

/** The containers of an application, how each is, and how it ended last. */
export function Instances({ it, of, isRead }: InstancesProps): VNode {
  const href = useHref();
  const parts = useApplicationParts();
  if (!isRead) return <Skeleton lines={2} label="Reading instances" />;
  if (of.length === 0) return <p class="quiet">None runs.</p>;
  const hasServices = of.some(({ service }) => service !== null);
  return (
    <Table
      label="Instances"
      rows={of}
      keyOf={({ id }) => id}
      empty=""
      columns={[
        {
          id: 'replica',
          title: 'Replica',
          isPrimary: true,
          cell: (one) => (hasServices ? `${one.service ?? ''} ${one.replica}` : one.replica),
        },
        { id: 'status', title: 'Status', cell: (one) => <Status kind="instance" object={one} /> },
        { id: 'ready', title: 'Ready', cell: (one) => (one.ready ? 'yes' : 'no') },
        { id: 'restarts', title: 'Restarts', isNumber: true, cell: (one) => one.restarts },
        { id: 'exit', title: 'Ended last', cell: (one) => endOf(one) },
        { id: 'started', title: 'Started', cell: (one) => one.started_at !== null && <Time at={one.started_at} /> },
        {
          id: 'container',
          title: 'Container',
          cell: (one) => one.container_id !== null && <Id of={one.container_id} what="container id" />,
        },
        {
          id: 'logs',
          title: 'More',
          cell: (one) => (
            <span class="row">
              <a href={href(parts(it, 'logs'), { instance: one.id })} aria-label={`Logs of replica ${one.replica}`}>
                Logs
              </a>
              {one.ready && (
                <a
                  href={href(parts(it, 'terminal'), { instance: one.id })}
                  aria-label={`Terminal in replica ${one.replica}`}
                >
                  Terminal
                </a>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function endOf({ last_exit: last }: Instance): string {
  if (last === null) return '';
  if (last.out_of_memory) return 'out of memory';
  return last.code === null ? 'unknown' : `exit code ${last.code}`;
}
