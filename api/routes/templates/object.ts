import { defined } from '../../../store/defined.ts';
import { foldName } from '../../../store/fold-name.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { badField } from '../../ground/api-error.ts';
import { assign, given, readOnlyFields } from '../../resources/object-fields.ts';
import {
  Template,
  TemplateCreate,
  TemplateExport,
  TemplateImport,
  templates,
  TemplateUpdate,
  toExport,
  withContent,
} from '../../resources/template.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { requireOwnTemplate } from '../../rights/own-templates.ts';
import { listEndpoint } from '../resource-endpoints.ts';

export const listTemplates = listEndpoint(
  templates,
  { path: '/templates', summary: 'Templates of the tenant, without their texts' },
  ({ view }) => view.list('template'),
);

export const getTemplate = defineEndpoint({
  method: 'GET',
  path: '/templates/:id',
  summary: 'A template with its text',
  on: ['template', 'id'],
  response: Template,
  handle: async ({ view }, { it }) => shown(it, view),
});

export const createTemplate = defineEndpoint({
  method: 'POST',
  path: '/templates',
  summary: 'Keep a text as a template, once it is valid',
  body: TemplateCreate,
  response: Template,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    const { labels, ...fields } = body;
    requireTemplateRoom(ctx.view);
    const unit = ctx.repo.begin();
    const it = unit.create('template', ctx.random.id(), await templateFrom(ctx, fields), defined({ labels }));
    return ctx.commit(unit, () => shown(it, ctx.view));
  },
});

export const updateTemplate = defineEndpoint({
  method: 'PUT',
  path: '/templates/:id',
  summary: 'Change a template: its instances stay as they are',
  on: ['template', 'id'],
  body: TemplateUpdate,
  readOnly: readOnlyFields(Template, TemplateUpdate),
  response: Template,
  heavy: true,
  handle: async (ctx, { it, body }) => {
    requireOwnTemplate(ctx.principal, it);
    const { labels, content, name, tags, ...texts } = body;
    if (typeof content === 'string') await requireTemplate(content);
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.name = name ?? draft.name;
      draft.content = content ?? draft.content;
      if (tags !== undefined) draft.tags = tags ?? [];
      assign(draft, 'display_name', texts.display_name);
      assign(draft, 'description', texts.description);
      assign(draft, 'icon', texts.icon);
      assign(draft, 'color', texts.color);
    });
    if (labels !== undefined) unit.label(it, labels);
    return ctx.commit(unit, () => shown(changed, ctx.view));
  },
});

export const deleteTemplate = defineEndpoint({
  method: 'DELETE',
  path: '/templates/:id',
  summary: 'Delete a template; what was made of it stays',
  on: ['template', 'id'],
  handle: async (ctx, { it }) => {
    requireOwnTemplate(ctx.principal, it);
    const unit = ctx.repo.begin();
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

export const exportTemplate = defineEndpoint({
  method: 'GET',
  path: '/templates/:id/export',
  summary: 'A template as a file that POST /templates/import takes',
  on: ['template', 'id'],
  response: TemplateExport,
  handle: async (_ctx, { it }) => toExport(it),
});

export const importTemplate = defineEndpoint({
  method: 'POST',
  path: '/templates/import',
  summary: 'Make a template of an exported one',
  body: TemplateImport,
  response: Template,
  status: 201,
  heavy: true,
  handle: async (ctx, { body }) => {
    const { on_conflict: onConflict, format: _format, labels, ...fields } = body;
    const desired = await templateFrom(ctx, fields);
    const namesake = namesakeOf(ctx.view, desired.name);
    const unit = ctx.repo.begin();
    if (namesake !== undefined && onConflict === 'replace') {
      requireOwnTemplate(ctx.principal, namesake);
      const { author_id } = namesake.desired;
      const changed = unit.change(namesake, (draft) => {
        for (const field of ['display_name', 'description', 'icon', 'color'] as const)
          assign(draft, field, desired[field] ?? null);
        Object.assign(draft, { tags: desired.tags, content: desired.content, author_id });
      });
      if (labels !== undefined) unit.label(namesake, labels);
      return ctx.commit(unit, () => shown(changed, ctx.view));
    }
    requireTemplateRoom(ctx.view);
    if (namesake !== undefined && onConflict === 'rename') desired.name = freeName(ctx.view, desired.name);
    const it = unit.create('template', ctx.random.id(), desired, defined({ labels }));
    return ctx.commit(unit, () => shown(it, ctx.view));
  },
});

function shown(it: ReadonlyResource<'template'>, view: TenantView): Template {
  return withContent(templates.answerOf(it, view), it);
}

export function requireTemplateRoom(view: TenantView): void {
  requireRoom(view.list('template').length, countLimits.templatesPerTenant, {
    where: 'The tenant',
    what: 'templates',
    remedy: 'delete one that nobody uses',
  });
}

/** The desired state of a template; what is not sent beside the text is taken of it. @throws ApiError BAD_REQUEST */
export async function templateFrom(
  { principal }: Pick<RequestContext, 'principal'>,
  { content, tags, ...sent }: Omit<TemplateCreate, 'labels'>,
): Promise<DesiredOf<'template'>> {
  const { metadata } = await requireTemplate(content);
  const name = sent.name ?? metadata.name;
  if (name === undefined)
    throw badField('name', 'required', 'name is required: the text has no metadata.name, by which it would be called');
  const or = <T>(own: T | null | undefined, ofText: T | null | undefined) => (own === undefined ? ofText : own);
  return {
    name,
    ...given({
      display_name: or(sent.display_name, metadata.display_name),
      description: or(sent.description, metadata.description),
      icon: or(sent.icon, metadata.icon),
      color: or(sent.color, metadata.color),
    }),
    tags: or(tags, metadata.tags) ?? [],
    content,
    author_id: principal.user.meta.id,
  };
}

/** Reads a text that must be a template. @throws ApiError BAD_REQUEST with each fault and its place */
async function requireTemplate(content: string) {
  const { readTemplate } = await import('../../templates/read.ts'); // few requests need it and its parser of YAML
  const { requireValid } = await import('../../templates/report.ts');
  const read = readTemplate(content);
  requireValid(read);
  return read;
}

function namesakeOf(view: TenantView, name: string): ReadonlyResource<'template'> | undefined {
  const folded = foldName(name);
  return view.list('template').find(({ desired }) => foldName(desired.name) === folded);
}

function freeName(view: TenantView, name: string): string {
  const start = name.slice(0, 90).replace(/[\uD800-\uDBFF]$/, '');
  for (let suffix = 2; ; suffix += 1) {
    const free = `${start}-${suffix}`;
    if (namesakeOf(view, free) === undefined) return free;
  }
}
