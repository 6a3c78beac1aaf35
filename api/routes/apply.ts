import { z } from 'zod';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { badField } from '../ground/api-error.ts';
import { Reference } from '../resources/object-fields.ts';
import { Plan, planFields } from '../resources/plan.ts';
import { referred } from '../workloads/references.ts';

/** Most bytes of a text that is applied. */
const maxBytes = 256 * 1024;

const Word = z
  .string()
  .min(1)
  .max(100)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, 'Must be a word such as shop or ci/main')
  .refine((word) => !word.startsWith('sync/'), 'sync/ is for syncs: choose another word');

export const applyDeclared = defineEndpoint({
  method: 'POST',
  path: '/apply',
  summary:
    'Bring environments, volumes, databases and applications of a project to what a text declares; with dry_run only the plan',
  projectFrom: 'body.project_id',
  body: z.strictObject({
    project_id: Reference,
    content: z
      .string()
      .refine((text) => Buffer.byteLength(text) <= maxBytes, `Must be at most ${maxBytes / 1024} KiB`)
      .meta({ description: 'YAML or JSON: objects with apiVersion, kind, metadata and spec' }),
    manager: Word.default('apply').meta({
      description: 'Who declares: what others have set is a conflict, unless the step is forced',
    }),
    set: Word.optional().meta({ description: 'What these objects belong to, for prune' }),
    prune: z.boolean().optional().meta({
      description: 'Delete what the manager applied with this set before, and does not declare any more',
    }),
    deploy: z.boolean().optional().meta({ description: 'false: applications and functions are not deployed by it' }),
    ...planFields,
  }),
  response: Plan,
  heavy: true,
  handle: async (ctx, { body }) => {
    const { prune = false, set, manager, force = [], deploy = true, dry_run: isDryRun = false } = body;
    if (prune && set === undefined)
      throw badField('set', 'required', 'set is required with prune: it says what may be deleted');
    const project = referred(ctx.view, 'project', body.project_id, 'project_id');
    // few requests need them and their parser of YAML
    const { readDeclared } = await import('../declared/read.ts');
    const { applyObjects } = await import('../declared/apply.ts');
    const objects = readDeclared(body.content);
    const of = { project, objects, manager, set, prune, force, deploys: deploy, startsStopped: true, isDryRun };
    return applyObjects(ctx, of);
  },
});

export const exportProject = defineEndpoint({
  method: 'GET',
  path: '/projects/:id/export',
  summary: 'What is in a project as a text that applies back to no change; secrets are left out, and named',
  on: ['project', 'id'],
  response: z
    .object({
      content: z.string().meta({ description: 'YAML, for POST /apply' }),
      left_out: z
        .array(z.string())
        .meta({ description: 'What stays as it is where the text is applied, such as secrets' }),
    })
    .meta({ id: 'ProjectExport' }),
  handle: async (ctx, { it }) => {
    const { exportProject: exported } = await import('../declared/export.ts');
    return exported(ctx, it);
  },
});
