import type { VNode } from 'preact';
import { list } from '../../api.ts';
import { allApplications } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Server } from '../../model.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import type { StatusKind, WithStatus } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';

interface Row {
  readonly id: string;
  readonly name: string;
  readonly kind: StatusKind;
  readonly object: WithStatus;
  readonly projectId: string;
  readonly href: string | undefined;
}

const words: Readonly<Partial<Record<StatusKind, string>>> = {
  application: 'Application',
  database: 'Database',
  function: 'Function',
  volume: 'Volume',
};
const mostOfKind = 1000;

/** What runs and what is stored on a server. */
export function Workloads({ server }: { readonly server: Server }): VNode {
  const { login, store } = useConsole();
  const href = useHref();
  const partsOf = useApplicationParts();
  const applications = useList(allApplications, 'application').objects.filter((one) => one.server_id === server.id);
  const databases = useRead(
    () => list(login, '/api/v1/databases', mostOfKind, { query: { serverId: server.id } }),
    [server.id],
  );
  const volumes = useRead(
    () => list(login, '/api/v1/volumes', mostOfKind, { query: { serverId: server.id } }),
    [server.id],
  );
  const functions = useRead(
    () => list(login, '/api/v1/functions', mostOfKind, { query: { serverId: server.id } }),
    [server.id],
  );
  const rows: Row[] = [
    ...applications.map((one): Row => ({
      id: one.id,
      name: one.name,
      kind: 'application',
      object: one,
      projectId: one.project_id,
      href: href(partsOf(one)),
    })),
    ...(databases.data ?? []).map((one): Row => ({
      id: one.id,
      name: one.name,
      kind: 'database',
      object: store.get('database', one.id) ?? one,
      projectId: one.project_id,
      href: href(['databases', one.id]),
    })),
    ...(functions.data ?? []).map((one): Row => ({
      id: one.id,
      name: one.name,
      kind: 'function',
      object: store.get('function', one.id) ?? one,
      projectId: one.project_id,
      href: href(['functions', one.id]),
    })),
    ...(volumes.data ?? []).map((one): Row => ({
      id: one.id,
      name: one.name,
      kind: 'volume',
      object: store.get('volume', one.id) ?? one,
      projectId: one.project_id,
      href: href(['volumes'], { q: one.name }),
    })),
  ];
  const projectOf = (id: string): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <div class="stack">
      {databases.error !== undefined && <ErrorBox error={databases.error} onRetry={databases.again} />}
      {volumes.error !== undefined && <ErrorBox error={volumes.error} onRetry={volumes.again} />}
      {functions.error !== undefined && <ErrorBox error={functions.error} onRetry={functions.again} />}
      <Table
        label={`Workloads on ${server.name}`}
        rows={rows}
        keyOf={({ id }) => id}
        sort={{ column: 'status', isDescending: false }}
        empty={
          <EmptyState title="Nothing runs here yet">
            Applications, databases, functions and volumes are placed on a server when they are made, or by the default
            server of their environment.
          </EmptyState>
        }
        columns={[
          {
            id: 'name',
            title: 'Name',
            isPrimary: true,
            cell: ({ name, href: to }) =>
              to === undefined ? <span class="strong">{name}</span> : <a href={to}>{name}</a>,
            sortBy: ({ name }) => name,
          },
          { id: 'kind', title: 'Kind', cell: ({ kind }) => words[kind] ?? kind, sortBy: ({ kind }) => kind },
          {
            id: 'status',
            title: 'Status',
            isBare: true,
            cell: ({ kind, object }) => <Status kind={kind} object={object} />,
            sortBy: ({ kind, object }) => shapesByUrgency.indexOf(lookOf(kind, object).shape),
          },
          {
            id: 'project',
            title: 'Project',
            cell: ({ projectId }) => <a href={href(['projects', projectId])}>{projectOf(projectId)}</a>,
            sortBy: ({ projectId }) => projectOf(projectId),
          },
        ]}
      />
    </div>
  );
}
