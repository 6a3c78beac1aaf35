import { z } from 'zod';
import { TemplateVariableType } from '../../store/kinds/template.ts';
import { DriftPolicy, maxDrift, maxFormers, TemplateInstancePhase } from '../../store/kinds/template-instance.ts';
import { childProgress } from '../../store/instance-progress.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { templateInstanceVerbs } from '../../rules/template-instance.ts';
import { objectFields, objectFieldsOf, Reference } from './object-fields.ts';
import { Plan, planFields } from './plan.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';
import { VariableValues } from './template.ts';

const Child = z
  .object({
    kind: z.enum(['volume', 'database', 'application', 'function']),
    id: z.string(),
    key: z.string().meta({ description: 'What the template calls it' }),
    name: z.string(),
    wave: z.int(),
    state: z
      .enum(['waiting', 'outdated', 'starting', 'up', 'stopped', 'failed', 'gone'])
      .meta({ description: 'waiting: it is not made yet; outdated: its change is yet to come; gone: it was deleted' }),
    message: z.string(),
  })
  .meta({ id: 'TemplateInstanceChild' });
type Child = z.infer<typeof Child>;

const shown = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const DriftedField = z
  .object({
    kind: Child.shape.kind,
    key: z.string(),
    id: z.string(),
    field: z.string(),
    declared: shown.meta({ description: 'null: a secret, or nothing' }),
    live: shown,
  })
  .meta({ id: 'DriftedField' });
type DriftedField = z.infer<typeof DriftedField>;

export const TemplateInstance = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    name: z.string(),
    template_id: z.string().meta({ description: 'The template may be gone' }),
    template_name: z.string(),
    template_version: z.string().nullable().meta({ description: 'As its text says' }),
    revision: z.int().meta({ description: 'Counts its changes' }),
    revisions: z
      .array(
        z.object({
          revision: z.int(),
          template_name: z.string(),
          template_version: z.string().nullable(),
          until: z.string(),
        }),
      )
      .meta({ description: `Former ones that it can be rolled back to, at most ${maxFormers}, the newest first` }),
    drift: DriftPolicy.meta({ description: 'What becomes of fields that somebody changes by hand' }),
    drifted: z
      .array(DriftedField)
      .meta({ description: `Fields of children that were changed by hand, at most ${maxDrift}` }),
    variables: z
      .array(z.object({ name: z.string(), type: TemplateVariableType, generated: z.boolean() }))
      .meta({ description: 'What it was made with, without the values' }),
    children: z.array(Child).meta({ description: 'What it makes, in the order in which it makes them' }),
    waves: z.int(),
    ready_children: z.int(),
    requested_by: z.string(),
    status: TemplateInstancePhase,
  })
  .meta({ id: 'TemplateInstance' });
export type TemplateInstance = z.infer<typeof TemplateInstance>;

/** An instance, and the plan of the request that changes it. */
export const ChangedTemplateInstance = TemplateInstance.extend({
  plan: Plan.optional().meta({ description: 'Absent of an answer that was waited for' }),
}).meta({ id: 'ChangedTemplateInstance' });

/** An answer has no values: what it shows of variables can be sent back, and changes none. */
function unlessShown(value: unknown): unknown {
  return TemplateInstance.shape.variables.safeParse(value).success ? undefined : value;
}

export const TemplateInstanceUpdate = z.strictObject({
  template_id: Reference.optional().meta({
    description: 'The template whose present text it gets; absent: it keeps the text that it has',
  }),
  variables: z.preprocess(unlessShown, VariableValues.nullish()).meta({
    description: 'Values that change; the others stay, and what was generated does in any case',
  }),
  drift: DriftPolicy.optional(),
  ...planFields,
});

export const TemplateInstanceRollback = z.strictObject({
  revision: z.int().min(1).nullish().meta({ description: 'One of revisions; by default the newest' }),
  ...planFields,
});

type It = ReadonlyResource<'template_instance'>;

function driftedOf({ desired, observed }: It): DriftedField[] {
  return (observed?.drift ?? []).flatMap(({ id, field, declared, live }) => {
    const child = desired.children.find((one) => one.id === id);
    return child === undefined ? [] : [{ kind: child.kind, key: child.key, id, field, declared, live }];
  });
}

function instanceStatus(it: It): TemplateInstancePhase {
  return isDeleting(it) ? 'deleting' : (it.observed?.phase ?? 'pending');
}

function childrenOf(it: It, view: TenantView): Child[] {
  return it.desired.children.map((child) => {
    const { kind, id, key, wave } = child;
    const { state, message } = childProgress(view, it, child);
    const name = view.get(kind, id)?.desired.name ?? child.desired.name;
    return { kind, id, key, name, wave, state, message };
  });
}

export const templateInstances = defineResource({
  kind: 'template_instance',
  word: 'Template instance',
  project: ({ desired }) => desired.project_id,
  answer: TemplateInstance,
  seen: (it, view) => ({ children: childrenOf(it, view) }),
  show: (it, { children }: { children: Child[] }): TemplateInstance => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id,
    environment_id: it.desired.environment_id,
    server_id: it.desired.server_id,
    name: it.desired.name,
    template_id: it.desired.template_id,
    template_name: it.desired.template_name,
    template_version: it.desired.template_version ?? null,
    revision: it.desired.revision ?? 1,
    revisions: (it.desired.formers ?? []).map(({ revision, template_name, template_version, until }) => ({
      revision,
      template_name,
      template_version: template_version ?? null,
      until,
    })),
    drift: it.desired.drift ?? 'warn',
    drifted: driftedOf(it),
    variables: Object.entries(it.desired.variables).map(([name, { type, generated }]) => ({
      name,
      type,
      generated: generated === true,
    })),
    children,
    waves: Math.max(...children.map(({ wave }) => wave)) + 1,
    ready_children: children.filter(({ state }) => state === 'up').length,
    requested_by: it.desired.requested_by,
    status: instanceStatus(it),
  }),
  list: {
    texts: ({ desired }) => [desired.name, desired.template_name],
    status: { values: TemplateInstancePhase.options, of: instanceStatus },
  },
  verbs: templateInstanceVerbs,
  isSettled: (it) => isReconciled(it) && !['pending', 'deploying', 'deleting'].includes(instanceStatus(it)),
  watch: {
    shows: {
      volume: ({ before, after }) => instanceOf(before, after),
      database: ({ before, after }) => instanceOf(before, after),
      application: ({ before, after }) => instanceOf(before, after),
      deployment({ after }, view) {
        const it = after && view.get('application', after.desired.application_id);
        return [it?.desired.template_instance_id].filter((id) => id !== undefined);
      },
    },
  },
});

interface Owned {
  readonly desired: { readonly template_instance_id?: string | undefined };
}

function instanceOf(before: Owned | undefined, after: Owned | undefined): string[] {
  return [...new Set([before, after].flatMap((it) => it?.desired.template_instance_id ?? []))];
}
