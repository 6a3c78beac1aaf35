import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { templateInstanceVerbs } from '#rules/template-instance.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allProjects, allServers, allTemplateInstances, environmentsOf } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useAct } from '../../frame/use-act.ts';
import { useRank } from '../../frame/use-rank.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import type { ObjectOf } from '../../model.ts';
import { Actions } from '../../parts/actions.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Confirm } from '../../parts/confirm.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Checkbox } from '../../parts/inputs.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status, StatusWord } from '../../parts/status.tsx';
import { lookOfStatus } from '../../parts/status-words.ts';
import { Steps } from '../../parts/steps.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import type { PageProps } from '../page.ts';
import { waveSteps, wavesOf } from './wave-steps.ts';
import type { Child } from './wave-steps.ts';

type TemplateInstance = ObjectOf<'template_instance'>;

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
  if (it !== undefined) return <Found it={it} />;
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

function Found({ it }: { readonly it: TemplateInstance }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const rank = useRank(it.project_id);
  const [asks, setAsks] = useState(false);
  useList(allProjects, 'project');
  useList(allServers, 'server');
  useList(environmentsOf(it.project_id), 'environment');
  const project = store.get('project', it.project_id);
  const environment = store.get('environment', it.environment_id);
  const server = store.get('server', it.server_id);
  const cause = waitsFor(it);
  const isBroken = it.status === 'failed' || it.status === 'degraded';
  return (
    <Page
      title={it.name}
      crumbs={[
        { label: 'Templates', href: href(['templates']) },
        { label: 'Instances', href: href(['instances']) },
      ]}
      status={<Status kind="template_instance" object={it} />}
      actions={
        <Actions
          label={`Actions of ${it.name}`}
          hasPrimary={false}
          actions={[
            {
              label: 'Delete',
              why: whyNot(templateInstanceVerbs, 'delete', it) ?? whyBelow(rank, 'admin'),
              isDanger: true,
              onSelect: () => setAsks(true),
            },
          ]}
        />
      }
    >
      {cause !== '' && (
        <Notice shape={isBroken ? 'bad' : 'busy'}>
          <p>{cause}</p>
          {isBroken && <p class="small">Mend that part as any other: what waits for it follows by itself.</p>}
        </Notice>
      )}
      <Card title="Waves">
        <Steps label="Waves" steps={waveSteps(it.children)} />
        <Children it={it} />
      </Card>
      <div class="columns">
        <Card title="At a glance">
          <Facts
            of={[
              [
                'Template',
                <a key="template" href={href(['templates', it.template_id])}>
                  {it.template_name}
                </a>,
              ],
              [
                'Project',
                project === undefined ? undefined : (
                  <a href={href(['projects', project.id])}>{project.display_name ?? project.name}</a>
                ),
              ],
              [
                'Environment',
                environment === undefined ? undefined : (
                  <a href={href(['projects', it.project_id, environment.name])}>{environment.name}</a>
                ),
              ],
              ['Server', server === undefined ? undefined : <a href={href(['servers', server.id])}>{server.name}</a>],
              ['Up', `${it.ready_children} of ${it.children.length}`],
              [
                'Variables',
                it.variables.length === 0
                  ? 'none'
                  : it.variables.map(({ name, generated }) => (generated ? `${name} (made)` : name)).join(', '),
              ],
              ['Made', <Time key="made" at={it.created_at} />],
            ]}
          />
        </Card>
        <Card title="Conditions">
          <Conditions of={it.conditions} />
        </Card>
      </div>
      {asks && <DeleteInstance it={it} onClose={() => setAsks(false)} />}
    </Page>
  );
}

function Children({ it }: { readonly it: TemplateInstance }): VNode {
  const waves = wavesOf(it.children).map(([wave]) => wave);
  return (
    <Table
      label="What it made"
      rows={it.children}
      keyOf={({ id }) => id}
      empty={<p class="quiet">It makes nothing.</p>}
      columns={[
        {
          id: 'name',
          title: 'Name',
          isPrimary: true,
          cell: (one) => <ChildLink it={one} />,
          sortBy: ({ name }) => name,
        },
        { id: 'kind', title: 'Kind', cell: ({ kind }) => kind, sortBy: ({ kind }) => kind },
        { id: 'wave', title: 'Wave', isNumber: true, cell: ({ wave }) => waves.indexOf(wave) + 1 },
        {
          id: 'state',
          title: 'State',
          isBare: true,
          cell: ({ state }) => <StatusWord look={lookOfStatus('template_child', state)} />,
        },
        { id: 'message', title: 'Why', cell: ({ message }) => message },
      ]}
    />
  );
}

function ChildLink({ it }: { readonly it: Child }): VNode {
  const href = useHref();
  const { kind, id, name, state } = it;
  if (state === 'waiting' || state === 'gone') return <span class="strong">{name}</span>;
  const to =
    kind === 'application'
      ? href(['applications', id])
      : kind === 'database'
        ? href(['databases', id])
        : href(['volumes'], { q: name });
  return (
    <a class="strong" href={to}>
      {name}
    </a>
  );
}

/** Asks before an instance goes: with its data, or leaving volumes and databases behind. */
function DeleteInstance({ it, onClose }: { readonly it: TemplateInstance; readonly onClose: () => void }): VNode {
  const { login, store } = useConsole();
  const act = useAct();
  const [keepsData, setKeepsData] = useState(true);
  const made = it.children.filter(({ state }) => state !== 'waiting' && state !== 'gone');
  const withData = made.filter(({ kind }) => kind !== 'application');
  const textOf = ({ kind, name }: Child): string =>
    kind === 'application'
      ? `Application ${name}`
      : `${kind === 'database' ? 'Database' : 'Volume'} ${name} with its data`;
  const goes = made.filter(({ kind }) => kind === 'application' || !keepsData);
  const remove = async (): Promise<void> => {
    const isDone = await act.run(() =>
      store.answer('template_instance', () =>
        call(login, 'DELETE', '/api/v1/template-instances/{id}', {
          path: { id: it.id },
          query: { keep_data: keepsData ? 'true' : 'false' },
        }),
      ),
    );
    if (isDone) onClose();
  };
  return (
    <Confirm
      title={`Delete instance ${it.name}`}
      verb={`Delete ${it.name}`}
      goes={[`The instance ${it.name}`, ...goes.map(textOf)]}
      stays={[
        ...(keepsData ? withData.map(textOf) : ['Backups in their destinations, as long as they are kept']),
        `The template ${it.template_name}`,
      ]}
      type={!keepsData && withData.length > 0 ? it.name : undefined}
      command={`setpoint delete instance ${shellQuoted(it.name)}${keepsData ? ' --keep-data' : ''}`}
      busy={act.busy}
      error={act.error}
      onConfirm={() => void remove()}
      onClose={onClose}
    >
      {withData.length > 0 && (
        <Checkbox checked={keepsData} onChange={setKeepsData}>
          Keep volumes and databases: they then belong to nobody
        </Checkbox>
      )}
    </Confirm>
  );
}
