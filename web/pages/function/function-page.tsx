import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { call, messageOf, Refused } from '../../api.ts';
import { allProjects, allServers, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { useFunctionParts } from '../../frame/object-links.ts';
import { placeOf } from '../../frame/router.ts';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import type { PageProps } from '../page.ts';
import { CodeTab } from './code-tab.tsx';
import { ExecutionsTab } from './executions-tab.tsx';
import { FunctionActions } from './function-actions.tsx';
import { LogsTab } from './logs-tab.tsx';
import { Overview } from './overview.tsx';
import { runtimes } from './runtimes.ts';
import { SettingsTab } from './settings-tab.tsx';
import type { Fn, TabProps } from './tab-props.ts';
import { TryTab } from './try-tab.tsx';
import { VariablesTab } from './variables-tab.tsx';

interface TabRow {
  readonly tab: string;
  readonly label: string;
  readonly shows: ComponentType<TabProps>;
  readonly isWide?: boolean;
}

const tabs: readonly TabRow[] = [
  { tab: '', label: 'Overview', shows: Overview },
  { tab: 'code', label: 'Code', shows: CodeTab },
  { tab: 'try', label: 'Try it', shows: TryTab },
  { tab: 'executions', label: 'Executions', shows: ExecutionsTab },
  { tab: 'logs', label: 'Logs', shows: LogsTab, isWide: true },
  { tab: 'variables', label: 'Variables', shows: VariablesTab },
  { tab: 'settings', label: 'Settings', shows: SettingsTab },
];

/** A function: how it is, what it is made of, and what became of its calls. */
export function FunctionPage({ params, query }: PageProps): VNode {
  const id = params['id'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  const it = store.get('function', id);
  useWholeAddress(it, params);
  const [seen, setSeen] = useState<{ name: string; goneAt?: string }>();
  const error = useOne(id, it === undefined);
  useEffect(() => {
    if (it !== undefined) setSeen({ name: it.name });
    else if (seen !== undefined) setSeen({ ...seen, goneAt: new Date().toISOString() });
  }, [it === undefined]);
  if (it !== undefined) return <Found it={it} tab={params['tab'] ?? ''} query={query} />;
  return (
    <Page title={seen?.name ?? 'Function'}>
      {error !== undefined && error !== 'missing' && <ErrorBox error={{ message: error }} />}
      {error === undefined && seen === undefined && <Skeleton label="Reading the function" />}
      {(error === 'missing' || seen !== undefined) && (
        <Gone
          what={seen === undefined ? 'The function' : `Function ${seen.name}`}
          at={seen?.goneAt}
          back={{ href: href(['functions']), label: 'All functions' }}
        />
      )}
    </Page>
  );
}

/** Puts the address with project and environment in the place of one that has the function alone. */
function useWholeAddress(it: Fn | undefined, params: PageProps['params']): void {
  const { router, login, store } = useConsole();
  const href = useHref();
  const parts = useFunctionParts();
  const isKnown = it !== undefined && store.get('environment', it.environment_id) !== undefined;
  useEffect(() => {
    if (it === undefined || !isKnown || params['projectId'] !== undefined) return;
    const { query } = placeOf(router.hash.peek(), login.tenant);
    const tab = params['tab'];
    router.replace(href(parts(it, ...(tab === undefined ? [] : [tab])), Object.fromEntries(query)));
  }, [isKnown, params['projectId']]);
}

/** Reads a function that is not known yet. Returns why it cannot be shown. */
function useOne(id: string, isNeeded: boolean): string | undefined {
  const { login, store } = useConsole();
  const [error, setError] = useState<string>();
  useEffect(() => {
    if (!isNeeded) return;
    setError(undefined);
    store
      .answer('function', () => call(login, 'GET', '/api/v1/functions/{id}', { path: { id } }))
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
  const parts = useFunctionParts();
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  const project = store.get('project', it.project_id);
  const environment = store.get('environment', it.environment_id);
  const shown = tabs.find((one) => one.tab === tab) ?? tabs[0];
  const to = (name: string): string => href(parts(it, ...(name === '' ? [] : [name])));
  usePageKeys({
    l: () => router.go(to('logs')),
    e: () => router.go(to('code')),
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
      status={<Status kind="function" object={it} />}
      about={`A function of ${runtimes[it.runtime].label}`}
      actions={<FunctionActions it={it} />}
      tabs={tabs.map((one) => ({ href: to(one.tab), label: one.label }))}
      current={to(shown?.tab ?? '')}
    >
      <Shows key={it.id} it={it} query={query} />
    </Page>
  );
}
