import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { deploymentVerbs } from '#rules/deployment.ts';
import { whyNot } from '#rules/verb-table.ts';
import { call } from '../../api.ts';
import { allApplications, allProjects, environmentsOf } from '../../frame/collections.ts';
import { doVerb, whyNotVerb } from '../../frame/application-verbs.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { whyBelow } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { useAct } from '../../frame/use-act.ts';
import { useLog } from '../../frame/use-log.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Application, DeploymentDetail } from '../../model.ts';
import { Actions } from '../../parts/actions.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Duration } from '../../parts/duration.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { FieldDiff } from '../../parts/field-diff.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Id } from '../../parts/id.tsx';
import { LogView } from '../../parts/log-view.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Steps } from '../../parts/steps.tsx';
import { Time } from '../../parts/time.tsx';
import { RollBack } from '../application/roll-back.tsx';
import type { PageProps } from '../page.ts';
import { stepsOf } from './deployment-steps.ts';

/** One deployment: its steps, its log as it is written, and what it changed. */
export function DeploymentPage({ params, query }: PageProps): VNode {
  const id = params['deploymentId'] ?? '';
  const { login, store } = useConsole();
  const href = useHref();
  useList(allApplications, 'application');
  useList(allProjects, 'project');
  const live = store.get('deployment', id);
  const read = useRead(
    () => call(login, 'GET', '/api/v1/deployments/{id}', { path: { id } }),
    [id, live?.status, live?.resource_version],
  );
  // one that is deleted while it is shown is asked for once more
  if (read.error?.isMissing === true)
    return (
      <Page title="Deployment">
        <Gone what="The deployment" back={{ href: href(['projects']), label: 'All projects' }} />
      </Page>
    );
  if (read.data === undefined)
    return (
      <Page title="Deployment">
        {read.error === undefined ? (
          <Skeleton label="Reading the deployment" />
        ) : (
          <ErrorBox error={read.error} onRetry={read.again} />
        )}
      </Page>
    );
  return <Found it={{ ...read.data, ...live }} tab={params['tab'] ?? ''} query={query} />;
}

interface FoundProps {
  readonly it: DeploymentDetail;
  readonly tab: string;
  readonly query: URLSearchParams;
}

function Found({ it, tab, query }: FoundProps): VNode {
  const { store } = useConsole();
  const href = useHref();
  useList(environmentsOf(it.project_id), 'environment');
  const application = store.get('application', it.application_id);
  const environment = application && store.get('environment', application.environment_id);
  const project = store.get('project', it.project_id);
  const name = application?.name ?? 'Application';
  const parts = [
    'projects',
    it.project_id,
    environment?.name ?? application?.environment_id ?? '-',
    'applications',
    it.application_id,
  ];
  const own = [...parts, 'deployments', it.id];
  const serving = { ...it, serving: it.id === application?.current_deployment_id };
  return (
    <Page
      isWide={tab === ''}
      title={`${name} #${it.number}`}
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        { label: project?.display_name ?? project?.name ?? 'Project', href: href(['projects', it.project_id]) },
        ...(environment === undefined
          ? []
          : [{ label: environment.name, href: href(['projects', it.project_id, environment.name]) }]),
        { label: name, href: href([...parts, 'deployments']) },
      ]}
      status={<Status kind="deployment" object={serving} />}
      about={<About it={it} />}
      actions={application !== undefined && <DeploymentActions it={it} application={application} />}
      tabs={[
        { href: href(own), label: 'Log' },
        {
          href: href([...own, 'difference']),
          label: 'Difference',
          ...(it.changes !== null && { count: it.changes.length }),
        },
        { href: href([...own, 'details']), label: 'Details' },
      ]}
      current={href(tab === '' ? own : [...own, tab])}
    >
      <Steps label="Steps of the deployment" steps={stepsOf(it)} />
      {it.error !== null && (
        <Notice shape="bad">
          <p>{it.error.message}</p>
        </Notice>
      )}
      {tab === 'difference' ? (
        <Difference it={it} />
      ) : tab === 'details' ? (
        <Details it={it} />
      ) : (
        <BuildLog it={it} name={name} own={own} query={query} />
      )}
    </Page>
  );
}

/** Why there is a deployment, before its instant. */
const triggers: Readonly<Record<DeploymentDetail['trigger'], string>> = {
  manual: 'Asked for',
  webhook: 'By a push',
  rollback: 'A roll back, asked for',
  template: 'By a template',
  config: 'By a change of its configuration',
};

function About({ it }: { it: DeploymentDetail }): VNode {
  return (
    <>
      {triggers[it.trigger]} <Time at={it.queued_at} />
      {it.commit !== null && (
        <>
          , <code>{it.commit.slice(0, 8)}</code>
          {it.commit_message !== null && ` ${it.commit_message}`}
        </>
      )}
      {it.started_at !== null && (
        <>
          , {it.finished_at === null ? 'running for' : 'took'} <Duration from={it.started_at} to={it.finished_at} />
        </>
      )}
    </>
  );
}

