import type { ComponentType, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { templateInstanceVerbs } from '#rules/template-instance.ts';
import { whyNot } from '#rules/verb-table.ts';
import { allProjects, allServers, allTemplateInstances, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { Actions } from '../../parts/actions.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import type { PageProps } from '../page.ts';
import { ChangeTab } from './change-tab.tsx';
import { DeleteInstance } from './delete-instance.tsx';
import { DriftTab } from './drift-tab.tsx';
import { Overview } from './overview.tsx';
import { RevisionsTab } from './revisions-tab.tsx';
import type { TabProps, TemplateInstance } from './tab-props.ts';

interface TabRow {
  readonly tab: string;
  readonly label: string;
  readonly shows: ComponentType<TabProps>;
  readonly count?: (it: TemplateInstance) => number | undefined;
}

const tabs: readonly TabRow[] = [
  { tab: '', label: 'Overview', shows: Overview },
  { tab: 'change', label: 'Change it', shows: ChangeTab },
  { tab: 'drift', label: 'Changed by hand', shows: DriftTab, count: ({ drifted }) => drifted.length || undefined },
  { tab: 'revisions', label: 'Revisions', shows: RevisionsTab, count: ({ revisions }) => revisions.length + 1 },
];

/** What was made of a template: its waves, and the state of each child. */
export function TemplateInstancePage({ params }: PageProps): VNode {
  const { store } = useConsole();
  const href = useHref();
  const { reading } = useList(allTemplateInstances, 'template_instance');
  const it = store.get('template_instance', params['id'] ?? '');
  const [seen, setSeen] = useState<{ name: string; goneAt?: string }>();
  useEffect(() => {
    if (it !== undefined) setSeen({ name: it.name });
    else if (seen !== undefined) setSeen({ ...seen, goneAt: new Date().toISOString() });
  }, [it === undefined]);
  if (it !== undefined) return <Found it={it} tab={params['tab'] ?? ''} />;
  const isGone = seen !== undefined || reading.state === 'ready';
  return (
    <Page title={seen?.name ?? 'Instance of a template'}>
      {reading.state === 'failed' && <ErrorBox error={{ message: reading.message }} />}
      {reading.state === 'reading' && !isGone && <Skeleton label="Reading the instance" />}
      {isGone && (
        <Gone
          what={seen === undefined ? 'The instance' : `Instance ${seen.name}`}
          at={seen?.goneAt}
          back={{ href: href(['instances']), label: 'All instances' }}
        />
      )}
    </Page>
  );
}

interface FoundProps extends TabProps {
  readonly tab: string;
}

function Found({ it, tab }: FoundProps): VNode {
  const { router } = useConsole();
  const href = useHref();
  const rank = useRank(it.project_id);
  const [asks, setAsks] = useState(false);
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  const shown = tabs.find((one) => one.tab === tab) ?? tabs[0];
  const to = (name: string): string => href(['instances', it.id, ...(name === '' ? [] : [name])]);
  const why = (verb: keyof typeof templateInstanceVerbs.verbs): string | undefined =>
    whyNot(templateInstanceVerbs, verb, it) ?? whyBelow(rank, 'admin');
  const Shows = shown?.shows ?? Overview;
  return (
    <Page
      title={it.name}
      crumbs={[
        { label: 'Templates', href: href(['templates']) },
        { label: 'Instances', href: href(['instances']) },
      ]}
      status={<Status kind="template_instance" object={it} />}
      tabs={tabs.map(({ tab: name, label, count }) => ({
        href: to(name),
        label,
        count: count?.(it),
      }))}
      current={to(shown?.tab ?? '')}
      actions={
        <Actions
          label={`Actions of ${it.name}`}
          hasPrimary={false}
          actions={[
            {
              label: templateInstanceVerbs.verbs.upgrade.label,
              why: why('upgrade'),
              onSelect: () => router.go(to('change')),
            },
            { label: 'Delete', why: why('delete'), isDanger: true, onSelect: () => setAsks(true) },
          ]}
        />
      }
    >
      <Shows key={it.id} it={it} />
      {asks && <DeleteInstance it={it} onClose={() => setAsks(false)} />}
    </Page>
  );
}
