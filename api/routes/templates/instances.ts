import { z } from 'zod';
import { defined } from '../../../store/defined.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Instantiate } from '../../resources/template.ts';
import { TemplateInstance, templateInstances } from '../../resources/template-instance.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { enterPlace, placeFrom } from '../../workloads/place.ts';
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
    requireRoom(
      view.by('template_instance', 'project', place.project.meta.id).length,
      countLimits.templateInstancesPerProject,
      { where: 'The project', what: 'template instances', remedy: 'delete one that is not needed' },
    );
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

export const deleteTemplateInstance = defineEndpoint({
  method: 'DELETE',
  path: '/template-instances/:id',
  summary: 'Delete what was made of a template, the last first; with keep_data=true volumes and databases stay',
  on: ['template_instance', 'id'],
  query: z.object({ keep_data: z.enum(['true', 'false']).optional() }),
  response: TemplateInstance,
  settle: templateInstances.settle,
  handle: async (ctx, { it, query }) => {
    const unit = ctx.repo.begin();
    const deleted: ReadonlyResource<'template_instance'> = unit.change(it, (draft) => {
      if (query.keep_data === 'true') draft.keep_data = true; // also of a deletion that has begun: what is left stays
    });
    unit.requestDelete(it);
    return ctx.commit(unit, () => templateInstances.answerOf(deleted, ctx.view));
  },
});