function DeploymentActions({ it, application }: { it: DeploymentDetail; application: Application }): VNode {
  const console = useConsole();
  const { login, store } = console;
  const rank = useRank(it.project_id);
  const act = useAct();
  const [asks, setAsks] = useState(false);
  const isOver = it.finished_at !== null;
  const cancel = {
    label: deploymentVerbs.verbs.cancel.label,
    why: whyNot(deploymentVerbs, 'cancel', it) ?? whyBelow(rank, 'member'),
    busy: act.busy,
    onSelect: () =>
      void act.run(() =>
        store.answer('deployment', () =>
          call(login, 'POST', '/api/v1/deployments/{id}/cancel', { path: { id: it.id } }),
        ),
      ),
  };
  const rollBack = {
    label: 'Roll back to this',
    why:
      whyNotVerb('rollback', application, rank) ??
      (it.id === application.current_deployment_id
        ? 'It serves already'
        : it.status === 'succeeded'
          ? undefined
          : 'Only a deployment that succeeded can be gone back to'),
    onSelect: () => setAsks(true),
  };
  const again = {
    label: 'Deploy again',
    why: whyNotVerb('deploy', application, rank) ?? (isOver ? undefined : 'It is under way'),
    busy: act.busy,
    onSelect: () => void act.run(() => doVerb(console, 'deploy', application)),
  };
  return (
    <>
      <Actions label="Actions of the deployment" actions={isOver ? [rollBack, again] : [cancel, rollBack]} />
      {act.error !== undefined && <ErrorBox error={act.error} />}
      {asks && <RollBack it={application} to={it} onClose={() => setAsks(false)} />}
    </>
  );
}

/** Lines by which builders begin a step. */
const stepLine = /^(?:#\d+ \[|Step \d+\/\d+|STEP \d+|==> )/;

interface BuildLogProps {
  readonly it: DeploymentDetail;
  readonly name: string;
  readonly own: readonly string[];
  readonly query: URLSearchParams;
}

function BuildLog({ it, name, own, query }: BuildLogProps): VNode {
  const href = useHref();
  const log = useLog({ path: `/ws/deployments/${it.id}/logs`, isStep: (message) => stepLine.test(message) });
  const at = query.get('at');
  return (
    <LogView
      label={`Log of deployment ${it.number}`}
      ring={log.ring}
      isEnded={log.isEnded}
      fileName={`${name}-${it.number}.log`}
      {...(at !== null && { at: Number(at) })}
      hrefOf={({ seq }) => href(own, { at: String(seq) })}
      notice={
        log.trouble !== undefined &&
        it.finished_at === null && (
          <Notice shape="warn">
            <p>No lines come now: {log.trouble}</p>
          </Notice>
        )
      }
      empty={it.finished_at === null ? 'No line yet.' : 'Nothing was built or pulled.'}
    />
  );
}

function Difference({ it }: { it: DeploymentDetail }): VNode {
  if (it.changes === null)
    return (
      <Notice shape="info">
        <p>
          {it.number === 1
            ? 'It is the first deployment: there is nothing to compare it with.'
            : 'What the deployment before it ran is not kept any more, so that there is nothing to compare with.'}
        </p>
      </Notice>
    );
  return (
    <Card title={it.number === 1 ? 'What it began with' : 'What it changed'}>
      {it.changes.length === 0 ? (
        <p class="quiet">Its configuration is that of the deployment before it.</p>
      ) : (
        <FieldDiff
          labels={{ before: 'Before', after: 'In this one' }}
          changes={it.changes.map(({ field, change, before, after }) => ({
            path: field,
            isEqual: false,
            ...(change !== 'added' && { before: valueOf(before) }),
            ...(change !== 'removed' && { after: valueOf(after) }),
          }))}
        />
      )}
    </Card>
  );
}

/** `null` stands for a secret. */
function valueOf(value: string | number | boolean | null): string {
  return value === null ? 'secret, changed' : String(value);
}

function Details({ it }: { it: DeploymentDetail }): VNode {
  return (
    <Card title="Details">
      <Facts
        of={[
          ['Id', <Id key="id" of={it.id} />],
          ['Image', it.image !== null && <code key="image">{it.image}</code>],
          ['Digest', it.image_digest !== null && <Id key="digest" of={it.image_digest} what="digest" />],
          ['Branch', it.branch],
          ['Commit', it.commit !== null && <Id key="commit" of={it.commit} what="commit" />],
          ['Queued', <Time key="queued" at={it.queued_at} />],
          ['Started', it.started_at !== null && <Time key="started" at={it.started_at} />],
          ['Image ready', it.built_at !== null && <Time key="built" at={it.built_at} />],
          ['Finished', it.finished_at !== null && <Time key="finished" at={it.finished_at} />],
          ['Notes', it.notes.length > 0 && it.notes.join('; ')],
        ]}
      />
      {it.dockerfile !== null && (
        <details class="details">
          <summary>The Dockerfile that was generated for it</summary>
          <pre class="output">{it.dockerfile}</pre>
        </details>
      )}
    </Card>
  );
}
