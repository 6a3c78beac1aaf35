import type { VNode } from 'preact';
import { allApplications, allServers } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import type { PageProps } from '../page.ts';
import { byName } from '../../model.ts';
import type { Server } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOf, lookOfStatus, shapesByUrgency, statusesOf } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { NewServer } from './new-server.tsx';
import { whyNotAdmin, wholeOf } from './whole-server.ts';

const command = 'setpoint create server NAME';

/** All servers: whether they work, what runs on them, and how one more joins. */
export function ServersPage({ query }: PageProps): VNode {
  const { router, collections, me } = useConsole();
  const href = useHref();
  const servers = useList(allServers, 'server');
  const applications = useList(allApplications, 'application');
  const status = query.get('status') ?? undefined;
  const text = query.get('q') ?? '';
  const why = whyNotAdmin(me.value?.role);
  const isNew = query.get('new') === '1' && why === undefined;
  const at = (change: Record<string, string | undefined>): string => href(['servers'], { q: text, status, ...change });
  const open = (): void => {
    if (why === undefined) router.go(at({ new: '1' }));
  };
  usePageKeys({ n: open });

  const load = Map.groupBy(applications.objects, ({ server_id }) => server_id);
  const rows = byName(servers.objects).filter(
    (one) =>
      (status === undefined || one.status === status) && one.name.toLowerCase().includes(text.trim().toLowerCase()),
  );
  const create = (
    <Button tone="primary" icon="plus" why={why} onClick={open}>
      New server
    </Button>
  );
  return (
    <Page title="Servers" actions={servers.objects.length > 0 ? create : undefined}>
      {servers.reading.state === 'failed' && (
        <ErrorBox error={{ message: servers.reading.message }} onRetry={() => collections.retry(allServers)} />
      )}
      {servers.reading.state === 'reading' && servers.objects.length === 0 && <Skeleton label="Reading servers" />}
      {servers.reading.state === 'ready' && servers.objects.length === 0 && (
        <EmptyState title="No server has joined" action={create} command={command}>
          A server is a machine of yours on which applications run. Its agent connects to this control plane by itself,
          so that the machine needs no open port for it.
        </EmptyState>
      )}
      {servers.objects.length > 0 && (
        <>
          <StatusCount
            label="Servers by status"
            of={statusesOf('server').map((one) => ({
              look: lookOfStatus('server', one),
              count: servers.objects.filter((server) => server.status === one).length,
              href: at({ status: status === one ? undefined : one }),
              isActive: status === one,
            }))}
          />
          <Filters
            search="Filter servers by name"
            fields={[
              {
                name: 'status',
                label: 'Status',
                options: statusesOf('server').map((one) => ({ value: one, label: lookOfStatus('server', one).word })),
              },
            ]}
            values={{ ...(text !== '' && { q: text }), ...(status !== undefined && { status }) }}
            onChange={(values) => router.replace(href(['servers'], values))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {servers.objects.length} servers is like this. <a href={href(['servers'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <Rows rows={rows} loadOf={(id) => load.get(id)?.length ?? 0} />
          )}
        </>
      )}
      {isNew && <NewServer onClose={() => router.leave(at({ new: undefined }))} />}
    </Page>
  );
}

function Rows({ rows, loadOf }: { rows: readonly Server[]; loadOf: (id: string) => number }): VNode {
  const href = useHref();
  const version = (one: Server): string => wholeOf(one)?.agent_version ?? '';
  return (
    <Table
      label="Servers"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['servers', id])}
      columns={[
        {
          id: 'name',
          title: 'Server',
          isPrimary: true,
          cell: (one) => <a href={href(['servers', one.id])}>{one.name}</a>,
          sortBy: ({ name }) => name,
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="server" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('server', one).shape),
        },
        {
          id: 'agent',
          title: 'Agent',
          cell: (one) => (
            <span class="row">
              <Status kind="agent" object={{ status: one.agent_status }} />
              <span class="quiet small">{version(one)}</span>
            </span>
          ),
          sortBy: version,
        },
        {
          id: 'load',
          title: 'Applications',
          isNumber: true,
          cell: ({ id }) => loadOf(id),
          sortBy: ({ id }) => loadOf(id),
        },
        { id: 'address', title: 'Address', cell: (one) => <span class="mono">{wholeOf(one)?.ip_address ?? ''}</span> },
        {
          id: 'engine',
          title: 'Engine',
          cell: (one) => {
            const whole = wholeOf(one);
            return whole?.runtime === null || whole === undefined
              ? ''
              : `${whole.runtime} ${whole.runtime_version ?? ''}`;
          },
        },
        {
          id: 'changed',
          title: 'Changed',
          cell: (one) => {
            const at = wholeOf(one)?.updated_at;
            return at === undefined ? '' : <Time at={at} />;
          },
          sortBy: (one) => wholeOf(one)?.updated_at ?? '',
        },
      ]}
    />
  );
}
