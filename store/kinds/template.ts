import { z } from 'zod';
import { defineKind } from './define.ts';
import { Color, Id, Name } from './fields.ts';

/** Most bytes of the text of a template. */
export const maxTemplateBytes = 256 * 1024;

export const TemplateVariableType = z.enum([
  'string',
  'number',
  'boolean',
  'enum',
  'domain',
  'email',
  'password',
  'secret',
  'port',
  'size',
  'cron',
]);

/** A text that declares applications, databases and volumes, with variables, for everybody of the tenant. */
export const template = defineKind({
  kind: 'template',
  version: 1,
  /** Only the API reads it. */
  ignorable: true,
  desired: z.object({
    name: Name,
    display_name: z.string().max(120).optional(),
    description: z.string().max(8000).optional(),
    icon: z.string().max(2048).optional(),
    color: Color.optional(),
    tags: z.array(z.string().max(40)).max(20).default([]),
    /** YAML. It has no secrets: those are variables. */
    content: z.string(),
    /** Who made it, and may change it. */
    author_id: Id,
  }),
  observed: z.object({}),
  unique: (d) => [{ scope: 'all', name: d.name }],
  keep: { untilDeleted: 'Its author or an admin deletes it' },
});
