import { visibleProjects } from '../authorize.ts';
import { caps, requireRoom } from '../caps.ts';
import { defineEndpoint, defineList } from '../endpoint.ts';
import { PageQuery, pageOf } from '../paging.ts';
import { usableServer } from '../references.ts';
import { assign, given, readOnlyFields } from '../resources/object-fields.ts';
import { keptProject, Project, ProjectCreate, projectSettle, ProjectUpdate, toProject } from '../resources/project.ts';
import { noDefaultServer, requireSingleServer } from '../single-server.ts';
import { lifeStatus } from '../status.ts';

export const listProjects = defineList({
  path: '/projects',
  summary: 'Projects that one may see',
  query: PageQuery,
  item: Project,
  handle: async (ctx, { query }) => {
    const visible = visibleProjects(ctx.principal, ctx.view);
    const all = ctx.view.list('project');
    const candidates = visible === 'all' ? all : all.filter((it) => visible.has(it.meta.id));
    const { items, meta } = pageOf(
      candidates,
      query,
      {
        texts: ({ desired }) => [desired.name, desired.display_name],
        status: lifeStatus,
        sorts: { name: (it) => it.desired.name },
      },
      ctx.view,
    );
    return { items: items.map((it) => keptProject(ctx.keep, it)), meta };
  },
});

export const createProject = defineEndpoint({
  method: 'POST',
  path: '/projects',
  summary: 'Create a project, with an environment called production',
  body: ProjectCreate,
  response: Project,
  status: 201,
  settle: projectSettle,
  handle: async (ctx, { body }) => {
    const { labels, ...fields } = body;
    requireRoom(ctx.view.list('project').length, caps.projectsPerTenant, {
      where: 'The tenant',
      what: 'projects',
      remedy: 'delete one that is not needed',
    });
    const unit = ctx.repo.begin();
    unit.require(ctx.principal.user);
    if (typeof fields.default_server_id === 'string') {
      // whoever creates a project owns it
      const asOwner = { view: ctx.view, access: { ...ctx.access, column: 'owner' } } as const;
      unit.require(usableServer(asOwner, fields.default_server_id, 'default_server_id'));
    }
    if (fields.single_server_mode === true && typeof fields.default_server_id !== 'string') throw noDefaultServer();
    const id = ctx.random.id();
    const environmentId = ctx.random.id();
    const project = unit.create(
      'project',
      id,
      {
        single_server_mode: false,
        auto_error_tracking_enabled: false,
        ...given(fields),
        name: body.name,
        owner_id: ctx.principal.user.meta.id,
        default_environment_id: environmentId,
      },
      labels === undefined ? {} : { labels },
    );
    unit.create('environment', environmentId, { project_id: id, name: 'production', type: 'production' });
    return ctx.commit(unit, () => toProject(project));
  },
});

export const getProject = defineEndpoint({
  method: 'GET',
  path: '/projects/:id',
  summary: 'A project',
  on: ['project', 'id'],
  response: Project,
  handle: async (ctx, { it }) => keptProject(ctx.keep, it),
});

export const updateProject = defineEndpoint({
  method: 'PUT',
  path: '/projects/:id',
  summary: 'Change fields of a project; only what is sent changes',
  on: ['project', 'id'],
  body: ProjectUpdate,
  readOnly: readOnlyFields(Project, ProjectUpdate),
  response: Project,
  settle: projectSettle,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    if (typeof body.default_server_id === 'string')
      unit.require(usableServer(ctx, body.default_server_id, 'default_server_id'));
    const changed = unit.change(it, (draft) => {
      draft.name = body.name ?? draft.name;
      // what always has a value is cleared to what it is without one
      if (body.single_server_mode !== undefined) draft.single_server_mode = body.single_server_mode ?? false;
      if (body.auto_error_tracking_enabled !== undefined)
        draft.auto_error_tracking_enabled = body.auto_error_tracking_enabled ?? false;
      assign(draft, 'display_name', body.display_name);
      assign(draft, 'description', body.description);
      assign(draft, 'color', body.color);
      assign(draft, 'default_server_id', body.default_server_id);
    });
    if (body.labels !== undefined) unit.label(it, body.labels);
    await requireSingleServer(ctx, unit, it, changed);
    return ctx.commit(unit, () => toProject(changed));
  },
});

export const deleteProject = defineEndpoint({
  method: 'DELETE',
  path: '/projects/:id',
  summary: 'Delete a project and all its resources',
  on: ['project', 'id'],
  response: Project,
  settle: projectSettle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const deleted = unit.change(it, () => undefined);
    unit.requestDelete(it);
    return ctx.commit(unit, () => toProject(deleted));
  },
});
