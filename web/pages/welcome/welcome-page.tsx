import type { VNode } from 'preact';
import { allApplications, allProjects, allServers } from '../../frame/collections.ts';
import { useHref, useList } from '../../frame/context.ts';
import { useApplicationParts } from '../../frame/object-links.ts';
import type { Application, Server } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { Card } from '../../parts/card.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { Steps } from '../../parts/steps.tsx';
import type { Step } from '../../parts/steps.tsx';
import { FirstApplication } from './first-application.tsx';
import { FirstServer } from './first-server.tsx';

/** The way from an empty installation to a first application that answers, on one page. */
export function WelcomePage(): VNode {
  const href = useHref();
  const servers = useList(allServers, 'server');
  const applications = useList(allApplications, 'application');
  useList(allProjects, 'project');
  if (servers.reading.state === 'reading' || applications.reading.state === 'reading')
    return (
      <Page title="Set up">
        <Skeleton label="Reading what there is" />
      </Page>
    );
  const connected = servers.objects.find((one) => one.agent_status === 'connected');
  const [application] = applications.objects.toSorted((a, b) => a.created_at.localeCompare(b.created_at));
  return (
    <Page
      title="Set up"
      about="A server, a first application, done. Each step can be left for later."
      actions={<LinkButton href={href(['projects'])}>Leave for later</LinkButton>}
    >
      <Steps label="Steps of the setup" steps={stepsOf(connected, application)} />
      {connected === undefined ? (
        <FirstServer server={servers.objects.toSorted((a, b) => a.name.localeCompare(b.name))[0]} />
      ) : application === undefined ? (
        <FirstApplication server={connected} />
      ) : (
        <Done it={application} />
      )}
    </Page>
  );
}

function stepsOf(server: Server | undefined, application: Application | undefined): Step[] {
  const isServing = application !== undefined && application.status === 'running';
  const now = (isDone: boolean, isNext: boolean): Step['status'] => (isDone ? 'done' : isNext ? 'running' : 'waiting');
  return [
    { name: 'Account', status: 'done' },
    { name: 'Server', status: now(server !== undefined, true) },
    { name: 'First application', status: now(application !== undefined, server !== undefined) },
    { name: 'Done', status: now(isServing, application !== undefined) },
  ];
}

function Done({ it }: { it: Application }): VNode {
  const href = useHref();
  const parts = useApplicationParts();
  const [url] = it.urls;
  return (
    <Card title={it.name}>
      <p>
        <Status kind="application" object={it} />
      </p>
      {it.status === 'running' && (
        <Notice shape="good">
          <p>
            Your first application runs.{' '}
            {url !== undefined && (
              <>
                It answers at{' '}
                <a href={url} target="_blank" rel="noreferrer">
                  {url}
                </a>
                .
              </>
            )}
          </p>
        </Notice>
      )}
      <div class="actions">
        <LinkButton tone="primary" href={href(parts(it))}>
          Open {it.name}
        </LinkButton>
        <LinkButton href={href(['projects'])}>All projects</LinkButton>
      </div>
    </Card>
  );
}
