import { refusedPort } from '../../agent-protocol/port-policy.ts';
import { defined } from '../../store/defined.ts';
import { directPortsOf, portPolicyOf } from '../../store/direct-ports.ts';
import type { DirectPorts } from '../../store/direct-ports.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import { isPortHeld, portOwner } from '../../store/port-owner.ts';
import type { WantedPort } from '../../store/port-owner.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { referred } from './references.ts';

/**
 * Checks that an application or a database may take a port of its server. It does nothing if the server opens no ports.
 * The agent checks again, as it alone knows what else listens there.
 *
 * @throws ApiError CONFLICT if the server does not give the port to the project, or if another workload that is set to
 *   run has it.
 */
export function requirePort({ view, config }: Pick<RequestContext, 'view' | 'config'>, it: WantedPort): void {
  const { port, projectId } = it;
  const server = view.get('server', it.serverId);
  if (port === undefined || server?.desired.direct_ports_enabled !== true) return;
  const policy = portPolicyOf(server.desired, config.ownPorts);
  const refusal = refusedPort(policy, { port, project: projectId, held: isPortHeld(view, it) });
  if (refusal !== undefined) throw refused('port_not_allowed', refusal);
  const owner = portOwner(view, it);
  if (owner !== undefined)
    throw refused(
      'port_taken',
      `Port ${port} of the server belongs to ${owner}: choose another, or stop that one first`,
    );
}

/** Checks the port of an application as it will become. @throws what `requirePort` throws */
export function requirePortOf(
  ctx: Pick<RequestContext, 'view' | 'config'>,
  { meta, desired }: Pick<ReadonlyResource<'application'>, 'meta' | 'desired'>,
): void {
  const { project_id: projectId, server_id: serverId, config } = desired;
  requirePort(ctx, { id: meta.id, projectId, serverId, port: config.exposed_port });
}

function refused(reason: string, message: string) {
  return conflicting(message, [{ field: 'exposed_port', reason, message }]);
}

/**
 * The direct ports of a server after a change: `null` resets them, `undefined` means no change. @throws ApiError
 * BAD_REQUEST, NOT_FOUND
 */
export function changedPorts(
  server: Parameters<typeof directPortsOf>[0],
  sent: { [F in keyof DirectPorts]?: DirectPorts[F] | undefined } | null | undefined,
  view: TenantView,
): DirectPorts | null | undefined {
  if (sent === undefined || sent === null) return sent;
  const before = directPortsOf(server);
  const next = { ...before, ...defined(sent) };
  if (jsonEqual(next, before)) return undefined;
  if (next.from > next.to) throw badField('direct_ports.from', 'range', 'from must not be above to');
  const bound = next.bindings.map(({ port }) => port);
  if (new Set(bound).size < bound.length)
    throw badField('direct_ports.bindings', 'duplicate', 'A port must be bound to one project only');
  const known = new Set(before.bindings.map((one) => one.project_id));
  for (const { project_id: id } of next.bindings)
    if (!known.has(id)) referred(view, 'project', id, 'direct_ports.bindings');
  return next;
}
