import type { VNode } from 'preact';
import { allProjects, allTemplateInstances } from '../../frame/collections.ts';
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
import { InstancesTable } from './instances-table.tsx';
import { templateTabs } from './template-tabs.ts';

/** What was made of templates, in all projects that the reader may see. */
export function TemplateInstancesPage({ query }: PageProps): VNode {
  const { router, collections } = useConsole();
  const href = useHref();
  const { objects, reading } = useList(allTemplateInstances, 'template_instance');
  const projects = byName(useList(allProjects, 'project').objects);
  const values = Object.fromEntries([...query.entries()].filter(([, value]) => value !== ''));
  const text = (values['q'] ?? '').trim().toLowerCase();
  const rows = byName(objects).filter(
    (one) =>
      (values['status'] === undefined || one.status === values['status']) &&
      (values['projectId'] === undefined || one.project_id === values['projectId']) &&
      `${one.name} ${one.template_name}`.toLowerCase().includes(text),
  );
  return (
    <Page title="Templates" tabs={templateTabs(href)} current={href(['instances'])}>
      {reading.state === 'failed' && (
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allTemplateInstances)} />
      )}
      {reading.state === 'reading' && objects.length === 0 && <Skeleton label="Reading instances" />}
      {reading.state === 'ready' && objects.length === 0 && (
        <EmptyState
          title="No instance yet"
          action={<LinkButton href={href(['templates'])}>Catalogue</LinkButton>}
          command="setpoint instantiate TEMPLATE --project PROJECT --name NAME"
        >
          An instance is what was made of a template in an environment: its volumes, databases and applications, wave by
          wave.
        </EmptyState>
      )}
      {objects.length > 0 && (
        <>
          <StatusCount
            label="Instances by status"
            of={statusesOf('template_instance').map((status) => ({
              look: lookOfStatus('template_instance', status),
              count: objects.filter((one) => one.status === status).length,
              href: href(['instances'], { ...values, status: values['status'] === status ? undefined : status }),
              isActive: values['status'] === status,
            }))}
          />
          <Filters
            search="Filter by name"
            fields={[
              {
                name: 'projectId',
                label: 'Project',
                options: projects.map(({ id, name, display_name: title }) => ({ value: id, label: title ?? name })),
              },
            ]}
            values={values}
            onChange={(next) => router.replace(href(['instances'], next))}
          />
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None is like this. <a href={href(['instances'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <InstancesTable rows={rows} />
          )}
        </>
      )}
    </Page>
  );
}
