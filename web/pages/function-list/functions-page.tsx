import type { VNode } from 'preact';
import { allFunctions, allProjects, allServers } from '../../frame/collections.ts';
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
import { runtimes } from '../function/runtimes.ts';
import type { PageProps } from '../page.ts';

type Fn = ObjectOf<'function'>;

/** All functions that the reader may see, with what each waits for. */
export function FunctionsPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const functions = useList(allFunctions, 'function');
  const projects = byName(useList(allProjects, 'project').objects);
  const servers = byName(useList(allServers, 'server').objects);
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const text = (values['q'] ?? '').trim().toLowerCase();
  const at = (change: Readonly<Record<string, string | undefined>>): string =>
    href(['functions'], { ...values, ...change });
  const rows = byName(functions.objects).filter(
    (one) =>
      (values['status'] === undefined || one.status === values['status']) &&
      (values['projectId'] === undefined || one.project_id === values['projectId']) &&
      (values['serverId'] === undefined || one.server_id === values['serverId']) &&
      (values['runtime'] === undefined || one.runtime === values['runtime']) &&
      one.name.toLowerCase().includes(text),
  );
  const [onlyProject, ...otherProjects] = projects;
  const create =
    onlyProject !== undefined && otherProjects.length === 0 ? (
      <LinkButton tone="primary" icon="plus" href={href(['projects', onlyProject.id, '-', 'new-function'])}>
        New function
      </LinkButton>
    ) : (
      <LinkButton href={href(['projects'])}>Choose a project</LinkButton>
    );
  const hasAny = functions.objects.length > 0;
  return (
    <Page title="Functions" actions={hasAny ? create : undefined}>
      {functions.reading.state === 'failed' && (
        <ErrorBox error={{ message: functions.reading.message }} onRetry={() => collections.retry(allFunctions)} />
      )}
      {functions.reading.state === 'reading' && !hasAny && <Skeleton label="Reading functions" />}
      {functions.reading.state === 'ready' && !hasAny && (
        <EmptyState
          title="No function yet"
          action={create}
          command="setpoint create function NAME --project PROJECT --runtime node20 --file hello.mjs"
        >
          A function is source text that runs when a request or a schedule calls it. While nobody does, nothing of it
          runs.
        </EmptyState>
      )}
      {hasAny && (
        <>
          <StatusCount
            label="Functions by status"
            of={statusesOf('function').map((status) => ({
              look: lookOfStatus('function', status),
              count: functions.objects.filter((one) => one.status === status).length,
              href: at({ status: values['status'] === status ? undefined : status }),
              isActive: values['status'] === status,
            }))}
          />
          <Filters
            search="Filter functions by name"
            fields={[
              {
                name: 'runtime',
                label: 'Runtime',
                options: [...new Set(functions.objects.map(({ runtime }) => runtime))]
                  .toSorted()
                  .map((runtime) => ({ value: runtime, label: runtimes[runtime].label })),
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
            onChange={(next) => router.replace(href(['functions'], next))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {functions.objects.length} functions is like this.{' '}
                <a href={href(['functions'])}>Clear filters</a>
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

function Rows({ rows }: { readonly rows: readonly Fn[] }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const projectOf = ({ project_id: id }: Fn): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <Table
      label="Functions"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['functions', id])}
      columns={[
        {
          id: 'name',
          title: 'Function',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: ({ id, name }) => (
            <a class="strong" href={href(['functions', id])}>
              {name}
            </a>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="function" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('function', one).shape),
        },
        {
          id: 'waits',
          title: 'Waits for',
          cell: (one) => waitsFor(one),
        },
        {
          id: 'runtime',
          title: 'Runtime',
          cell: ({ runtime }) => runtimes[runtime].label,
          sortBy: ({ runtime }) => runtime,
        },
        {
          id: 'by',
          title: 'Called by',
          cell: (one) => calledBy(one),
          sortBy: ({ trigger_type: trigger }) => trigger,
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

function calledBy({ trigger_type: trigger, schedule, url }: Fn): VNode {
  if (trigger === 'cron') return <code>{schedule}</code>;
  return url === null ? (
    <>the API</>
  ) : (
    <a href={url} target="_blank" rel="noreferrer">
      {new URL(url).host}
    </a>
  );
}
