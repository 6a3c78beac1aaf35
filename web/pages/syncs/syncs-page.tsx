import type { VNode } from 'preact';
import { allProjects, allServers, allSyncs } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Filters } from '../../parts/filters.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOfStatus, statusesOf } from '../../parts/status-words.ts';
import type { PageProps } from '../page.ts';
import { followedBy } from './sync-words.ts';
import { SyncsTable } from './syncs-table.tsx';

/** All syncs that the reader may see: whether each project is as its repository declares it. */
export function SyncsPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const { objects, reading } = useList(allSyncs, 'sync');
  const projects = byName(useList(allProjects, 'project').objects);
  useList(allServers, 'server');
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const text = (values['q'] ?? '').trim().toLowerCase();
  const rows = byName(objects).filter(
    (one) =>
      (values['status'] === undefined || one.status === values['status']) &&
      (values['projectId'] === undefined || one.project_id === values['projectId']) &&
      `${one.name} ${one.repository_url} ${followedBy(one)}`.toLowerCase().includes(text),
  );
  const [only, ...others] = projects;
  const into = projects.find(({ id }) => id === values['projectId']) ?? (others.length === 0 ? only : undefined);
  const create =
    into === undefined ? (
      <LinkButton href={href(['projects'])}>Choose a project</LinkButton>
    ) : (
      <LinkButton tone="primary" icon="plus" href={href(['projects', into.id, '-', 'new-sync'])}>
        New sync
      </LinkButton>
    );
  return (
    <Page title="Syncs" actions={objects.length > 0 ? create : undefined}>
      {reading.state === 'failed' && (
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allSyncs)} />
      )}
      {reading.state === 'reading' && objects.length === 0 && <Skeleton label="Reading syncs" />}
      {reading.state === 'ready' && objects.length === 0 && (
        <EmptyState
          title="No sync yet"
          action={create}
          command="setpoint sync create NAME --project PROJECT --repository URL --path deploy"
        >
          A sync keeps what a project has as the files of a repository declare it: each commit is planned as a whole,
          and applied. What somebody changes by hand is shown.
        </EmptyState>
      )}
      {objects.length > 0 && (
        <>
          <StatusCount
            label="Syncs by status"
            of={statusesOf('sync').map((status) => ({
              look: lookOfStatus('sync', status),
              count: objects.filter((one) => one.status === status).length,
              href: href(['syncs'], { ...values, status: values['status'] === status ? undefined : status }),
              isActive: values['status'] === status,
            }))}
          />
          <Filters
            search="Filter syncs by name or repository"
            fields={[
              {
                name: 'projectId',
                label: 'Project',
                options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
              },
            ]}
            values={values}
            onChange={(next) => router.replace(href(['syncs'], next))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {objects.length} syncs is like this. <a href={href(['syncs'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <SyncsTable rows={rows} />
          )}
        </>
      )}
    </Page>
  );
}
