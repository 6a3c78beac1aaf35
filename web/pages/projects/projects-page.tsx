import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { list } from '../../api.ts';
import { allApplications, allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { keptObjects } from '../../frame/store.ts';
import { usePageKeys } from '../../frame/keys.ts';
import { placeOf } from '../../frame/router.ts';
import { useRead } from '../../frame/use-read.ts';
import type { Project } from '../../model.ts';
import { byName } from '../../model.ts';
import { Button } from '../../parts/button.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { ErrorBox } from '../../parts/error-box.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import { Skeleton } from '../../parts/skeleton.tsx';
import { StatusWord } from '../../parts/status.tsx';
import { StatusCount } from '../../parts/status-count.tsx';
import type { Shape } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';
import { NewProject } from './new-project.tsx';
import { stateOf, urgencyOf } from './project-state.ts';
import type { ProjectState } from './project-state.ts';

interface Row {
  readonly project: Project;
  readonly state: ProjectState;
  readonly count: number;
  readonly changed: string;
}

/** What the shapes of projects mean, and the words that count them. */
const groups: readonly {
  readonly name: string;
  readonly shapes: readonly Shape[];
  readonly word: string;
  readonly shape: Shape;
}[] = [
  { name: 'failed', shapes: ['bad'], word: 'failed', shape: 'bad' },
  { name: 'look', shapes: ['warn'], word: 'need a look', shape: 'warn' },
  { name: 'busy', shapes: ['busy', 'waiting', 'gone'], word: 'changing', shape: 'busy' },
  { name: 'fine', shapes: ['good', 'idle', 'info'], word: 'fine', shape: 'good' },
];

/** All projects: the worst state of each in words, and when something changed. */
export function ProjectsPage({ query }: { query: URLSearchParams }): VNode {
  const { router, login, collections } = useConsole();
  const href = useHref();
  const [isNew, setNew] = useState(false);
  const projects = useList(allProjects, 'project');
  const applications = useList(allApplications, 'application');
  const filter = query.get('q') ?? '';
  const status = query.get('status') ?? '';
  usePageKeys({ n: () => setNew(true) });

  const byProject = Map.groupBy(applications.objects, ({ project_id }) => project_id);
  const all = byName(projects.objects).map((project): Row => {
    const own = byProject.get(project.id) ?? [];
    const changed = own.reduce((last, { updated_at }) => (updated_at > last ? updated_at : last), project.updated_at);
    return { project, state: stateOf(project, own), count: own.length, changed };
  });
  const group = groups.find(({ name }) => name === status);
  const rows = all.filter(
    ({ project, state }) =>
      `${project.name} ${project.display_name ?? ''}`.toLowerCase().includes(filter.toLowerCase()) &&
      (group === undefined || group.shapes.includes(state.shape)),
  );
  const at = (change: Record<string, string>): string => href(['projects'], { q: filter, status, ...change });

  return (
    <Page
      title="Projects"
      actions={
        <Button tone="primary" icon="plus" onClick={() => setNew(true)}>
          New project
        </Button>
      }
    >
      <Invites />
      {applications.objects.length >= keptObjects && (
        <Notice shape="info">
          <p>
            {keptObjects.toLocaleString()} applications are known to this tab, which may not be all: the search asks the
            server for others.
          </p>
        </Notice>
      )}
      {projects.reading.state === 'failed' && (
        <ErrorBox error={{ message: projects.reading.message }} onRetry={() => collections.retry(allProjects)} />
      )}
      {projects.reading.state === 'reading' && all.length === 0 && <Skeleton label="Reading projects" />}
      {projects.reading.state === 'ready' && all.length === 0 && (
        <EmptyState
          title="No project yet"
          action={
            <Button tone="primary" icon="plus" onClick={() => setNew(true)}>
              New project
            </Button>
          }
          command="setpoint create project NAME"
        >
          A project holds what belongs together: its environments, such as production and staging, the applications and
          databases in them, and the people who may see and change them.
        </EmptyState>
      )}
      {all.length > 0 && (
        <>
          <div class="row-apart">
            <StatusCount
              label="Projects by state"
              of={groups.map(({ name, shapes, word, shape }) => ({
                look: { word, shape },
                count: all.filter(({ state }) => shapes.includes(state.shape)).length,
                href: at({ status: status === name ? '' : name }),
                isActive: status === name,
              }))}
            />
            <input
              class="input filter-input"
              type="search"
              aria-label="Filter projects by name"
              placeholder="Filter"
              value={filter}
              onInput={({ currentTarget }) => {
                const { query: now } = placeOf(router.hash.peek(), login.tenant);
                router.replace(href(['projects'], { status: now.get('status') ?? '', q: currentTarget.value }));
              }}
            />
          </div>
          {rows.length === 0 ? (
            <Notice shape="info">
              <p>
                None of {all.length} projects is like this. <a href={href(['projects'])}>Clear filters</a>
              </p>
            </Notice>
          ) : (
            <Table
              label="Projects"
              rows={rows}
              keyOf={({ project }) => project.id}
              empty=""
              hrefOf={({ project }) => href(['projects', project.id])}
              columns={[
                {
                  id: 'name',
                  title: 'Project',
                  isPrimary: true,
                  cell: ({ project }) => (
                    <a href={href(['projects', project.id])}>{project.display_name ?? project.name}</a>
                  ),
                  sortBy: ({ project }) => project.display_name ?? project.name,
                },
                {
                  id: 'state',
                  title: 'State',
                  cell: ({ state }) => (
                    <span class="clamped" title={state.text}>
                      <StatusWord look={{ word: state.text, shape: state.shape }} />
                    </span>
                  ),
                  sortBy: ({ state }) => urgencyOf(state),
                },
                {
                  id: 'count',
                  title: 'Applications',
                  isNumber: true,
                  cell: ({ count }) => count,
                  sortBy: ({ count }) => count,
                },
                {
                  id: 'changed',
                  title: 'Changed',
                  cell: ({ changed }) => <Time at={changed} />,
                  sortBy: ({ changed }) => Date.parse(changed),
                },
              ]}
            />
          )}
        </>
      )}
      {isNew && <NewProject onClose={() => setNew(false)} />}
    </Page>
  );
}

/** Projects to which the reader is invited: the mail has the link that accepts. */
function Invites(): VNode | null {
  const { login } = useConsole();
  const { data = [] } = useRead(() => list(login, '/api/v1/me/invites', 50), []);
  if (data.length === 0) return null;
  return (
    <ul class="stack-tight" aria-label="Invites">
      {data.map((one) => (
        <li key={one.id}>
          <Notice shape="info">
            <p>
              {one.invited_by_email ?? 'Somebody'} invites you to {one.project_name ?? 'this tenant'} with the role{' '}
              {one.role}: the link in the mail accepts it. It is good until{' '}
              {new Date(one.expires_at).toLocaleDateString()}.
            </p>
          </Notice>
        </li>
      ))}
    </ul>
  );
}
