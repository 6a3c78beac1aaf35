import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { environmentVerbs } from '#rules/environment.ts';
import { whyNot } from '#rules/verb-table.ts';
import {
  allApplications,
  allProjects,
  allServers,
  databasesOf,
  environmentsOf,
  functionsOf,
  volumesOf,
} from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { whyBelow } from '../../frame/rights.ts';
import type { Rank } from '../../frame/rights.ts';
import { useRank } from '../../frame/use-rank.ts';
import { placeOf } from '../../frame/router.ts';
import type { Environment, Project } from '../../model.ts';
import { byName } from '../../model.ts';
import { LinkButton } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Gone } from '../../parts/gone.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { Status } from '../../parts/status.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import { lookOf, lookOfStatus, shapesByUrgency, statusesOf } from '../../parts/status-words.ts';
import type { PageProps } from '../page.ts';
import { CloneEnvironment, DeleteEnvironment, NewEnvironment, useMakeDefault } from './environment-dialogs.tsx';
import { projectTabs } from './project-tabs.ts';
import { byRank } from './places.ts';
import { WorkloadList } from './workload-list.tsx';
import type { Workload } from './workload-list.tsx';

/** A project: its environments side by side, with what runs in each. */
export function ProjectPage({ params, query }: PageProps): VNode {
  const projectId = params['projectId'] ?? '';
  const { store, collections } = useConsole();
  const href = useHref();
  const { reading } = useList(allProjects, 'project');
  const project = store.get('project', projectId);
  if (project !== undefined) return <Found project={project} environmentName={params['environment']} query={query} />;
  return (
    <Page title="Project">
      {reading.state === 'reading' && <Skeleton label="Reading the project" />}
      {reading.state === 'failed' && (
        <ErrorBox error={{ message: reading.message }} onRetry={() => collections.retry(allProjects)} />
      )}
      {reading.state === 'ready' && (
        <Gone what="The project" back={{ href: href(['projects']), label: 'All projects' }} />
      )}
    </Page>
  );
}

interface FoundProps {
  readonly project: Project;
  /** Only this environment is shown. */
  readonly environmentName: string | undefined;
  readonly query: URLSearchParams;
}

