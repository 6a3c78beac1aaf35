import { z } from 'zod';
import { LifePhase, project } from '../../store/kinds/project.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { projectVerbs } from '../../rules/project.ts';
import { isSettled, lifeStatus } from './status.ts';
import { FreeText, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

const { shape } = project.desired;

export const Project = z
  .object({
    ...objectFields,
    name: z.string(),
    display_name: z.string().nullable(),
    description: z.string().nullable(),
    color: z.string().nullable(),
    icon_path: z.string().nullable(),
    single_server_mode: z.boolean(),
    default_server_id: z.string().nullable(),
    auto_error_tracking_enabled: z.boolean(),
    owner_id: z.string(),
    default_environment_id: z.string(),
    status: z.enum(['active', 'deleting']),
  })
  .meta({ id: 'Project' });
export type Project = z.infer<typeof Project>;

export const ProjectCreate = z.strictObject({
  name: shape.name,
  display_name: Line.max(120).nullish(),
  description: FreeText.max(2000).nullish(),
  color: shape.color.nullable(),
  single_server_mode: z.boolean().nullish(),
  default_server_id: Reference.nullish(),
  auto_error_tracking_enabled: z.boolean().nullish(),
  labels: Labels.optional(),
});

export const ProjectUpdate = ProjectCreate.partial();

function toProject(it: ReadonlyResource<'project'>): Project {
  const { desired } = it;
  return {
    ...objectFieldsOf(it),
    name: desired.name,
    display_name: desired.display_name ?? null,
    description: desired.description ?? null,
    color: desired.color ?? null,
    icon_path: desired.icon_path ?? null,
    single_server_mode: desired.single_server_mode,
    default_server_id: desired.default_server_id ?? null,
    auto_error_tracking_enabled: desired.auto_error_tracking_enabled,
    owner_id: desired.owner_id,
    default_environment_id: desired.default_environment_id,
    status: lifeStatus(it),
  };
}

export const projects = defineResource({
  kind: 'project',
  word: 'Project',
  project: ({ meta }) => meta.id,
  answer: Project,
  show: toProject,
  list: {
    texts: ({ desired }) => [desired.name, desired.display_name],
    status: { values: LifePhase.options, of: lifeStatus },
    filters: { projectId: (id) => (it) => it.meta.id === id },
  },
  isSettled,
  verbs: projectVerbs,
  watch: { shows: {} },
});
