import { z } from 'zod';
import { project } from '../../store/kinds/project.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Keep, Kept } from '../kept.ts';
import { isReconciled, lifeStatus } from '../status.ts';
import { FreeText, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';

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

export function toProject(it: ReadonlyResource<'project'>): Project {
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

export function keptProject(keep: Keep, it: ReadonlyResource<'project'>): Kept<Project> {
  return keep(it, '', () => toProject(it));
}

export const projectSettle = {
  isSettled(view: TenantView, id: string): boolean {
    const it = view.get('project', id);
    return it === undefined || (it.meta.deletionRequestedAt === undefined && isReconciled(it));
  },
  answer({ view, keep }: { view: TenantView; keep: Keep }, id: string): Kept<Project> | undefined {
    const it = view.get('project', id);
    return it && keptProject(keep, it);
  },
};
