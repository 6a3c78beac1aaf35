import { defined } from '../../../store/defined.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Template, TemplateFromWorkloads, templates, withContent } from '../../resources/template.ts';
import { requireTemplateRoom, templateFrom } from './object.ts';

export const templateFromWorkloads = defineEndpoint({
  method: 'POST',
  path: '/templates/from-workloads',
  summary: 'Make a template of applications, databases, volumes and functions that there are; secrets become variables',
  body: TemplateFromWorkloads,
  response: Template,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    const { labels, application_ids, database_ids, volume_ids, function_ids, ...fields } = body;
    const { textOfWorkloads } = await import('../../templates/from-workloads.ts'); // few requests need it
    requireTemplateRoom(ctx.view);
    const sources = { application_ids, database_ids, volume_ids, function_ids };
    const content = textOfWorkloads(ctx, fields.name, sources);
    const desired = await templateFrom(ctx, { ...fields, content });
    const unit = ctx.repo.begin();
    const it = unit.create('template', ctx.random.id(), desired, defined({ labels }));
    return ctx.commit(unit, () => withContent(templates.answerOf(it, ctx.view), it));
  },
});
