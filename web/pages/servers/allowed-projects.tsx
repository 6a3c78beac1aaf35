import type { VNode } from 'preact';
import { allProjects } from '../../frame/collections.ts';
import { useList } from '../../frame/context.ts';
import { byName } from '../../model.ts';
import { Checkbox, Radios } from '../../parts/inputs.tsx';

interface AllowedProjectsProps {
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

/** All projects, or some of them by name. */
export function AllowedProjects({ value, onChange }: AllowedProjectsProps): VNode {
  const projects = byName(useList(allProjects, 'project').objects);
  const chosen: readonly unknown[] | undefined = Array.isArray(value) ? value : undefined;
  return (
    <div class="stack-tight">
      <Radios
        name="allowed_projects"
        options={[
          { value: 'all', label: 'All projects' },
          { value: 'some', label: 'Only some' },
        ]}
        value={chosen === undefined ? 'all' : 'some'}
        onChange={(next) => onChange(next === 'all' ? 'all' : [])}
      />
      {chosen !== undefined &&
        projects.map(({ id, name, display_name }) => (
          <Checkbox
            key={id}
            checked={chosen.includes(id)}
            onChange={(checked) => onChange(checked ? [...chosen, id] : chosen.filter((one) => one !== id))}
          >
            {display_name ?? name}
          </Checkbox>
        ))}
      {chosen !== undefined && projects.length === 0 && <span class="field-help">There is no project yet.</span>}
    </div>
  );
}
