import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { allApplications, allProjects } from '../../frame/collections.ts';
import { useConsole, useHref, useList } from '../../frame/context.ts';
import { usePlaceNames } from '../../frame/place-names.ts';
import { useLog } from '../../frame/use-log.ts';
import { byName } from '../../model.ts';
import { Combobox } from '../../parts/combobox.tsx';
import { EmptyState } from '../../parts/empty-state.tsx';
import { LogView } from '../../parts/log-view.tsx';
import { Menu } from '../../parts/menu.tsx';
import { Notice } from '../../parts/notice.tsx';
import { Page } from '../../parts/page.tsx';
import type { PageProps } from '../page.ts';

/** Applications of one stream; the server follows no more. */
const mostSources = 32;
const askAfterMs = 300;
/** Applications in the menu; beyond, one is found by typing. */
const mostListed = 100;

/** The output of many applications in the order of its times. What it shows is in the address. */
export function LogsPage({ query }: PageProps): VNode {
  const { router, store } = useConsole();
  const href = useHref();
  const projects = byName(useList(allProjects, 'project').objects);
  const applications = useList(allApplications, 'application');
  const project = query.get('project') ?? '';
  const ids = (query.get('ids') ?? '').split(',').filter((id) => id !== '');
  const level = query.get('level') ?? '';
  const search = query.get('search') ?? '';
  const known = byName(applications.objects.filter((it) => project === '' || it.project_id === project));
  const placeOf = usePlaceNames(known);
  const chosen = known.filter(({ id }) => ids.includes(id));
  const listed = [...chosen, ...known.filter(({ id }) => !ids.includes(id))].slice(0, mostListed);
  const change = (next: Record<string, string>): void =>
    router.replace(href(['logs'], { project, ids: ids.join(','), level, search, ...next }));
  const log = useLog({
    path: '/ws/logs',
    query: {
      tail: '200',
      ...(project !== '' && { projectId: project }),
      ...(ids.length > 0 && { ids: ids.slice(0, mostSources).join(',') }),
      ...(level !== '' && { level: level === 'error' ? 'error' : 'warn,error' }),
      ...(search !== '' && { search }),
    },
    sourceOf: ({ id, name, instance_id: instance }) =>
      `${store.get('application', id)?.name ?? name}/${instance.slice(0, 4)}`,
  });
  const toggle = (id: string): void =>
    change({ ids: (ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id]).join(',') });
  if (applications.reading.state === 'ready' && applications.objects.length === 0)
    return (
      <Page title="Logs">
        <EmptyState title="Nothing writes yet" command="setpoint logs APPLICATION --follow">
          What applications write to their output is stored on their server and shown here, merged in the order of its
          time.
        </EmptyState>
      </Page>
    );
  return (
    <Page title="Logs" isWide>
      <LogView
        label="Output of applications"
        ring={log.ring}
        isEnded={log.isEnded}
        fileName="applications.log"
        empty={
          search === '' && level === ''
            ? 'Nothing was written yet.'
            : 'No line is like this so far: new ones are shown as they come.'
        }
        tools={
          <>
            <select
              class="input input-auto"
              aria-label="Project"
              value={project}
              onChange={({ currentTarget }) => change({ project: currentTarget.value, ids: '' })}
            >
              <option value="">All projects</option>
              {projects.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.display_name ?? one.name}
                </option>
              ))}
            </select>
            <Menu
              label="Applications"
              entries={[
                { label: 'All applications', isChecked: ids.length === 0, onSelect: () => change({ ids: '' }) },
                'line',
                ...listed.map((one) => ({
                  label: one.name,
                  note: placeOf(one),
                  isChecked: ids.includes(one.id),
                  why:
                    ids.length >= mostSources && !ids.includes(one.id)
                      ? `At most ${mostSources} are followed at once`
                      : undefined,
                  onSelect: () => toggle(one.id),
                })),
              ]}
            >
              {ids.length === 0
                ? 'All applications'
                : ids.map((id) => store.get('application', id)?.name ?? '?').join(', ')}
            </Menu>
            {known.length > mostListed && (
              <Combobox
                control={{ id: 'find-application', 'aria-label': 'Find an application' }}
                placeholder="Find an application"
                options={known
                  .filter(({ id }) => !ids.includes(id))
                  .map((one) => ({ value: one.id, label: one.name, note: placeOf(one) }))}
                value={undefined}
                onChange={(id) => {
                  if (id !== undefined && ids.length < mostSources) toggle(id);
                }}
              />
            )}
            <select
              class="input input-auto"
              aria-label="Level"
              value={level}
              onChange={({ currentTarget }) => change({ level: currentTarget.value })}
            >
              <option value="">All levels</option>
              <option value="warn">Warnings and errors</option>
              <option value="error">Errors</option>
            </select>
            <SearchField value={search} onChange={(text) => change({ search: text })} />
          </>
        }
        notice={
          <>
            {log.trouble !== undefined && (
              <Notice shape="warn">
                <p>No lines come now: {log.trouble}</p>
              </Notice>
            )}
            {ids.length === 0 && known.length > mostSources && (
              <Notice shape="info">
                <p>
                  {known.length} applications match, and {mostSources} are followed at once: choose some of them.
                </p>
              </Notice>
            )}
          </>
        }
      />
    </Page>
  );
}

/** The text that the server looks for; it is asked once the reader pauses. */
function SearchField({ value, onChange }: { value: string; onChange: (text: string) => void }): VNode {
  const [text, setText] = useState(value);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => onChange(text), askAfterMs);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <input
      class="input input-auto"
      type="search"
      aria-label="Only lines with"
      placeholder="Only lines with"
      value={text}
      onInput={({ currentTarget }) => setText(currentTarget.value)}
    />
  );
}
