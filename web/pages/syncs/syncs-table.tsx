import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Commit } from './commit.tsx';
import { followedBy } from './sync-words.ts';
import type { Sync } from './sync-words.ts';

/** Syncs as a list, with the commits of each and what it waits for. */
export function SyncsTable({ rows }: { readonly rows: readonly Sync[] }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const projectOf = ({ project_id: id }: Sync): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <Table
      label="Syncs"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['syncs', id])}
      columns={[
        {
          id: 'name',
          title: 'Sync',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: ({ id, name }) => (
            <a class="strong" href={href(['syncs', id])}>
              {name}
            </a>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="sync" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('sync', one).shape),
        },
        { id: 'waits', title: 'Waits for', cell: ({ message }) => message },
        {
          id: 'commit',
          title: 'Commit',
          cell: ({ commit_wanted: wanted, tag_wanted, commit_applied: applied, tag_applied }) =>
            wanted === applied ? (
              <Commit of={wanted} tag={tag_wanted} />
            ) : (
              <>
                {<Commit of={applied} tag={tag_applied} />} → {<Commit of={wanted} tag={tag_wanted} />}
              </>
            ),
        },
        {
          id: 'repository',
          title: 'Repository',
          cell: (one) => (
            <>
              <code>{one.repository_url}</code> <span class="quiet">{followedBy(one)}</span>
            </>
          ),
          sortBy: ({ repository_url: url }) => url,
        },
        {
          id: 'project',
          title: 'Project',
          cell: (one) => <a href={href(['projects', one.project_id])}>{projectOf(one)}</a>,
          sortBy: projectOf,
        },
      ]}
    />
  );
}
