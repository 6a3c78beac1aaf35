import { z } from 'zod';
import { maxTemplateBytes, TemplateVariableType, template } from '../../store/kinds/template.ts';
import { Color } from '../../store/kinds/fields.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { templateVerbs } from '../../rules/template.ts';
import { FreeText, Line } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { usedByEach } from './paging.ts';
import { defineResource } from './resource.ts';

const nullableText = z.string().nullable();

export const Template = z
  .object({
    ...objectFields,
    name: z.string(),
    display_name: nullableText,
    description: nullableText,
    icon: nullableText,
    color: nullableText,
    tags: z.array(z.string()),
    content: nullableText.meta({ description: 'The text itself; null in lists and in /ws/watch' }),
    author_id: z.string().meta({ description: 'Who made it, and may change it' }),
    instance_count: z.int(),
    status: z.enum(templateVerbs.states).meta({ description: 'used: there are instances of it' }),
  })
  .meta({ id: 'Template' });
export type Template = z.infer<typeof Template>;

/** What a template is described with, in its text and beside it. */
export const TemplateFields = {
  name: template.desired.shape.name,
  display_name: Line.max(120).nullish(),
  description: FreeText.max(8000).nullish(),
  icon: Line.max(2048).nullish().meta({ description: 'A name or an address' }),
  color: Color.nullish(),
  tags: z
    .array(
      z
        .string()
        .max(40)
        .regex(/^[^\p{C}\s,]([^\p{C},]*[^\p{C}\s,])?$/u, 'Must be a word without a comma'),
    )
    .max(20)
    .nullish(),
};

const TemplateContent = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= maxTemplateBytes, `Must be at most ${maxTemplateBytes / 1024} KiB`)
  .meta({ description: `YAML, at most ${maxTemplateBytes / 1024} KiB` });

const fields = { ...TemplateFields, labels: Labels.optional() };

export const TemplateCreate = z.strictObject({
  ...fields,
  name: TemplateFields.name.optional().meta({ description: 'By default that of the text, as with the fields below' }),
  content: TemplateContent,
});
export type TemplateCreate = z.infer<typeof TemplateCreate>;

export const TemplateUpdate = z
  .strictObject({ ...fields, content: TemplateContent.nullish().meta({ description: 'null: as it is' }) })
  .partial();

const exportFormat = 'setpoint/template/v1';

/** A template as a file that every installation takes. */
export const TemplateExport = z
  .object({
    format: z.literal(exportFormat),
    name: z.string(),
    display_name: nullableText,
    description: nullableText,
    icon: nullableText,
    color: nullableText,
    tags: z.array(z.string()),
    labels: z.record(z.string(), z.string()),
    content: z.string(),
  })
  .meta({ id: 'TemplateExport' });

export const TemplateImport = z.strictObject({
  ...fields,
  format: z.literal(exportFormat),
  content: TemplateContent,
  on_conflict: z.enum(['fail', 'rename', 'replace']).default('fail').meta({
    description:
      'What becomes of it if there is one of that name: 409; a free name; or the one that there is gets its text',
  }),
});

export const TemplateText = z.strictObject({ content: TemplateContent });

const Finding = z
  .object({ path: z.string(), line: z.int(), column: z.int(), message: z.string() })
  .meta({ id: 'TemplateFinding' });

export const TemplateReport = z
  .object({
    valid: z.boolean(),
    errors: z.array(Finding).meta({ description: 'At most 100' }),
    warnings: z.array(Finding).meta({ description: 'At most 100' }),
    variables: z.array(
      z
        .object({
          name: z.string(),
          type: TemplateVariableType,
          display_name: nullableText,
          description: nullableText,
          required: z.boolean().meta({ description: 'Whether there must be a value when it is instantiated' }),
          secret: z.boolean(),
          default: nullableText,
          pattern: nullableText,
          options: z.array(z.string()).nullable(),
          generated: z.boolean().meta({ description: 'Without a value, one is made' }),
        })
        .meta({ id: 'TemplateVariable' }),
    ),
    resources: z.array(
      z
        .object({
          kind: z.enum(['volume', 'database', 'application', 'function']),
          name: z.string(),
          wave: z.int().meta({ description: 'What it is made with; each wave waits until those before are up' }),
        })
        .meta({ id: 'TemplateResource' }),
    ),
  })
  .meta({ id: 'TemplateReport' });
