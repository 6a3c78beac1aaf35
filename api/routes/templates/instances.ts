import { z } from 'zod';
import { defined } from '../../../store/defined.ts';
import { isDeleting } from '../../../store/resource.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { DriftPolicy } from '../../../store/kinds/template-instance.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { conflicting } from '../../ground/api-error.ts';
import { readOnlyFields } from '../../resources/object-fields.ts';
import { Instantiate } from '../../resources/template.ts';
import {
  ChangedTemplateInstance,
  TemplateInstance,
  TemplateInstanceRollback,
  templateInstances,
  TemplateInstanceUpdate,
} from '../../resources/template-instance.ts';
import type { Wanted } from '../../templates/change.ts';
import { requireInstanceRoom } from '../../workloads/instance-room.ts';
import { requireUnusedOutside } from '../../workloads/instance-users.ts';
import { enterPlace, placeFrom } from '../../workloads/place.ts';
import { referred } from '../../workloads/references.ts';
import { getEndpoint, listEndpoint } from '../resource-endpoints.ts';

export const instantiateTemplate = defineEndpoint({
  method: 'POST',
  path: '/templates/:id/instantiate',
  summary: 'Make what a template declares, in waves: volumes, databases, then applications by their references',
  on: ['template', 'id'],
  projectFrom: 'body.project_id',
  body: Instantiate,
  response: TemplateInstance,
  status: 201,
  heavy: true,
  settle: templateInstances.settle,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    const place = placeFrom(view, body);
    requireInstanceRoom(view, place.project.meta.id);
    const { newInstance } = await import('../../templates/plan.ts'); // few requests need it and its parser of YAML
    const asked = { template: it, place, name: body.name ?? undefined, variables: body.variables ?? {} };
    const { id, desired } = await newInstance(ctx, asked);
    const unit = ctx.repo.begin();
    enterPlace(unit, place);
    unit.require(it);
    const made = unit.create('template_instance', id, desired, defined({ labels: body.labels }));
    return ctx.commit(unit, () => templateInstances.answerOf(made, view));
  },
});

export const listTemplateInstances = listEndpoint(templateInstances, {
  path: '/template-instances',
  summary: 'What was made of templates in the projects that one may see',
});

export const getTemplateInstance = getEndpoint(templateInstances, {
  path: '/template-instances/:id',
  summary: 'What was made of a template, and how far each part of it is',
});

export const updateTemplateInstance = defineEndpoint({
  method: 'PUT',
  path: '/template-instances/:id',
  summary:
    'Bring an instance to the present text of a template or to other values, wave by wave; with dry_run only the plan',
  on: ['template_instance', 'id'],
  body: TemplateInstanceUpdate,
  readOnly: readOnlyFields(TemplateInstance, TemplateInstanceUpdate),
  response: ChangedTemplateInstance,
  heavy: true,
  settle: templateInstances.settle,
  handle: async (ctx, { it, body }) => {
    const { template_id: templateId, variables, drift } = body;
    // what it declares stays, and is judged again only where that changes
    if (drift !== undefined && templateId === undefined && variables === undefined && body.dry_run !== true)
      return setDrift(ctx, it, drift);
    const source = templateId === undefined ? undefined : referred(ctx.view, 'template', templateId, 'template_id');
    const { desired } = it;
    // an instance of an earlier release has no text of its own
    const { content = ctx.view.get('template', desired.template_id)?.desired.content } = desired;
    const text = source?.desired.content ?? content;
    if (text === undefined)
      throw conflicting(
        'The instance has no text of its own, and its template is gone: name a template by template_id',
      );
    const wanted = {
      template_id: source?.meta.id ?? desired.template_id,
      template_name: source?.desired.name ?? desired.template_name,
      content: text,
      variables: desired.variables,
      given: variables ?? {},
    };
    return changeInstance(ctx, it, { wanted, drift, source, ...body });
  },
});

