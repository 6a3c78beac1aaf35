import { z } from 'zod';
import type { DeclaredKind } from '../../store/declared/leaves.ts';
import { DriftPolicy } from '../../store/kinds/template-instance.ts';
import { ApplicationCreate } from '../resources/application.ts';
import { DatabaseCreate } from '../resources/database.ts';
import { EnvironmentCreate } from '../resources/environment.ts';
import { FunctionCreate } from '../resources/function.ts';
import { Labels } from '../resources/object-fields.ts';
import { VariableValues } from '../resources/template.ts';
import { MountPath } from '../resources/volume.ts';

/** Most objects of one text. */
export const maxObjects = 200;

const Named = z.string().min(1).max(100);

const place = {
  project: Named.optional().meta({ description: 'The project that it is applied to; absent: that one' }),
  environment: Named.optional().meta({ description: 'By default the default one of the project' }),
  server: Named.optional().meta({ description: 'By default that of the project' }),
};

const EnvironmentSpec = EnvironmentCreate.omit({ name: true, labels: true }).extend({ project: place.project });

const VolumeSpec = z.strictObject(place);

const DatabaseSpec = DatabaseCreate.omit({
  project_id: true,
  environment_id: true,
  server_id: true,
  name: true,
  labels: true,
  backup_mode: true,
  pitr_enabled: true,
  backup_destination_id: true,
  backup_schedule: true,
  backup_retention_count: true,
}).extend(place);

const Mounts = z
  .array(z.strictObject({ volume: Named, path: MountPath, read_only: z.boolean().optional() }))
  .max(20)
  .optional()
  .meta({ description: 'Volumes of its environment that it mounts' });

const ApplicationSpec = ApplicationCreate.omit({
  project_id: true,
  environment_id: true,
  server_id: true,
  registry_id: true,
  git_credential_id: true,
  name: true,
  labels: true,
}).extend({
  ...place,
  source_type: ApplicationCreate.shape.source_type
    .optional()
    .meta({ description: 'By default git with repository_url, compose with compose_file, else image' }),
  registry: Named.optional(),
  git_credential: Named.optional(),
  volumes: Mounts,
});

const FunctionSpec = FunctionCreate.omit({
  project_id: true,
  environment_id: true,
  server_id: true,
  name: true,
  labels: true,
}).extend({ ...place, volumes: Mounts });

const TemplateInstanceSpec = z.strictObject({
  ...place,
  template: Named.meta({ description: 'Whose present text it is made of' }),
  variables: VariableValues.optional(),
  drift: DriftPolicy.optional(),
});

function declared<K extends string, S extends z.ZodType>(kind: K, spec: S) {
  return z.strictObject({
    apiVersion: z.literal('setpoint/v1'),
    kind: z.literal(kind),
    metadata: z.strictObject({
      name: EnvironmentCreate.shape.name,
      moved_from: Named.optional().meta({
        description: 'Its name before, in the same environment: what has that name is renamed, and keeps what it holds',
      }),
      labels: Labels.optional(),
    }),
    spec,
  });
}

/** What can be declared, by the word in `kind`, in the order in which it is made. */
export const declaredSchemas = {
  Environment: declared('Environment', EnvironmentSpec),
  Volume: declared('Volume', VolumeSpec),
  Database: declared('Database', DatabaseSpec),
  Application: declared('Application', ApplicationSpec),
  Function: declared('Function', FunctionSpec),
  TemplateInstance: declared('TemplateInstance', TemplateInstanceSpec),
} as const;

export type DeclaredWord = keyof typeof declaredSchemas;
export const declaredWords = [
  'Environment',
  'Volume',
  'Database',
  'Application',
  'Function',
  'TemplateInstance',
] as const satisfies DeclaredWord[];

/** The kind of what a word declares. */
export const kindOfWord = {
  Environment: 'environment',
  Volume: 'volume',
  Database: 'database',
  Application: 'application',
  Function: 'function',
  TemplateInstance: 'template_instance',
} as const satisfies Record<DeclaredWord, DeclaredKind>;

export type DeclaredOf<W extends DeclaredWord> = z.output<(typeof declaredSchemas)[W]>;
export type DeclaredObject = { [W in DeclaredWord]: DeclaredOf<W> }[DeclaredWord];
