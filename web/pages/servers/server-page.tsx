import type { VNode } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { serverVerbs } from '#rules/server.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allServers } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import { usePageKeys } from '../../frame/keys.ts';
import type { PageProps } from '../page.ts';
import type { Server } from '../../model.ts';
import { Actions } from '../../parts/actions.tsx';
import type { Action } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Adoption } from './adoption.tsx';
import { Checks } from './checks.tsx';
import { DeleteServer } from './delete-server.tsx';
import { Overview } from './overview.tsx';
import { ServerLogs } from './server-logs.tsx';
import { ServerMetrics } from './server-metrics.tsx';
import { ServerPorts } from './server-ports.tsx';
import { ServerSettings } from './server-settings.tsx';
import { ServerTerminal } from './server-terminal.tsx';
import { UpdateAgent } from './update-agent.tsx';
import { whyNotAdmin, wholeOf, whyWithoutAgent } from './whole-server.ts';
import { Workloads } from './workloads.tsx';

const crumb = 'Servers';
const tabs = [
  { id: 'overview', label: 'Overview', isForAll: true },
  { id: 'checks', label: 'Checks', isForAll: false },
  { id: 'workloads', label: 'Workloads', isForAll: true },
  { id: 'metrics', label: 'Metrics', isForAll: true },
  { id: 'logs', label: 'Logs', isForAll: false },
  { id: 'terminal', label: 'Terminal', isForAll: false },
  { id: 'ports', label: 'Ports', isForAll: false },
  { id: 'adoption', label: 'Move in', isForAll: false },
  { id: 'settings', label: 'Settings', isForAll: false },
] as const;

/** One server: what it is, how it is, and what can be done about it. */
export function ServerPage({ params }: PageProps): VNode {
  const { store, collections } = useConsole();
  const href = useHref();
  const { reading } = useList(allServers, 'server');
  const id = params['id'] ?? '';
  const server = store.get('server', id);
  const last = useRef<{ server: Server; goneAt?: string } | undefined>(undefined);
  if (server !== undefined) last.current = { server };
  const crumbs = [{ label: crumb, href: href(['servers']) }];
  if (server !== undefined) return <Shown server={server} tab={params['tab'] ?? 'overview'} />;
  if (reading.state === 'reading')
    return (
      <Page title="Server" crumbs={crumbs}>
        <Skeleton label="Reading the server" />
      </Page>
    );
  if (reading.state === 'failed')
    return (
      <Page title="Server" crumbs={crumbs}>
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allServers)} />
      </Page>
    );
  if (last.current !== undefined) last.current.goneAt ??= new Date().toISOString();
  const name = last.current?.server.name;
  return (
    <Page title={name ?? 'Server'} crumbs={crumbs}>
      <Gone
        what={name === undefined ? 'This server' : `Server ${name}`}
        at={last.current?.goneAt}
        back={{ href: href(['servers']), label: 'All servers' }}
      />
    </Page>
  );
}

function Shown({ server, tab }: { readonly server: Server; readonly tab: string }): VNode {
  const { me, router } = useConsole();
  const href = useHref();
  const [dialog, setDialog] = useState<'delete' | 'update'>();
  const verbs = useServerVerbs(server, setDialog);
  const isAdmin = whyNotAdmin(me.value?.role) === undefined && wholeOf(server) !== undefined;
  const shownTabs = tabs.filter(({ isForAll }) => isForAll || isAdmin);
  const current = shownTabs.find(({ id }) => id === tab) ?? tabs[0];
  const at = (id: string): string => href(id === 'overview' ? ['servers', server.id] : ['servers', server.id, id]);
  usePageKeys({
    l: () => router.go(at('logs')),
    t: () => router.go(at('terminal')),
    c: () => router.go(at('checks')),
  });
  return (
    <Page
      title={server.name}
      crumbs={[{ label: crumb, href: href(['servers']) }]}
      status={
        <span class="row">
          <Status kind="server" object={server} />
          <span class="quiet">agent</span>
          <Status kind="agent" object={{ status: server.agent_status }} />
        </span>
      }
      actions={
        isAdmin ? <Actions label={`Actions of ${server.name}`} actions={verbs.actions} hasPrimary={false} /> : undefined
      }
      tabs={shownTabs.map(({ id, label }) => ({ href: at(id), label }))}
      current={at(current.id)}
      isWide={current.id === 'logs' || current.id === 'terminal'}
    >
      {verbs.error !== undefined && <ErrorBox error={verbs.error} />}
      <TabContent id={current.id} server={server} />
      {dialog === 'delete' && <DeleteServer server={server} onClose={() => setDialog(undefined)} />}
      {dialog === 'update' && <UpdateAgent server={server} onClose={() => setDialog(undefined)} />}
    </Page>
  );
}

function TabContent({ id, server }: { readonly id: (typeof tabs)[number]['id']; readonly server: Server }): VNode {
  const whole = wholeOf(server);
  switch (id) {
    case 'overview':
      return <Overview server={server} />;
    case 'workloads':
      return <Workloads server={server} />;
    case 'metrics':
      return <ServerMetrics server={server} />;
    case 'checks':
      return <Checks server={server} />;
    case 'logs':
      return <ServerLogs server={server} />;
    case 'terminal':
      return <ServerTerminal server={server} />;
    case 'adoption':
      return <Adoption server={server} />;
    case 'ports':
      return whole === undefined ? <Overview server={server} /> : <ServerPorts server={whole} />;
    case 'settings':
      return whole === undefined ? <Overview server={server} /> : <ServerSettings server={whole} />;
  }
}

/** What can be done with a server, each with why it cannot be done now. */
function useServerVerbs(
  server: Server,
  open: (dialog: 'delete' | 'update') => void,
): { actions: readonly Action[]; error: ReturnType<typeof useAct>['error'] } {
  const { login, messages, store } = useConsole();
  const act = useAct();
  const path = { id: server.id };
  const away = whyWithoutAgent(server);
  const whole = wholeOf(server);
  const ping = async (): Promise<void> => {
    await act.run(async () => {
      const { latency_ms } = await call(login, 'POST', '/api/v1/servers/{id}/ping', { path });
      messages.say(`${server.name} answered in ${Math.round(latency_ms)} ms`);
    });
  };
  const provision = async (): Promise<void> => {
    await act.run(() => store.answer('server', () => call(login, 'POST', '/api/v1/servers/{id}/provision', { path })));
  };
  const bySsh = whole?.ssh_key_id === null ? 'It has no SSH key: choose one in its settings' : undefined;
  const actions: Action[] = [
    {
      label: 'Ping',
      why: whyNot(serverVerbs, 'ping', server) ?? away,
      busy: act.busy,
      onSelect: () => void ping(),
    },
    {
      label: 'Update the agent',
      why: whyNot(serverVerbs, 'update_agent', server) ?? (server.agent_status === 'unknown' ? away : undefined),
      onSelect: () => open('update'),
    },
    ...(server.agent_status === 'unknown'
      ? [
          {
            label: 'Provision again',
            why: whyNot(serverVerbs, 'provision', server) ?? bySsh,
            onSelect: () => void provision(),
          },
        ]
      : []),
    {
      label: 'Delete',
      why: whyNot(serverVerbs, 'delete', server),
      isDanger: true,
      onSelect: () => open('delete'),
    },
  ];
  return { actions, error: act.error };
}
