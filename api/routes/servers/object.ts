import { defined } from '../../../store/defined.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { objectsIn } from '../../../store/objects-in.ts';
import { visibleProjects } from '../../rights/authorize.ts';
import { countLimits, requireRoom } from '../../rights/count-limits.ts';
import { grantedTo } from '../../rights/grants.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { changedIngress, givenWildcard } from '../../workloads/domains.ts';
import { changedPorts } from '../../workloads/ports.ts';
import { holdPopulation, inWords } from '../../workloads/population.ts';
import { allowedFrom } from '../../workloads/allowed-projects.ts';
import { referred } from '../../workloads/references.ts';
import {
  deleteEndpoint,
  eventsEndpoint,
  Force,
  needsForce,
  getEndpoint,
  listEndpoint,
  updateEndpoint,
} from '../resource-endpoints.ts';
import { assign, given } from '../../resources/object-fields.ts';
import { pinnedBy, ServerCreate, servers, ServerUpdate, ServerWithJoin } from '../../resources/server.ts';
import type { ServerUpdate as Update } from '../../resources/server.ts';
import { refuseDefaultServer } from '../../workloads/single-server.ts';
import { newJoin } from './join.ts';

export const listServers = listEndpoint(
  servers,
  {
    path: '/servers',
    summary: 'Servers; users of projects see id, name and status; projectId: those that the project runs on',
  },
  (ctx, { projectId }) => {
    const visible = visibleProjects(ctx.principal, ctx.view);
    const isForeign = projectId !== undefined && visible !== 'all' && !visible.has(projectId);
    return isForeign ? [] : grantedTo(ctx, ctx.view.list('server'));
  },
);

export const createServer = defineEndpoint({
  method: 'POST',
  path: '/servers',
  summary:
    'Create a server; the answer carries the command that lets its agent join, once, within 24 h. With an address and an SSH key the control plane installs the agent itself',
  body: ServerCreate,
  response: ServerWithJoin,
  status: 201,
  handle: async (ctx, { body }) => {
    requireRoom(ctx.view.list('server').length, countLimits.serversPerTenant, {
      where: 'The tenant',
      what: 'servers',
      remedy: 'delete one that is not needed',
    });
    const key = sshKeyFrom(ctx.view, body, undefined);
    const id = ctx.random.id();
    const join = await newJoin(ctx, id, fieldsOf(body).ip_address ?? undefined);
    const unit = ctx.repo.begin();
    if (key !== undefined) unit.require(key);
    const server = unit.create(
      'server',
      id,
      {
        port: 22,
        username: 'root',
        log_retention_days: 7,
        direct_ports_enabled: false,
        ...given(fieldsOf(body)),
        ...given({ direct_ports: changedPorts({}, body.direct_ports, ctx.view) }),
        ...given({ ingress: changedIngress(ctx.view, body.ingress, { given: givenWildcard(ctx, body.name) }) }),
        ...given({ allowed_projects: allowedFrom(ctx.view, body.allowed_projects) }),
        ...(body.host_key && { host_key: pinnedBy(body.host_key) }),
        name: body.name,
        ...join.stored,
      },
      defined({ labels: body.labels }),
    );
    return ctx.commit(unit, () => ({ ...servers.answerOf(server, ctx.view), ...join.shown }));
  },
});

type ServerFields = Pick<
  { [F in keyof DesiredOf<'server'>]?: DesiredOf<'server'>[F] | null },
  'ip_address' | 'port' | 'username' | 'ssh_key_id' | 'log_retention_days' | 'direct_ports_enabled'
>;

/** Merges both spellings of a field. */
function fieldsOf(body: Update): ServerFields {
  const { ipAddress, ip_address = ipAddress, sshKeyId, ssh_key_id = sshKeyId } = body;
  const { port, username, log_retention_days, direct_ports_enabled } = body;
  return defined({ port, username, log_retention_days, direct_ports_enabled, ip_address, ssh_key_id });
}

/**
 * The key that a server begins to use; `undefined`: none, or the one of before, so that an answer can be sent back. The
 * unit of the server must `require` it, or the key can be deleted meanwhile. @throws as `referred`
 */
function sshKeyFrom(
  view: TenantView,
  { sshKeyId, ssh_key_id = sshKeyId }: Update,
  before: string | undefined,
): ReadonlyResource<'ssh_key'> | undefined {
  if (ssh_key_id === undefined || ssh_key_id === null || ssh_key_id === before) return undefined;
  return referred(view, 'ssh_key', ssh_key_id, sshKeyId === undefined ? 'ssh_key_id' : 'sshKeyId');
}

export const getServer = getEndpoint(servers, {
  path: '/servers/:id',
  summary: 'A server; users of projects see id, name and status',
});

export const updateServer = updateEndpoint(
  servers,
  { path: '/servers/:id', summary: 'Change fields of a server; only what is sent changes' },
  {
    body: ServerUpdate,
    change(draft, body, ctx) {
      const { view } = ctx;
      const fields = fieldsOf(body);
      draft.port = fields.port ?? draft.port;
      draft.username = fields.username ?? draft.username;
      draft.log_retention_days = fields.log_retention_days ?? draft.log_retention_days;
      draft.direct_ports_enabled = fields.direct_ports_enabled ?? draft.direct_ports_enabled;
      assign(draft, 'direct_ports', changedPorts(draft, body.direct_ports, view));
      assign(
        draft,
        'ingress',
        changedIngress(view, body.ingress, { before: draft.ingress, given: givenWildcard(ctx, draft.name) }),
      );
      assign(draft, 'allowed_projects', allowedFrom(view, body.allowed_projects, draft.allowed_projects));
      assign(draft, 'ip_address', fields.ip_address);
      assign(draft, 'ssh_key_id', fields.ssh_key_id);
    },
    async check({ view }, unit, { it, body }) {
      const key = sshKeyFrom(view, body, it.desired.ssh_key_id);
      if (key !== undefined) unit.require(key);
      changedIngress(view, body.ingress, { id: it.meta.id, before: it.desired.ingress });
    },
  },
);

export const deleteServer = deleteEndpoint(
  servers,
  {
    path: '/servers/:id',
    summary: 'Delete a server that is the default of no project; with workloads on it only with force=true',
  },
  {
    query: Force,
    async check(ctx, unit, { it, query }) {
      await holdPopulation(ctx, unit, it);
      refuseDefaultServer(it, ctx.view);
      if (query.force === 'true') return;
      // `refuseDefaultServer` judged the projects whose default server it is; `force` does not change that.
      const workloads = objectsIn(ctx.view, 'server', it.meta.id).filter(({ meta }) => meta.kind !== 'project');
      if (workloads.length > 0) throw needsForce(`The server has workloads (${inWords(workloads)})`);
    },
  },
);

export const listServerEvents = eventsEndpoint(servers, {
  path: '/servers/:id/events',
  summary: 'What happened to a server, newest first',
});