export type TemplateReport = z.infer<typeof TemplateReport>;

export const ComposeConversion = z.strictObject({
  content: TemplateContent.meta({ description: 'A compose file, at most 256 KiB' }),
  name: TemplateFields.name.optional(),
  recognise_databases: z.boolean().optional().meta({
    description:
      'Services of images of known database engines become databases, and what refers to them refers to those',
  }),
});

/** What became of a key of a compose file. */
const Account = z
  .object({
    path: z.string(),
    line: z.int(),
    column: z.int(),
    outcome: z.enum(['kept', 'approximated', 'refused']),
    message: z.string().meta({ description: 'How, or why' }),
  })
  .meta({ id: 'ConvertedKey' });

export const ConvertedTemplate = z
  .object({
    name: z.string(),
    content: z.string().meta({ description: 'The template, as YAML' }),
    keys: z.array(Account).meta({ description: 'Every key of the file, in its order' }),
    report: TemplateReport,
  })
  .meta({ id: 'ConvertedTemplate' });
export type ConvertedTemplate = z.infer<typeof ConvertedTemplate>;

export const TemplateFromWorkloads = z
  .strictObject({
    ...fields,
    application_ids: z.array(Reference).max(50).optional(),
    database_ids: z.array(Reference).max(50).optional(),
    volume_ids: z.array(Reference).max(50).optional().meta({ description: 'Those that applications mount come along' }),
    function_ids: z.array(Reference).max(50).optional().meta({ description: 'Those that mount no volume' }),
  })
  .refine(
    ({ application_ids = [], database_ids = [], volume_ids = [], function_ids = [] }) =>
      application_ids.length + database_ids.length + volume_ids.length + function_ids.length > 0,
    'Must name an application, a database, a volume or a function',
  );

export const VariableValues = z
  .record(z.string().max(64), z.union([z.string(), z.number(), z.boolean()]).transform(String))
  .refine((all) => Object.keys(all).length <= 100, 'Must be at most 100');

export const Instantiate = z.strictObject({
  project_id: Reference,
  environment_id: Reference.nullish(),
  server_id: Reference.nullish(),
  name: TemplateFields.name
    .max(50)
    .nullish()
    .meta({ description: 'What the names of all that is made begin with; by default that of the template' }),
  variables: VariableValues.nullish(),
  labels: Labels.optional(),
});

type Seen = { count: number };

export const templates = defineResource({
  kind: 'template',
  word: 'Template',
  project: 'tenant',
  answer: Template,
  seen: ({ meta }, view): Seen => ({ count: view.by('template_instance', 'template', meta.id).length }),
  show: (it, { count }): Template => ({
    ...objectFieldsOf(it),
    name: it.desired.name,
    tags: [...it.desired.tags],
    author_id: it.desired.author_id,
    content: null,
    instance_count: count,
    status: count === 0 ? 'unused' : 'used',
    ...orNull({
      display_name: it.desired.display_name,
      description: it.desired.description,
      icon: it.desired.icon,
      color: it.desired.color,
    }),
  }),
  list: {
    texts: ({ desired }) => [desired.name, desired.display_name, desired.description, ...desired.tags],
    status: {
      values: templateVerbs.states,
      of: ({ meta }, view) => (view.by('template_instance', 'template', meta.id).length === 0 ? 'unused' : 'used'),
    },
    filters: { projectId: usedByEach },
  },
  verbs: templateVerbs,
  watch: {
    shows: {
      template_instance: ({ before, after }) => {
        const of = (after ?? before)?.desired.template_id;
        return of === undefined || (before !== undefined && after !== undefined) ? [] : [of];
      },
    },
  },
});

/** A template with its text. */
export function withContent(shown: Template, { desired }: ReadonlyResource<'template'>): Template {
  return { ...shown, content: desired.content };
}

export function toExport({ meta, desired }: ReadonlyResource<'template'>): z.infer<typeof TemplateExport> {
  return {
    format: exportFormat,
    name: desired.name,
    tags: [...desired.tags],
    labels: { ...meta.labels },
    content: desired.content,
    ...orNull({
      display_name: desired.display_name,
      description: desired.description,
      icon: desired.icon,
      color: desired.color,
    }),
  };
}
