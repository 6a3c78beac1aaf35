import { z } from 'zod';
import { ApplicationCreate } from '../resources/application.ts';
import { DatabaseCreate } from '../resources/database.ts';
import { FunctionCreate } from '../resources/function.ts';
import { Labels } from '../resources/object-fields.ts';
import { TemplateFields } from '../resources/template.ts';
import { MountPath } from '../resources/volume.ts';

/** What declarations of a template are called: references and the names of what is made of them have it. */
export const ResourceName = z
  .string()
  .regex(/^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/, 'Must be 1 to 40 lower-case letters, digits and -, a letter first');

const named = { name: ResourceName, labels: Labels.optional() };

/** An application of a template: the fields of the API, and what it mounts and waits for. */
export const TemplateApplication = ApplicationCreate.omit({
  project_id: true,
  environment_id: true,
  server_id: true,
  registry_id: true,
  git_credential_id: true,
  compose_file: true,
  compose_path: true,
  compose_service: true,
  source_type: true,
}).extend({
  ...named,
  source_type: z.enum(['git', 'image'], 'Must be git or image: a compose file is converted first').optional(),
  /** Volumes of the template that it mounts. */
  volumes: z
    .array(z.strictObject({ volume: ResourceName, path: MountPath, read_only: z.boolean().optional() }))
    .max(20)
    .optional(),
  /** Applications of the template that are to be up before it. */
  depends_on: z.array(ResourceName).max(50).optional(),
});
export type TemplateApplication = z.infer<typeof TemplateApplication>;

export const TemplateDatabase = DatabaseCreate.pick({
  type: true,
  version: true,
  display_name: true,
  database_name: true,
  database_user: true,
  password: true,
  memory_limit: true,
  cpu_limit: true,
  parameters: true,
  exposed_port: true,
  connection_pooling: true,
  require_tls: true,
}).extend(named);
export type TemplateDatabase = z.infer<typeof TemplateDatabase>;

export const TemplateVolume = z.strictObject(named);
export type TemplateVolume = z.infer<typeof TemplateVolume>;

/** Its code is used as it is: it has no expressions. */
export const TemplateFunction = FunctionCreate.omit({
  project_id: true,
  environment_id: true,
  server_id: true,
}).extend(named);
export type TemplateFunction = z.infer<typeof TemplateFunction>;

export const Metadata = z.strictObject({
  ...TemplateFields,
  name: TemplateFields.name.optional(),
  version: z.string().max(40).optional(),
  documentation: z.string().max(2048).optional(),
});
export type Metadata = z.infer<typeof Metadata>;

/** The declarations of a template by the key that they are listed under, in the order in which they are made. */
export const sections = {
  volumes: { kind: 'volume', schema: TemplateVolume },
  databases: { kind: 'database', schema: TemplateDatabase },
  applications: { kind: 'application', schema: TemplateApplication },
  functions: { kind: 'function', schema: TemplateFunction },
} as const;
export type Section = keyof typeof sections;
export const sectionNames = ['volumes', 'databases', 'applications', 'functions'] as const satisfies readonly Section[];