function Found({ project, environmentName, query }: FoundProps): VNode {
  const { login, router, collections } = useConsole();
  const href = useHref();
  const rank = useRank(project.id);
  const [isNew, setNew] = useState(false);
  useList(allServers, 'server');
  const environments = useList(environmentsOf(project.id), 'environment');
  const applications = useList(allApplications, 'application').objects.filter((it) => it.project_id === project.id);
  const own = environments.objects
    .filter((it) => it.project_id === project.id)
    .toSorted((a, b) => Number(b.is_default) - Number(a.is_default) || a.created_at.localeCompare(b.created_at));
  const shown = environmentName === undefined ? own : own.filter(({ name }) => name === environmentName);
  const filter = query.get('q') ?? '';
  const status = query.get('status') ?? '';
  const base = ['projects', project.id, ...(environmentName === undefined ? [] : [environmentName])];
  const cannotCreate = whyNoMore(project, rank, 'member');
  usePageKeys({
    c: () => router.go(href(['projects', project.id, '-', 'new'])),
    '/': undefined,
  });
  const ofShown = applications.filter((it) => shown.some(({ id }) => id === it.environment_id));
  return (
    <Page
      isWide
      title={project.display_name ?? project.name}
      crumbs={[
        { label: 'Projects', href: href(['projects']) },
        ...(environmentName === undefined
          ? []
          : [{ label: project.display_name ?? project.name, href: href(['projects', project.id]) }]),
      ]}
      status={project.status === 'deleting' ? <Status kind="project" object={project} /> : undefined}
      about={project.description ?? undefined}
      tabs={projectTabs(href, project.id, own.length)}
      current={href(['projects', project.id])}
      actions={
        <>
          {cannotCreate === undefined && (
            <LinkButton tone="primary" icon="plus" href={href(['projects', project.id, '-', 'new'])}>
              New application
            </LinkButton>
          )}
          <Menu
            label="More actions of the project"
            icon="more"
            entries={[
              {
                label: 'New environment',
                why: whyNoMore(project, rank, 'admin'),
                onSelect: () => setNew(true),
              },
              {
                label: 'New database',
                why: cannotCreate,
                href: href(['projects', project.id, '-', 'new-database']),
              },
              {
                label: 'New function',
                why: cannotCreate,
                href: href(['projects', project.id, '-', 'new-function']),
              },
              { label: 'From a template', href: href(['templates']) },
              {
                label: 'Keep it as a repository declares',
                why: whyNoMore(project, rank, 'admin'),
                href: href(['projects', project.id, '-', 'new-sync']),
              },
              { label: 'Syncs of the project', href: href(['syncs'], { projectId: project.id }) },
              { label: 'Apply a text', href: href(['projects', project.id, '-', 'apply']) },
              { label: 'Settings', href: href(['projects', project.id, '-', 'settings']) },
              { label: 'Logs of the project', href: href(['logs'], { project: project.id }) },
            ]}
          />
        </>
      }
    >
      {project.status === 'deleting' && (
        <Notice shape="gone">
          <p>
            The project is being deleted: {applications.length} applications and {own.length} environments are left.
          </p>
        </Notice>
      )}
      <div class="row-apart">
        <StatusCount
          label="Applications by status"
          of={statusesOf('application').map((one) => ({
            look: lookOfStatus('application', one),
            count: ofShown.filter((it) => it.status === one).length,
            href: href(base, { q: filter, status: one === status ? '' : one }),
            isActive: one === status,
          }))}
        />
        <input
          class="input filter-input"
          type="search"
          aria-label="Filter by name"
          placeholder="Filter"
          value={filter}
          onInput={({ currentTarget }) => {
            const now = placeOf(router.hash.peek(), login.tenant).query;
            router.replace(href(base, { status: now.get('status') ?? '', q: currentTarget.value }));
          }}
        />
      </div>
      {environments.reading.state === 'failed' && (
        <ErrorBox
          error={{ message: environments.reading.message }}
          onRetry={() => collections.retry(environmentsOf(project.id))}
        />
      )}
      {environments.reading.state === 'reading' && own.length === 0 && <Skeleton label="Reading environments" />}
      {environments.reading.state === 'ready' && shown.length === 0 && (
        <Gone
          what={`The environment ${environmentName ?? ''}`}
          back={{ href: href(['projects', project.id]), label: 'All environments' }}
        />
      )}
      <div class="environments">
        {shown.map((one) => (
          <EnvironmentColumn key={one.id} project={project} environment={one} filter={filter} status={status} />
        ))}
      </div>
      {isNew && <NewEnvironment project={project} onClose={() => setNew(false)} />}
    </Page>
  );
}

/** Why nothing can be added to a project. */
function whyNoMore(project: Project, rank: Rank | undefined, needed: Rank): string | undefined {
  return whyBelow(rank, needed) ?? (project.status === 'deleting' ? 'The project is being deleted' : undefined);
}

type Asked = 'clone' | 'delete' | undefined;

interface ColumnProps {
  readonly project: Project;
  readonly environment: Environment;
  readonly filter: string;
  readonly status: string;
}

