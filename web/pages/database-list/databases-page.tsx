import type { VNode } from 'preact';
import { allDatabases, allProjects, allServers } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
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
import { engineName } from '../database/engine-name.ts';
import type { PageProps } from '../page.ts';

type Database = ObjectOf<'database'>;

/** All databases that the reader may see, with what each waits for. */
export function DatabasesPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const databases = useList(allDatabases, 'database');
  const projects = byName(useList(allProjects, 'project').objects);
  const servers = byName(useList(allServers, 'server').objects);
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const text = (values['q'] ?? '').trim().toLowerCase();
  const at = (change: Readonly<Record<string, string | undefined>>): string =>
    href(['databases'], { ...values, ...change });
  const rows = byName(databases.objects).filter(
    (one) =>
      (values['status'] === undefined || one.status === values['status']) &&
      (values['projectId'] === undefined || one.project_id === values['projectId']) &&
      (values['serverId'] === undefined || one.server_id === values['serverId']) &&
      (values['type'] === undefined || one.type === values['type']) &&
      one.name.toLowerCase().includes(text),
  );
  const [onlyProject, ...otherProjects] = projects;
  const create =
    onlyProject !== undefined && otherProjects.length === 0 ? (
      <LinkButton tone="primary" icon="plus" href={href(['projects', onlyProject.id, '-', 'new-database'])}>
        New database
      </LinkButton>
    ) : (
      <LinkButton href={href(['projects'])}>Choose a project</LinkButton>
    );
  const hasAny = databases.objects.length > 0;
  return (
    <Page title="Databases" actions={hasAny ? create : undefined}>
      {databases.reading.state === 'failed' && (
        <ErrorBox error={{ message: databases.reading.message }} onRetry={() => collections.retry(allDatabases)} />
      )}
      {databases.reading.state === 'reading' && !hasAny && <Skeleton label="Reading databases" />}
      {databases.reading.state === 'ready' && !hasAny && (
        <EmptyState
          title="No database yet"
          action={create}
          command="setpoint create database NAME --project PROJECT --type postgres"
        >
          A database is a server of PostgreSQL, MySQL, MariaDB, Redis or MongoDB on a volume of its own. It is made in a
          project, whose applications reach it by its name.
        </EmptyState>
      )}
      {hasAny && (
        <>
          <StatusCount
            label="Databases by status"
            of={statusesOf('database')
              .filter((status) => status !== 'stopping')
              .map((status) => ({
                look: lookOfStatus('database', status),
                count: databases.objects.filter((one) => one.status === status).length,
                href: at({ status: values['status'] === status ? undefined : status }),
                isActive: values['status'] === status,
              }))}
          />
          <Filters
            search="Filter databases by name"
            fields={[
              {
                name: 'type',
                label: 'Engine',
                options: [...new Set(databases.objects.map(({ type }) => type))]
                  .toSorted()
                  .map((type) => ({ value: type, label: engineName(type) })),
              },
              {
                name: 'projectId',
                label: 'Project',
                options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
              },
              {
                name: 'serverId',
                label: 'Server',
                options: servers.map(({ id, name }) => ({ value: id, label: name })),
              },
            ]}
            values={values}
            onChange={(next) => router.replace(href(['databases'], next))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {databases.objects.length} databases is like this.{' '}
                <a href={href(['databases'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <Rows rows={rows} />
          )}
        </>
      )}
    </Page>
  );
}

function Rows({ rows }: { readonly rows: readonly Database[] }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const projectOf = ({ project_id: id }: Database): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <Table
      label="Databases"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['databases', id])}
      columns={[
        {
          id: 'name',
          title: 'Database',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: ({ id, name }) => (
            <a class="strong" href={href(['databases', id])}>
              {name}
            </a>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="database" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('database', one).shape),
        },
        {
          id: 'waits',
          title: 'Waits for',
          cell: (one) => waitsFor(one),
        },
        {
          id: 'engine',
          title: 'Engine',
          cell: ({ type, version }) => `${engineName(type)} ${version}`,
          sortBy: ({ type, version }) => `${type} ${version}`,
        },
        {
          id: 'backups',
          title: 'Backups',
          cell: ({ backup_mode: mode }) => backupWords[mode],
          sortBy: ({ backup_mode: mode }) => mode,
        },
        {
          id: 'project',
          title: 'Project',
          cell: (one) => <a href={href(['projects', one.project_id])}>{projectOf(one)}</a>,
          sortBy: projectOf,
        },
        {
          id: 'server',
          title: 'Server',
          cell: ({ server_id: id }) => <a href={href(['servers', id])}>{store.get('server', id)?.name ?? ''}</a>,
          sortBy: ({ server_id: id }) => store.get('server', id)?.name ?? '',
        },
        {
          id: 'made',
          title: 'Made',
          cell: ({ created_at: at }) => <Time at={at} />,
          sortBy: ({ created_at: at }) => at,
        },
      ]}
    />
  );
}

const backupWords = { none: 'none', scheduled: 'by a schedule', pitr: 'to any instant' } as const;
