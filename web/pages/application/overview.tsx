import type { VNode } from 'preact';
import { call } from '../../api.ts';
import { useConsole, useHref } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import { useRead } from '../../frame/use-read.ts';
import { waitsFor } from '../../frame/waits-for.ts';
import type { Application, Deployment } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card, Facts } from '../../parts/card.tsx';
import { Conditions } from '../../parts/conditions.tsx';
import { Copy } from '../../parts/copy.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { shellQuoted } from '../../parts/request-text.ts';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { useDeployments } from './deployments.ts';
import { Happenings } from './happenings.tsx';
import { Instances } from './instances.tsx';
import type { TabProps } from './tab-props.ts';
import { WantedAndObserved } from './wanted-and-observed.tsx';

/** What an application is now: the cause first where it does not work, then where it is and what it uses. */
export function Overview({ it }: TabProps): VNode {
  const { login } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const [newest] = useDeployments(it);
  const observed = JSON.stringify([it.status, it.ready_replicas, it.conditions]);
  const version = [it.id, it.resource_version, observed, newest?.id, newest?.status];
  const instances = useRead(
    () => call(login, 'GET', '/api/v1/applications/{id}/instances', { path: { id: it.id } }),
    version,
  );
  const crashed = (instances.data ?? []).find((one) => one.last_exit !== null && !one.ready);
  return (
    <>
      <Cause it={it} newest={newest} output={crashed?.last_exit?.lines ?? undefined} />
      {it.deployment_id === null && (
        <EmptyState title="It was never deployed" command={`setpoint deploy ${shellQuoted(it.name)}`}>
          Its settings are stored, and nothing runs yet. “Deploy” takes its{' '}
          {it.source_type === 'git' ? 'branch' : 'image'} and starts{' '}
          {it.replicas === 1 ? 'an instance' : `${it.replicas} instances`}.
        </EmptyState>
      )}
      <div class="columns">
        <Card title="At a glance">
          <AtAGlance it={it} newest={newest} />
        </Card>
        <Card
          title="Wanted and observed"
          actions={<LinkButton href={href(parts(it, 'events'))}>All events</LinkButton>}
        >
          <WantedAndObserved it={it} />
          <details class="details" open={it.status === 'error'}>
            <summary>{it.conditions.length} conditions</summary>
            <Conditions of={it.conditions} />
          </details>
        </Card>
      </div>
      <Card title="Instances">
        {instances.error !== undefined && <ErrorBox error={instances.error} onRetry={instances.again} />}
        <Instances it={it} of={instances.data ?? []} isRead={instances.data !== undefined} />
      </Card>
      <Card title="What happened">
        <Happenings it={it} most={8} />
      </Card>
    </>
  );
}

interface CauseProps {
  readonly it: Application;
  readonly newest: Deployment | undefined;
  /** What an instance wrote before it crashed. */
  readonly output: string | undefined;
}

/** Why an application does not do what is wanted, and what can be done about it. */
function Cause({ it, newest, output }: CauseProps): VNode | null {
  const href = useHref();
  const parts = useApplicationParts();
  const error = newest?.status === 'failed' ? newest.error : null;
  const cause = waitsFor(it);
  const isBroken = it.status === 'failed' || it.status === 'error' || error !== null;
  if (cause === '' && error === null) return null;
  return (
    <Notice
      shape={isBroken ? 'bad' : 'busy'}
      actions={
        newest !== undefined && (
          <LinkButton href={href(parts(it, 'deployments', newest.id))}>Log of #{newest.number}</LinkButton>
        )
      }
    >
      <p>{error?.message ?? cause}</p>
      {error !== null && cause !== '' && !cause.includes(error.message) && <p class="quiet">{cause}</p>}
      {isBroken && output !== undefined && output !== '' && (
        <details class="details" open>
          <summary>What it wrote before it ended</summary>
          <pre class="output">{output}</pre>
        </details>
      )}
    </Notice>
  );
}

function AtAGlance({ it, newest }: { it: Application; newest: Deployment | undefined }): VNode {
  const { store, login } = useConsole();
  const href = useHref();
  const parts = useApplicationParts();
  const server = store.get('server', it.server_id);
  const serving = it.current_deployment_id === null ? undefined : store.get('deployment', it.current_deployment_id);
  const uses = useRead(
    () => call(login, 'GET', '/api/v1/applications/{id}/dependencies', { path: { id: it.id } }),
    [it.id, it.generation],
  ).data;
  const used = [...(uses?.databases ?? []), ...(uses?.volumes ?? []), ...(uses?.applications ?? [])];
  const deploymentLink = (one: Deployment): VNode => (
    <span class="row">
      <a href={href(parts(it, 'deployments', one.id))}>#{one.number}</a>
      <Status kind="deployment" object={one} since={one.finished_at ?? one.queued_at} />
    </span>
  );
  return (
    <Facts
      of={[
        [
          'Address',
          it.urls.length === 0 ? (
            <span class="quiet">
              none: <a href={href(parts(it, 'domains'))}>add a domain</a>
            </span>
          ) : (
            <ul>
              {it.urls.map((url) => (
                <li class="row" key={url}>
                  <a href={url} target="_blank" rel="noreferrer">
                    {url}
                  </a>
                  <Copy text={url} label="Copy address" />
                </li>
              ))}
            </ul>
          ),
        ],
        ['Inside', <code key="inside">{it.host_name ?? it.internal_id}</code>],
        ['Server', server === undefined ? undefined : <a href={href(['servers', server.id])}>{server.name}</a>],
        ['Instances', `${it.ready_replicas} of ${it.replicas} ready`],
        ['Source', <SourceOf key="source" it={it} />],
        ['Newest', newest === undefined ? undefined : deploymentLink(newest)],
        ['Serving', serving === undefined || serving.id === newest?.id ? undefined : deploymentLink(serving)],
        ['Uses', used.length === 0 ? undefined : used.map(({ name }) => name).join(', ')],
        ['Limits', [it.memory_limit, it.cpu_limit === null ? null : `${it.cpu_limit} CPU`].filter(Boolean).join(', ')],
        ['Changed', <Time key="changed" at={it.updated_at} />],
      ]}
    />
  );
}

function SourceOf({ it }: { it: Application }): VNode {
  if (it.source_type === 'image') return <code>{it.image_url}</code>;
  if (it.source_type === 'compose' && it.repository_url === null) return <>a compose file</>;
  return (
    <>
      <code>{it.repository_url}</code> {it.branch}{' '}
      {it.current_commit !== null && <code>{it.current_commit.slice(0, 8)}</code>}
    </>
  );
}
