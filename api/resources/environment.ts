import { z } from 'zod';
import { environment, LifePhase } from '../../store/kinds/project.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { environmentVerbs } from '../../rules/environment.ts';
import { isSettled, lifeStatus } from './status.ts';
import { FreeText, GitRef, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';

const { shape } = environment.desired;

export const Environment = z
  .object({
    ...objectFields,
    project_id: z.string(),
    name: z.string(),
    display_name: z.string().nullable(),
    type: z.string(),
    description: z.string().nullable(),
    color: z.string().nullable(),
    git_branch: z.string().nullable(),
    is_default: z.boolean(),
    clone_of: z
      .object({
        environment_id: z.string(),
        complete: z.boolean(),
        data: z
          .object({ total: z.int(), left: z.int(), failed: z.array(z.string()) })
          .nullable()
          .meta({
            id: 'ClonedData',
            description:
              'Databases and volumes whose data is copied, and of how many it is to come; null: they begin empty',
          }),
      })
      .nullable()
      .meta({ description: 'The environment that it began as a copy of, and whether it has all of it' }),
    status: z.enum(['active', 'deleting']),
  })
  .meta({ id: 'Environment' });
export type Environment = z.infer<typeof Environment>;

const EnvironmentType = Line.min(1).max(50).nullish();

export const EnvironmentCreate = z.strictObject({
  name: shape.name,
  display_name: Line.max(120).nullish(),
  type: EnvironmentType.meta({
    description: 'Such as production; null: staging, which is also the default of a new one',
  }),
  description: FreeText.max(2000).nullish(),
  color: shape.color.nullable(),
  git_branch: GitRef.nullish(),
  labels: Labels.optional(),
});

export const EnvironmentUpdate = EnvironmentCreate.partial();

/** A field that is not sent is copied from the source. */
export const EnvironmentClone = z.strictObject({
  name: shape.name,
  type: EnvironmentType,
  description: EnvironmentCreate.shape.description,
  server_map: z
    .record(Reference, Reference)
    .refine((map) => Object.keys(map).length <= 50, 'Must name at most 50 servers')
    .nullish()
    .meta({ description: 'Server of a workload → server of its copy; copies of others run where their sources do' }),
  include_data: z.boolean().nullish().meta({
    description: 'Databases and volumes get the data of their sources by backups, which go then; else they begin empty',
  }),
  destination_id: Reference.nullish().meta({
    description: 'Where these backups are meanwhile; by default the only destination that there is',
  }),
});

function toEnvironment(
  it: ReadonlyResource<'environment'>,
  { is_default }: Pick<Environment, 'is_default'>,
): Environment {
  const { desired } = it;
  return {
    ...objectFieldsOf(it),
    project_id: desired.project_id,
    name: desired.name,
    display_name: desired.display_name ?? null,
    type: desired.type,
    description: desired.description ?? null,
    color: desired.color ?? null,
    git_branch: desired.git_branch ?? null,
    is_default,
    clone_of: desired.clone_of === undefined ? null : cloneOf(desired.clone_of),
    status: lifeStatus(it),
  };
}

function cloneOf({
  environment_id,
  complete,
  data,
}: NonNullable<ReadonlyResource<'environment'>['desired']['clone_of']>): NonNullable<Environment['clone_of']> {
  if (data === undefined) return { environment_id, complete, data: null };
  const { total, left, failed } = data;
  return { environment_id, complete, data: { total, left: left?.length ?? total, failed: [...failed] } };
}

function isDefaultEnvironment(it: ReadonlyResource<'environment'>, view: TenantView): boolean {
  return view.get('project', it.desired.project_id)?.desired.default_environment_id === it.meta.id;
}

export const environments = defineResource({
  kind: 'environment',
  word: 'Environment',
  project: ({ desired }) => desired.project_id,
  under: 'projectId',
  answer: Environment,
  seen: (it, view) => ({ is_default: isDefaultEnvironment(it, view) }),
  show: toEnvironment,
  list: {
    texts: ({ desired }) => [desired.name, desired.display_name],
    status: { values: LifePhase.options, of: lifeStatus },
  },
  isSettled,
  verbs: environmentVerbs,
  watch: {
    shows: {
      /** A project names its default environment, so that its change may change two environments. */
      project({ before, after }) {
        const [old, now] = [before?.desired.default_environment_id, after?.desired.default_environment_id];
        return old === now || now === undefined ? [] : [old, now].filter((id) => id !== undefined);
      },
    },
  },
});
