import { defined } from '../../../store/defined.ts';
import { settingsOf } from '../../../store/settings.ts';
import { forbidden } from '../../ground/api-error.ts';
import { isTenantAdmin } from '../../rights/authorize.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { usableServer } from '../../workloads/references.ts';
import { deleteEndpoint, getEndpoint, listEndpoint, updateEndpoint } from '../resource-endpoints.ts';
import { assign, given } from '../../resources/object-fields.ts';
import { Project, ProjectCreate, projects, ProjectUpdate } from '../../resources/project.ts';
import { requireSingleServer } from '../../workloads/single-server.ts';

export const listProjects = listEndpoint(projects, { path: '/projects', summary: 'Projects that one may see' });

export const createProject = defineEndpoint({
  method: 'POST',
  path: '/projects',
  summary: 'Create a project, with an environment called production',
  body: ProjectCreate,
  response: Project,
  status: 201,
  settle: projects.settle,
  handle: async (ctx, { body }) => {
    const { labels, ...fields } = body;
    requireCreator(ctx);
    const id = ctx.random.id();
    requireRoom(ctx.view.list('project').length, countLimits.projectsPerTenant, {
      where: 'The tenant',
      what: 'projects',
      remedy: 'delete one that is not needed',
    });
    const unit = ctx.repo.begin();
    unit.require(ctx.principal.user);
    if (typeof fields.default_server_id === 'string')
      unit.require(usableServer(ctx.view, fields.default_server_id, 'default_server_id', id));
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
      defined({ labels }),
    );
    unit.create('environment', environmentId, { project_id: id, name: 'production', type: 'production' });
    return ctx.commit(unit, () => projects.answerOf(project, ctx.view));
  },
});

/**
 * @throws ApiError FORBIDDEN if the settings or a confined account do not allow it; CONFLICT if the user has too many
 *   projects
 */
function requireCreator({ principal, view }: RequestContext): void {
  if (isTenantAdmin(principal)) return;
  if (settingsOf(view).project_creation === 'admins')
    throw forbidden('Only admins create projects here: ask one to create it and to transfer it to you');
  if (principal.user.desired.confined_to !== undefined)
    throw forbidden(
      'The account was made by an invite to one project and is confined to it: ask an admin of the tenant to lift that',
    );
  requireRoom(view.by('project', 'owner', principal.user.meta.id).length, countLimits.projectsPerUser, {
    where: 'The user',
    what: 'projects',
    remedy: 'delete or transfer one that is not needed',
  });
}

export const getProject = getEndpoint(projects, { path: '/projects/:id', summary: 'A project' });

export const updateProject = updateEndpoint(
  projects,
  { path: '/projects/:id', summary: 'Change fields of a project; only what is sent changes' },
  {
    body: ProjectUpdate,
    change(draft, body) {
      // null resets a field that always has a value to its default
      if (body.single_server_mode !== undefined) draft.single_server_mode = body.single_server_mode ?? false;
      if (body.auto_error_tracking_enabled !== undefined)
        draft.auto_error_tracking_enabled = body.auto_error_tracking_enabled ?? false;
      assign(draft, 'display_name', body.display_name);
      assign(draft, 'description', body.description);
      assign(draft, 'color', body.color);
      assign(draft, 'default_server_id', body.default_server_id);
    },
    async check(ctx, unit, { it, changed, body }) {
      // that of before stays, so that an answer can be sent back
      const isOther = body.default_server_id !== it.desired.default_server_id;
      if (typeof body.default_server_id === 'string' && isOther)
        unit.require(usableServer(ctx.view, body.default_server_id, 'default_server_id', it.meta.id));
      await requireSingleServer(ctx, unit, it, changed);
    },
  },
);

export const deleteProject = deleteEndpoint(projects, {
  path: '/projects/:id',
  summary: 'Delete a project and all its resources',
});
