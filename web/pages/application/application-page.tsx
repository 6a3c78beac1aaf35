import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call, messageOf, Refused } from '../../api.ts';
import { allApplications, allProjects, allServers, deploymentsOf, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import type { Application } from '../../model.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import type { PageProps } from '../page.ts';
import { ApplicationActions } from './application-actions.tsx';
import { DeploymentsTab } from './deployments-tab.tsx';
import { DomainsTab } from './domains-tab.tsx';
import { EnvironmentTab } from './environment-tab.tsx';
import { EventsTab } from './events-tab.tsx';
import { LogsTab } from './logs-tab.tsx';
import { MetricsTab } from './metrics-tab.tsx';
import { Overview } from './overview.tsx';
import { SettingsTab } from './settings-tab.tsx';
import type { TabProps } from './tab-props.ts';
import { TerminalTab } from './terminal-tab.tsx';

interface TabRow {
  readonly tab: string;
  readonly label: string;
  readonly shows: ComponentType<TabProps>;
  readonly isWide?: boolean;
}

const tabs: readonly TabRow[] = [
  { tab: '', label: 'Overview', shows: Overview },
  { tab: 'deployments', label: 'Deployments', shows: DeploymentsTab },
  { tab: 'logs', label: 'Logs', shows: LogsTab, isWide: true },
  { tab: 'metrics', label: 'Metrics', shows: MetricsTab },
  { tab: 'environment', label: 'Environment', shows: EnvironmentTab },
  { tab: 'domains', label: 'Domains', shows: DomainsTab },
  { tab: 'settings', label: 'Settings', shows: SettingsTab },
  { tab: 'events', label: 'Events', shows: EventsTab },
  { tab: 'terminal', label: 'Terminal', shows: TerminalTab, isWide: true },
];

/** An application: what is wanted of it, what is, and what keeps the two apart. */
export function ApplicationPage({ params, query }: PageProps): VNode {
  const id = params['id'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  const { reading } = useList(allApplications, 'application');
  const it = store.get('application', id);
  const [seen, setSeen] = useState<{ name: string; goneAt?: string }>();
  const error = useOne(id, it === undefined && reading.state !== 'reading');
  useEffect(() => {
    if (it !== undefined) setSeen({ name: it.name });
    else if (seen !== undefined) setSeen({ ...seen, goneAt: new Date().toISOString() });
  }, [it === undefined]);
  if (it !== undefined) return <Found it={it} tab={params['tab'] ?? ''} query={query} />;
  return (
    <Page title={seen?.name ?? 'Application'}>
      {error !== undefined && error !== 'missing' && <ErrorBox error={{ message: error }} />}
      {error === undefined && seen === undefined && <Skeleton label="Reading the application" />}
      {(error === 'missing' || seen !== undefined) && (
        <Gone
          what={seen === undefined ? 'The application' : `Application ${seen.name}`}
          at={seen?.goneAt}
          back={{ href: href(['projects']), label: 'All projects' }}
        />
      )}
    </Page>
  );
}

/** Reads an application that the list does not have. Returns why it cannot be shown. */
function useOne(id: string, isNeeded: boolean): string | undefined {
  const { login, store } = useConsole();
  const [error, setError] = useState<string>();
  useEffect(() => {
    if (!isNeeded) return;
    setError(undefined);
    store
      .answer('application', () => call(login, 'GET', '/api/v1/applications/{id}', { path: { id } }))
      .then(
        () => undefined,
        (failure: unknown) =>
          setError(failure instanceof Refused && failure.status === 404 ? 'missing' : messageOf(failure)),
      );
  }, [id, isNeeded]);
  return error;
}

interface FoundProps {
  readonly it: Application;
  readonly tab: string;
  readonly query: URLSearchParams;
}

function Found({ it, tab, query }: FoundProps): VNode {
  const { store, router } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  useList(deploymentsOf(it.id), 'deployment');
  const project = store.get('project', it.project_id);
  const environment = store.get('environment', it.environment_id);
  const shown = tabs.find((one) => one.tab === tab) ?? tabs[0];
  const to = (name: string): string => href(parts(it, ...(name === '' ? [] : [name])));
  usePageKeys({
    l: () => router.go(to('logs')),
    t: () => router.go(to('terminal')),
    e: () => router.go(to('environment')),
  });
  const Shows = shown?.shows ?? Overview;
  return (
    <Page
      title={it.name}
      isWide={shown?.isWide}
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        ...(project === undefined
          ? []
          : [{ label: project.display_name ?? project.name, href: href(['projects', project.id]) }]),
        ...(environment === undefined
          ? []
          : [{ label: environment.name, href: href(['projects', it.project_id, environment.name]) }]),
      ]}
      status={<Status kind="application" object={it} />}
      actions={<ApplicationActions it={it} />}
      tabs={tabs.map((one) => ({ href: to(one.tab), label: one.label }))}
      current={to(shown?.tab ?? '')}
    >
      <Shows key={it.id} it={it} query={query} />
    </Page>
  );
}