function EnvironmentColumn({ project, environment, filter, status }: ColumnProps): VNode {
  const href = useHref();
  const rank = useRank(project.id);
  const [asked, setAsked] = useState<Asked>();
  const makeDefault = useMakeDefault(environment);
  const isHere = (it: { environment_id: string; name: string }): boolean =>
    it.environment_id === environment.id && it.name.toLowerCase().includes(filter.toLowerCase());
  const applications = byName(useList(allApplications, 'application').objects.filter((it) => isHere(it)));
  const shown = byRank(
    applications.filter((it) => status === '' || it.status === status),
    urgency,
  );
  const databases = byName(useList(databasesOf(project.id), 'database').objects.filter((it) => isHere(it)));
  const functions = byName(useList(functionsOf(project.id), 'function').objects.filter((it) => isHere(it)));
  const volumes = byName(
    useList(volumesOf(project.id), 'volume').objects.filter((it) => isHere(it) && it.database_id === null),
  );
  const workloads: Workload[] = shown.map((it) => ({ kind: 'application', it }));
  if (status === '') {
    for (const it of databases) workloads.push({ kind: 'database', it });
    for (const it of functions) workloads.push({ kind: 'function', it });
    for (const it of volumes) workloads.push({ kind: 'volume', it });
  }
  const isFiltered = filter !== '' || status !== '';
  const title = environment.display_name ?? environment.name;
  const why = (verb: keyof typeof environmentVerbs.verbs): string | undefined =>
    whyNot(environmentVerbs, verb, environment) ?? whyBelow(rank, 'admin');
  return (
    <section class="environment" aria-label={`Environment ${environment.name}`}>
      <div class="environment-head">
        <h2>
          <a href={href(['projects', project.id, environment.name])}>{title}</a>
          {environment.is_default && (
            <span class="quiet small" title="What is created without an environment goes here">
              {' '}
              default
            </span>
          )}
        </h2>
        <span class="quiet numeric">{applications.length + databases.length + functions.length}</span>
        <span class="grow" />
        {environment.status === 'deleting' && <Status kind="environment" object={environment} />}
        <Menu
          label={`Actions of ${environment.name}`}
          icon="more"
          tone="plain"
          entries={[
            {
              label: 'New application here',
              href: href(['projects', project.id, '-', 'new'], { environment: environment.id }),
            },
            {
              label: 'New database here',
              href: href(['projects', project.id, '-', 'new-database'], { environment: environment.id }),
            },
            {
              label: 'New function here',
              href: href(['projects', project.id, '-', 'new-function'], { environment: environment.id }),
            },
            { label: 'Make the default', why: why('set_default'), onSelect: makeDefault },
            { label: 'Clone', why: why('clone'), onSelect: () => setAsked('clone') },
            'line',
            { label: 'Delete', why: why('delete'), isDanger: true, onSelect: () => setAsked('delete') },
          ]}
        />
      </div>
      {environment.clone_of?.complete === false && (
        <Notice shape="busy">
          <p>Being cloned: {applications.length} applications are here so far.</p>
        </Notice>
      )}
      {environment.clone_of?.complete === true && (environment.clone_of.data?.left ?? 0) > 0 && (
        <Notice shape="busy">
          <p>Data of {environment.clone_of.data?.left} databases and volumes is still being copied.</p>
        </Notice>
      )}
      {workloads.length === 0 ? (
        <Nothing project={project} environment={environment} isFiltered={isFiltered} />
      ) : (
        <WorkloadList label={`Workloads of ${environment.name}`} workloads={workloads} />
      )}
      {asked === 'clone' && <CloneEnvironment environment={environment} onClose={() => setAsked(undefined)} />}
      {asked === 'delete' && <DeleteEnvironment environment={environment} onClose={() => setAsked(undefined)} />}
    </section>
  );
}

function urgency(it: Parameters<typeof lookOf>[1]): number {
  return shapesByUrgency.indexOf(lookOf('application', it).shape);
}

interface NothingProps {
  readonly project: Project;
  readonly environment: Environment;
  readonly isFiltered: boolean;
}

function Nothing({ project, environment, isFiltered }: NothingProps): VNode {
  const href = useHref();
  if (isFiltered)
    return (
      <p class="quiet">
        Nothing here is like this. <a href={href(['projects', project.id])}>Clear filters</a>
      </p>
    );
  const to = (source: string): string =>
    href(['projects', project.id, '-', 'new'], { environment: environment.id, source });
  return (
    <EmptyState
      title="Nothing runs here yet"
      action={
        <>
          <LinkButton href={to('git')}>From git</LinkButton>
          <LinkButton href={to('image')}>From an image</LinkButton>
          <LinkButton href={to('compose')}>From compose</LinkButton>
          <LinkButton href={href(['templates'])}>From a template</LinkButton>
          <LinkButton href={href(['projects', project.id, '-', 'new-database'], { environment: environment.id })}>
            Database
          </LinkButton>
          <LinkButton href={href(['projects', project.id, '-', 'new-function'], { environment: environment.id })}>
            Function
          </LinkButton>
        </>
      }
      command="setpoint apply -f application.yaml"
    >
      An application is a container that Setpoint keeps running on one of your servers: built from a git repository, or
      taken from an image.
    </EmptyState>
  );
}
