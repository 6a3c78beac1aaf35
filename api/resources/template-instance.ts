import { z } from 'zod';
import { TemplateVariableType } from '../../store/kinds/template.ts';
import { TemplateInstancePhase } from '../../store/kinds/template-instance.ts';
import { childProgress } from '../../store/instance-progress.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { templateInstanceVerbs } from '../../rules/template-instance.ts';
import { objectFields, objectFieldsOf } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

const Child = z
  .object({
    kind: z.enum(['volume', 'database', 'application']),
    id: z.string(),
    key: z.string().meta({ description: 'What the template calls it' }),
    name: z.string(),
    wave: z.int(),
    state: z
      .enum(['waiting', 'starting', 'up', 'stopped', 'failed', 'gone'])
      .meta({ description: 'waiting: it is not made yet; gone: it was deleted' }),
    message: z.string(),
  })
  .meta({ id: 'TemplateInstanceChild' });
type Child = z.infer<typeof Child>;

export const TemplateInstance = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    name: z.string(),
    template_id: z.string().meta({ description: 'The template may be gone' }),
    template_name: z.string(),
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

type It = ReadonlyResource<'template_instance'>;

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
