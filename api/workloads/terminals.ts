import { z } from 'zod';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { forbiddable, terminalShell } from '../../agent-protocol/messages.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { conflicting } from '../ground/api-error.ts';
import { requireAgent } from './agent-capability.ts';
import type { ResourceKind } from '../resources/resources.ts';
import type { RouteName } from '../rights/permissions.ts';
import type { TerminalPlace } from '../rights/terminal-sessions.ts';
import { placed } from './terminal-places.ts';

const Cells = z.int().min(1).max(1000);

/** Fields of a request for a terminal. */
export const terminalSize = { cols: Cells.default(80), rows: Cells.default(24) };
export const TerminalShell = z.string().max(200).regex(terminalShell, 'Must be a program, without arguments');

export const MadeTerminal = z.object({ sessionId: z.string(), expires_at: z.string() });

/** Makes a terminal of an object and records that in the audit log. @throws ApiError CONFLICT; any error of the store */
export async function makeTerminal(
  ctx: RequestContext,
  it: ReadonlyResource<ResourceKind>,
  route: RouteName,
  place: TerminalPlace,
): Promise<z.infer<typeof MadeTerminal>> {
  const { tenant, view, request, principal, access } = ctx;
  const { id, expiresAt } = await ctx.terminals.make(tenant, principal, place);
  const projectId = projectIdOf(it);
  const asked = { tenant, view, route, request, caller: principal, role: access.column };
  await ctx.audit.made({ ...asked, ...(projectId !== undefined && { projectId }) }, placed(view, place).about);
  return { sessionId: id, expires_at: expiresAt };
}

/**
 * Requires that the agent of the server is connected and has the capability; `what` names the terminals that it gives.
 * @throws ApiError SERVICE_UNAVAILABLE, CONFLICT
 */
export function requireTerminals(view: TenantView, serverId: string, capability: string, what: string): void {
  const agent = view.agent(serverId);
  requireAgent(agent, capability, { lack: `has no ${what}` });
  if (capability === forbiddable.serverTerminals && agent.forbids?.includes(capability) === true)
    throw conflicting(
      `The operator of the machine allows no ${what}: start its agent without --no-server-terminals, or log in otherwise`,
    );
}
