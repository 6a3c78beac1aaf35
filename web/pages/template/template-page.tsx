import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { templateVerbs } from '#rules/template.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allProjects, allTemplateInstances, allTemplates } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { useAct } from '../../frame/use-act.ts';
import type { ObjectOf } from '../../model.ts';
import { byName } from '../../model.ts';
import { Actions } from '../../parts/actions.tsx';
import { LinkButton } from '../../parts/button.tsx';
import { Badge, Card, Facts } from '../../parts/card.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { saveAs } from '../../parts/save-as.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Time } from '../../parts/time.tsx';
import type { PageProps } from '../page.ts';
import { InstancesTable } from '../templates/instances-table.tsx';
import { InstantiateForm } from './instantiate-form.tsx';
import { makesText, ReportView, Variables, Waves } from './template-report.tsx';
import type { Report } from './template-report.tsx';
import { TemplateText } from './template-text.tsx';
import { useTextOf } from './use-text-of.ts';
import type { TextOf } from './use-text-of.ts';

type Template = ObjectOf<'template'>;

const tabs = [
  { tab: '', label: 'Overview' },
  { tab: 'use', label: 'Use it' },
  { tab: 'text', label: 'Text' },
  { tab: 'instances', label: 'Instances' },
] as const;

/** One template: what it makes, of which variables, and what was made of it. */
export function TemplatePage({ params, query }: PageProps): VNode {
  const id = params['id'] ?? '';
  const { store } = useConsole();
  const href = useHref();
  const { reading } = useList(allTemplates, 'template');
  const it = store.get('template', id);
  const crumbs = [{ label: 'Templates', href: href(['templates']) }];
  if (it !== undefined) return <Found it={it} tab={params['tab'] ?? ''} query={query} />;
  return (
    <Page title="Template" crumbs={crumbs}>
      {reading.state === 'failed' && <ErrorBox error={{ message: reading.message }} />}
      {reading.state === 'reading' && <Skeleton label="Reading the template" />}
      {reading.state === 'ready' && (
        <Gone what="The template" back={{ href: href(['templates']), label: 'All templates' }} />
      )}
    </Page>
  );
}

interface FoundProps {
  readonly it: Template;
  readonly tab: string;
  readonly query: URLSearchParams;
}

function Found({ it, tab, query }: FoundProps): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const [asks, setAsks] = useState(false);
  const text = useTextOf(it);
  const title = it.display_name ?? it.name;
  const save = async (): Promise<void> => {
    const file = await call(login, 'GET', '/api/v1/templates/{id}/export', { path: { id: it.id } });
    saveAs(`${it.name}.template.json`, JSON.stringify(file, undefined, 2), 'application/json');
  };
  const to = (name: string): string => href(['templates', it.id, ...(name === '' ? [] : [name])]);
  return (
    <Page
      title={title}
      crumbs={[{ label: 'Templates', href: href(['templates']) }]}
      tabs={tabs.map((one) => ({
        href: to(one.tab),
        label: one.label,
        ...(one.tab === 'instances' && { count: it.instance_count }),
      }))}
      current={to(tabs.find((one) => one.tab === tab)?.tab ?? '')}
      actions={
        <Actions
          label={`Actions of ${title}`}
          actions={[
            {
              label: 'Use it',
              why: whyNot(templateVerbs, 'instantiate', it),
              onSelect: () => router.go(to('use')),
            },
            { label: 'Export', busy: act.busy, onSelect: () => void act.run(save) },
            {
              label: 'Delete',
              why: whyNot(templateVerbs, 'delete', it),
              isDanger: true,
              onSelect: () => setAsks(true),
            },
          ]}
        />
      }
    >
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {text.error !== undefined && <ErrorBox error={text.error} onRetry={text.again} />}
      {text.data === undefined ? (
        text.error === undefined && <Skeleton label="Reading the template" />
      ) : (
        <Tab it={it} tab={tab} query={query} text={text.data} />
      )}
      {asks && <DeleteTemplate it={it} onClose={() => setAsks(false)} />}
    </Page>
  );
}

interface TabProps extends FoundProps {
  readonly text: TextOf;
}

function Tab({ it, tab, query, text }: TabProps): VNode {
  const { report } = text;
  switch (tab) {
    case 'use':
      return (
        <InstantiateForm key={it.id} template={it} report={report} projectId={query.get('project') ?? undefined} />
      );
    case 'text':
      return <TemplateText key={it.id} it={it} stored={text} />;
    case 'instances':
      return <Instances it={it} />;
    default:
      return <Overview it={it} report={report} />;
  }
}

function Overview({ it, report }: { readonly it: Template; readonly report: Report }): VNode {
  return (
    <>
      {!report.valid && <ReportView report={report} error={undefined} />}
      <div class="columns">
        <Card title="About">
          {it.description !== null && <p>{it.description}</p>}
          <Facts
            of={[
              ['Name', <code key="name">{it.name}</code>],
              ['Tags', it.tags.length === 0 ? undefined : it.tags.map((tag) => <Badge key={tag}>{tag}</Badge>)],
              ['Instances', String(it.instance_count)],
              ['Made', <Time key="made" at={it.created_at} />],
              ['Changed', <Time key="changed" at={it.updated_at} />],
            ]}
          />
        </Card>
        <Card title="What it makes">
          <p>{makesText(report.resources)}</p>
          <Waves of={report.resources} />
        </Card>
      </div>
      <Card title="Variables">
        <Variables of={report.variables} />
      </Card>
    </>
  );
}

function Instances({ it }: { readonly it: Template }): VNode {
  const href = useHref();
  useList(allProjects, 'project');
  const rows = byName(
    useList(allTemplateInstances, 'template_instance').objects.filter(({ template_id: id }) => id === it.id),
  );
  if (rows.length === 0)
    return (
      <EmptyState
        title="No instance that you see"
        action={<LinkButton href={href(['templates', it.id, 'use'])}>Use it</LinkButton>}
        command={`setpoint instantiate ${shellQuoted(it.name)} --project PROJECT`}
      >
        An instance is what was made of it in an environment.
      </EmptyState>
    );
  return <InstancesTable rows={rows} />;
}

function DeleteTemplate({ it, onClose }: { readonly it: Template; readonly onClose: () => void }): VNode {
  const { login, router } = useConsole();
  const href = useHref();
  const act = useAct();
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() => call(login, 'DELETE', '/api/v1/templates/{id}', { path: { id: it.id } }));
    if (isDone) router.leave(href(['templates']));
  };
  return (
    <Confirm
      title={`Delete template ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[`The template ${it.name} with its text`]}
      stays={
        it.instance_count === 0
          ? []
          : [`Its ${it.instance_count} instances with all that they made: they have what they need of it`]
      }
      command={`setpoint delete template ${shellQuoted(it.name)}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    />
  );
}
