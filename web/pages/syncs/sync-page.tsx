import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { syncVerbs } from '#rules/sync.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allProjects, allServers, allSyncs, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useRead } from '../../frame/use-read.ts';
import { Actions } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import type { PageProps } from '../page.ts';
import { DeleteSync } from './delete-sync.tsx';
import { ForceSync } from './force-sync.tsx';
import { Overview } from './overview.tsx';
import { RunsTab } from './runs-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';
import { followedBy } from './sync-words.ts';
import type { Sync } from './sync-words.ts';
import type { TabProps } from './tab-props.ts';

const tabs: readonly { readonly tab: string; readonly label: string; readonly shows: ComponentType<TabProps> }[] = [
  { tab: '', label: 'Overview', shows: Overview },
  { tab: 'runs', label: 'Runs', shows: RunsTab },
  { tab: 'settings', label: 'Settings', shows: SettingsTab },
];

/** A sync: what its repository declares against what its project has. */
export function SyncPage({ params }: PageProps): VNode {
  const { store, collections } = useConsole();
  const href = useHref();
  const { reading } = useList(allSyncs, 'sync');
  const it = store.get('sync', params['id'] ?? '');
  const [seen, setSeen] = useState<{ name: string; goneAt?: string }>();
  useEffect(() => {
    if (it !== undefined) setSeen({ name: it.name });
    else if (seen !== undefined) setSeen({ ...seen, goneAt: new Date().toISOString() });
  }, [it === undefined]);
  if (it !== undefined) return <Found key={it.id} it={it} tab={params['tab'] ?? ''} />;
  const isGone = seen !== undefined || reading.state === 'ready';
  return (
    <Page title={seen?.name ?? 'Sync'} crumbs={[{ label: 'Syncs', href: href(['syncs']) }]}>
      {reading.state === 'failed' && (
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allSyncs)} />
      )}
      {reading.state === 'reading' && !isGone && <Skeleton label="Reading the sync" />}
      {isGone && (
        <Gone
          what={seen === undefined ? 'The sync' : `Sync ${seen.name}`}
          at={seen?.goneAt}
          back={{ href: href(['syncs']), label: 'All syncs' }}
        />
      )}
    </Page>
  );
}

function Found({ it, tab }: { readonly it: Sync; readonly tab: string }): VNode {
  const { login } = useConsole();
  const href = useHref();
  const rank = useRank(it.project_id);
  const [asks, setAsks] = useState<'force' | 'delete'>();
  const act = useAct();
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  // each frame of the stream is another object
  const runs = useRead(() => call(login, 'GET', '/api/v1/syncs/{id}/runs', { path: { id: it.id } }), [it]);
  const below = whyBelow(rank, 'admin');
  const to = (name: string): string => href(['syncs', it.id, ...(name === '' ? [] : [name])]);
  const shown = tabs.find((one) => one.tab === tab) ?? tabs[0];
  const Shows = shown?.shows ?? Overview;
  return (
    <Page
      title={it.name}
      crumbs={[{ label: 'Syncs', href: href(['syncs']) }]}
      status={<Status kind="sync" object={it} />}
      tabs={tabs.map(({ tab: name, label }) => ({ href: to(name), label }))}
      current={to(shown?.tab ?? '')}
      // who may do nothing with it is told so once, in place of a row of verbs
      actions={rank === undefined || below !== undefined ? undefined : <Verbs it={it} act={act} onAsk={setAsks} />}
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {below !== undefined && (
        <Notice shape="info">
          <p>{below}</p>
        </Notice>
      )}
      <Shows it={it} runs={runs} below={below} />
      {asks === 'force' && runs.data !== undefined && (
        <ForceSync it={it} runs={runs.data} onClose={() => setAsks(undefined)} />
      )}
      {asks === 'delete' && <DeleteSync it={it} onClose={() => setAsks(undefined)} />}
    </Page>
  );
}

interface VerbsProps {
  readonly it: Sync;
  readonly act: ReturnType<typeof useAct>;
  readonly onAsk: (what: 'force' | 'delete') => void;
}

function Verbs({ it, act, onAsk }: VerbsProps): VNode {
  const { login, store, messages } = useConsole();
  const path = { id: it.id };
  const why = (verb: keyof typeof syncVerbs.verbs): string | undefined => whyNot(syncVerbs, verb, it);
  const change = async (body: { is_paused?: boolean; take_over?: boolean; pinned_commit?: null }): Promise<boolean> =>
    act.run(() => store.answer('sync', () => call(login, 'PUT', '/api/v1/syncs/{id}', { path, body })));
  const takeOver = async (): Promise<void> => {
    const isDone = await change({ take_over: true });
    if (isDone) messages.say(`${it.name} has your rights in the project now`);
  };
  const release = async (): Promise<void> => {
    const isDone = await change({ pinned_commit: null });
    if (isDone) messages.say(`${it.name} follows ${followedBy(it)} again`);
  };
  const run = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('sync', () => call(login, 'POST', '/api/v1/syncs/{id}/sync', { path, body: {} })),
    );
    if (isDone) messages.say(`${it.name} looks at ${followedBy(it)} now`);
  };
  const force = {
    label: 'Force…',
    why: why('run') ?? (it.needs_force.length === 0 ? 'No step has to be forced' : undefined),
    onSelect: () => onAsk('force'),
  };
  const now = { label: syncVerbs.verbs.run.label, why: why('run'), busy: act.busy, onSelect: () => void run() };
  return (
    <Actions
      label={`Actions of ${it.name}`}
      actions={[
        ...(it.needs_force.length > 0 ? [force, now] : [now]),
        {
          label: it.is_paused ? 'Resume' : 'Pause',
          why: why('update'),
          busy: act.busy,
          onSelect: () => void change({ is_paused: !it.is_paused }),
        },
        ...(it.pinned_commit === null
          ? []
          : [{ label: 'Release', why: why('update'), busy: act.busy, onSelect: () => void release() }]),
        ...(it.needs_force.length > 0 ? [] : [force]),
        {
          label: 'Give it my rights',
          why: why('update'),
          onSelect: () => void takeOver(),
        },
        { label: 'Delete', why: why('delete'), isDanger: true, onSelect: () => onAsk('delete') },
      ]}
    />
  );
}
