import type { VNode } from 'preact';
import { allApplications } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { Card, Facts } from '../../parts/card.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { Table } from '../../parts/table.tsx';
import type { WholeServer } from './whole-server.ts';

/** Which ports of a server applications may take, and which are taken. */
export function ServerPorts({ server }: { readonly server: WholeServer }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const { from, to, reserved, bindings } = server.direct_ports;
  const own = useList(allApplications, 'application').objects.filter(
    (one) => one.server_id === server.id && one.exposed_port !== null,
  );
  const projectOf = (id: string): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? id;
  };
  return (
    <div class="stack">
      <Card title="Ports" actions={<a href={href(['servers', server.id, 'settings'])}>Change</a>}>
        <Facts
          of={[
            ['Direct ports', server.direct_ports_enabled ? `${from} to ${to}` : 'Applications may take none'],
            ['Reserved', reserved.length === 0 ? 'none' : reserved.join(', ')],
            [
              'Kept for projects',
              bindings.length === 0
                ? 'none'
                : bindings.map(({ port, project_id }) => `${port} for ${projectOf(project_id)}`).join(', '),
            ],
            [
              'Proxy',
              server.ingress === null || !server.ingress.enabled
                ? 'none'
                : `${server.ingress.http_port} and ${server.ingress.https_port}`,
            ],
          ]}
        />
      </Card>
      <Table
        label={`Ports taken on ${server.name}`}
        rows={own}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => href(['applications', id])}
        sort={{ column: 'port', isDescending: false }}
        empty={
          <EmptyState title="No port is taken">
            An application with an exposed port is listed here with its port and its domains.
          </EmptyState>
        }
        columns={[
          {
            id: 'name',
            title: 'Application',
            isPrimary: true,
            cell: ({ id, name }) => <a href={href(['applications', id])}>{name}</a>,
            sortBy: ({ name }) => name,
          },
          {
            id: 'port',
            title: 'Port',
            isNumber: true,
            cell: ({ exposed_port }) => exposed_port,
            sortBy: ({ exposed_port }) => exposed_port ?? 0,
          },
          { id: 'domains', title: 'Domains', cell: ({ domains }) => domains.map(({ host }) => host).join(', ') },
        ]}
      />
    </div>
  );
}
