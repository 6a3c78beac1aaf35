import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call, messageOf, Refused } from '../../api.ts';
import { allProjects, allServers, databasesOf, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { useDatabaseParts } from '../../frame/object-links.ts';
import { placeOf } from '../../frame/router.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import type { PageProps } from '../page.ts';
import { BackupsTab } from './backups-tab.tsx';
import { DatabaseActions } from './database-actions.tsx';
import { EventsTab } from './events-tab.tsx';
import { LogsTab } from './logs-tab.tsx';
import { MetricsTab } from './metrics-tab.tsx';
import { Overview } from './overview.tsx';
import { RestoreTab } from './restore-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';
import type { Database, TabProps } from './tab-props.ts';
import { TerminalTab } from './terminal-tab.tsx';

interface TabRow {
  readonly tab: string;
  readonly label: string;
  readonly shows: ComponentType<TabProps>;
  readonly isWide?: boolean;
}

const tabs: readonly TabRow[] = [
  { tab: '', label: 'Overview', shows: Overview },
  { tab: 'backups', label: 'Backups', shows: BackupsTab },
  { tab: 'restore', label: 'Restore', shows: RestoreTab },
  { tab: 'logs', label: 'Logs', shows: LogsTab, isWide: true },
  { tab: 'metrics', label: 'Metrics', shows: MetricsTab },
  { tab: 'settings', label: 'Settings', shows: SettingsTab },
  { tab: 'events', label: 'Events', shows: EventsTab },
  { tab: 'terminal', label: 'Terminal', shows: TerminalTab, isWide: true },
];

/** A database: how it is, how one connects to it, and how its data is kept. */
export function DatabasePage({ params, query }: PageProps): VNode {
  const id = params['id'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  const it = store.get('database', id);
  useWholeAddress(it, params);
  const [seen, setSeen] = useState<{ name: string; goneAt?: string }>();
  const error = useOne(id, it === undefined);
  useEffect(() => {
    if (it !== undefined) setSeen({ name: it.name });
    else if (seen !== undefined) setSeen({ ...seen, goneAt: new Date().toISOString() });
  }, [it === undefined]);
  if (it !== undefined) return <Found it={it} tab={params['tab'] ?? ''} query={query} />;
  return (
    <Page title={seen?.name ?? 'Database'}>
      {error !== undefined && error !== 'missing' && <ErrorBox error={{ message: error }} />}
      {error === undefined && seen === undefined && <Skeleton label="Reading the database" />}
      {(error === 'missing' || seen !== undefined) && (
        <Gone
          what={seen === undefined ? 'The database' : `Database ${seen.name}`}
          at={seen?.goneAt}
          back={{ href: href(['databases']), label: 'All databases' }}
        />
      )}
    </Page>
  );
}

/** Puts the address with project and environment in the place of one that has the database alone. */
function useWholeAddress(it: Database | undefined, params: PageProps['params']): void {
  const { router, login, store } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  const isKnown = it !== undefined && store.get('environment', it.environment_id) !== undefined;
  useEffect(() => {
    if (it === undefined || !isKnown || params['projectId'] !== undefined) return;
    const { query } = placeOf(router.hash.peek(), login.tenant);
    const tab = params['tab'];
    router.replace(href(parts(it, ...(tab === undefined ? [] : [tab])), Object.fromEntries(query)));
  }, [isKnown, params['projectId']]);
}

/** Reads a database that is not known yet. Returns why it cannot be shown. */
function useOne(id: string, isNeeded: boolean): string | undefined {
  const { login, store } = useConsole();
  const [error, setError] = useState<string>();
  useEffect(() => {
    if (!isNeeded) return;
    setError(undefined);
    store
      .answer('database', () => call(login, 'GET', '/api/v1/databases/{id}', { path: { id } }))
      .then(
        () => undefined,
        (failure: unknown) =>
          setError(failure instanceof Refused && failure.status === 404 ? 'missing' : messageOf(failure)),
      );
  }, [id, isNeeded]);
  return error;
}

interface FoundProps extends TabProps {
  readonly tab: string;
}

function Found({ it, tab, query }: FoundProps): VNode {
  const { store, router } = useConsole();
  const href = useHref();
  const parts = useDatabaseParts();
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  useList(databasesOf(it.project_id), 'database');
  const project = store.get('project', it.project_id);
  const environment = store.get('environment', it.environment_id);
  const shown = tabs.find((one) => one.tab === tab) ?? tabs[0];
  const to = (name: string): string => href(parts(it, ...(name === '' ? [] : [name])));
  usePageKeys({
    l: () => router.go(to('logs')),
    t: () => router.go(to('terminal')),
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
      status={<Status kind="database" object={it} />}
      about={it.display_name ?? undefined}
      actions={<DatabaseActions it={it} />}
      tabs={tabs.map((one) => ({ href: to(one.tab), label: one.label }))}
      current={to(shown?.tab ?? '')}
    >
      <Shows key={it.id} it={it} query={query} />
    </Page>
  );
}
