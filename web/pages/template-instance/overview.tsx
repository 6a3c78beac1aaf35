import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Notice } from '../../parts/notice.tsx';
import { StatusWord } from '../../parts/status.tsx';
import { lookOfStatus } from '../../parts/status-words.ts';
import { Steps } from '../../parts/steps.tsx';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { countText } from '../template/counts.ts';
import { ChildLink } from './child-link.tsx';
import type { TabProps, TemplateInstance } from './tab-props.ts';
import { waveSteps, wavesOf } from './wave-steps.ts';

/** What an instance is now: the cause first where a part does not come up, then its waves and its parts. */
export function Overview({ it }: TabProps): VNode {
  const { store } = useConsole();
  const href = useHref();
  const project = store.get('project', it.project_id);
  const environment = store.get('environment', it.environment_id);
  const server = store.get('server', it.server_id);
  const cause = waitsFor(it);
  const isBroken = it.status === 'failed' || it.status === 'degraded';
  return (
    <>
      {cause !== '' && (
        <Notice shape={isBroken ? 'bad' : 'busy'}>
          <p>{cause}</p>
          {isBroken && <p class="small">Mend that part as any other: what waits for it follows by itself.</p>}
        </Notice>
      )}
      {it.drifted.length > 0 && (
        <Notice
          shape="warn"
          actions={<LinkButton href={href(['instances', it.id, 'drift'])}>What was changed</LinkButton>}
        >
          <p>
            {countText(it.drifted.length, 'field')} of its parts {it.drifted.length === 1 ? 'has' : 'have'} another
            value than its text declares.
          </p>
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
              ['Version of its text', it.template_version ?? undefined],
              ['Revision', String(it.revision)],
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
    </>
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