export const rollBackTemplateInstance = defineEndpoint({
  method: 'POST',
  path: '/template-instances/:id/rollback',
  summary: 'Bring an instance back to the text and the values of a former revision, by default the one before',
  on: ['template_instance', 'id'],
  body: TemplateInstanceRollback,
  response: ChangedTemplateInstance,
  heavy: true,
  settle: templateInstances.settle,
  handle: async (ctx, { it, body }) => {
    const formers = it.desired.formers ?? [];
    const former =
      typeof body.revision === 'number' ? formers.find(({ revision }) => revision === body.revision) : formers[0];
    if (former === undefined)
      throw conflicting(
        formers.length === 0
          ? 'There is no former revision to return to'
          : `There is no former revision ${body.revision}: it is one of ${formers.map(({ revision }) => revision).join(', ')}`,
      );
    const { contentOfFormer } = await import('../../templates/change.ts');
    const content = contentOfFormer(it.desired, former.revision);
    if (content === undefined) throw new Error(`Former revision ${former.revision} has no text`);
    const { template_id, template_name, variables } = former;
    const wanted = { template_id, template_name, content, variables, given: {} };
    return changeInstance(ctx, it, { wanted, ...body });
  },
});

async function setDrift(ctx: RequestContext, it: ReadonlyResource<'template_instance'>, drift: DriftPolicy) {
  const unit = ctx.repo.begin();
  const changed: ReadonlyResource<'template_instance'> = unit.change(it, (draft) => {
    if (drift !== (draft.drift ?? 'warn')) draft.drift = drift;
  });
  const plan = { dry_run: false, changes: false, steps: [], needs_force: [] };
  return ctx.commit(unit, () => ({ ...templateInstances.answerOf(changed, ctx.view), plan }));
}

interface Changing {
  wanted: Wanted;
  drift?: DriftPolicy | undefined;
  /** The template whose text is taken. */
  source?: ReadonlyResource<'template'> | undefined;
  dry_run?: boolean | undefined;
  force?: readonly string[] | undefined;
}

/** Plans a change of an instance, and writes it unless only the plan is asked for. @throws ApiError */
async function changeInstance(ctx: RequestContext, it: ReadonlyResource<'template_instance'>, asked: Changing) {
  const { view } = ctx;
  const { wanted, drift, source, dry_run: isDryRun = false, force = [] } = asked;
  const { project_id, environment_id, server_id } = it.desired;
  const place = placeFrom(view, { project_id, environment_id, server_id });
  // few requests need it and its parser of YAML
  const { planChange, planOf, requireForce } = await import('../../templates/change.ts');
  const planned = await planChange(ctx, it, place, wanted);
  const plan = planOf(planned, isDryRun);
  if (isDryRun) return { ...templateInstances.answerOf(it, view), plan };
  requireForce(planned.steps, force);
  const unit = ctx.repo.begin();
  const changed: ReadonlyResource<'template_instance'> = unit.change(it, (draft) => {
    planned.write(draft);
    if (drift !== undefined && drift !== (draft.drift ?? 'warn')) draft.drift = drift;
    if (planned.changes) draft.requested_by = ctx.principal.user.meta.id;
  });
  if (planned.changes) {
    enterPlace(unit, place);
    if (source !== undefined) unit.require(source);
    for (const one of planned.adopted) unit.require(one);
  }
  return ctx.commit(unit, () => ({ ...templateInstances.answerOf(changed, view), plan }));
}

export const deleteTemplateInstance = defineEndpoint({
  method: 'DELETE',
  path: '/template-instances/:id',
  summary:
    'Delete what was made of a template, the last first; with keep_data=true volumes and databases stay, without it nothing else may use them',
  on: ['template_instance', 'id'],
  query: z.object({ keep_data: z.enum(['true', 'false']).optional() }),
  response: TemplateInstance,
  settle: templateInstances.settle,
  handle: async (ctx, { it, query }) => {
    const isKept = query.keep_data === 'true' || it.desired.keep_data === true;
    if (!isKept && !isDeleting(it)) requireUnusedOutside(ctx.view, it);
    const unit = ctx.repo.begin();
    const deleted: ReadonlyResource<'template_instance'> = unit.change(it, (draft) => {
      if (query.keep_data === 'true') draft.keep_data = true; // also of a deletion that has begun: what is left stays
    });
    unit.requestDelete(it);
    return ctx.commit(unit, () => templateInstances.answerOf(deleted, ctx.view));
  },
});
