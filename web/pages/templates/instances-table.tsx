import type { VNode } from 'preact';
import { useConsole, useHref } from '../../frame/context.ts';
import type { ObjectOf } from '../../model.ts';
import { Status } from '../../parts/status.tsx';
import { lookOf, shapesByUrgency } from '../../parts/status-words.ts';
import { Table } from '../../parts/table.tsx';
import { Time } from '../../parts/time.tsx';

type TemplateInstance = ObjectOf<'template_instance'>;

/** Instances of templates as a list, with how far each is. */
export function InstancesTable({ rows }: { readonly rows: readonly TemplateInstance[] }): VNode {
  const { store } = useConsole();
  const href = useHref();
  const projectOf = ({ project_id: id }: TemplateInstance): string => {
    const project = store.get('project', id);
    return project?.display_name ?? project?.name ?? '';
  };
  return (
    <Table
      label="Instances"
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => href(['instances', id])}
      columns={[
        {
          id: 'name',
          title: 'Instance',
          isPrimary: true,
          sortBy: ({ name }) => name,
          cell: ({ id, name }) => (
            <a class="strong" href={href(['instances', id])}>
              {name}
            </a>
          ),
        },
        {
          id: 'status',
          title: 'Status',
          isBare: true,
          cell: (one) => <Status kind="template_instance" object={one} />,
          sortBy: (one) => shapesByUrgency.indexOf(lookOf('template_instance', one).shape),
        },
        {
          id: 'up',
          title: 'Up',
          cell: ({ ready_children: ready, children }) => `${ready} of ${children.length}`,
        },
        {
          id: 'template',
          title: 'Template',
          sortBy: ({ template_name: name }) => name,
          cell: ({ template_id: id, template_name: name }) => <a href={href(['templates', id])}>{name}</a>,
        },
        {
          id: 'project',
          title: 'Project',
          sortBy: projectOf,
          cell: (one) => <a href={href(['projects', one.project_id])}>{projectOf(one)}</a>,
        },
        {
          id: 'made',
          title: 'Made',
          cell: ({ created_at: at }) => <Time at={at} />,
          sortBy: ({ created_at: at }) => at,
        },
      ]}
    />
  );
}
