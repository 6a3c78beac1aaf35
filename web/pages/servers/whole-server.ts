import type { components } from '../../api-types.d.ts';
import type { Server } from '../../model.ts';

export type WholeServer = components['schemas']['Server'];

/** A server with all its fields, as admins of the tenant see it; `undefined` for the summary that others see. */
export function wholeOf(server: Server): WholeServer | undefined {
  return 'generation' in server ? server : undefined;
}

/** Why what only an admin may do is not offered; `undefined` if it may be. */
export function whyNotAdmin(role: string | undefined): string | undefined {
  return role === 'user' ? 'This needs an admin of the tenant' : undefined;
}

/** Why what an agent does cannot be asked for now. */
export function whyWithoutAgent(server: Server): string | undefined {
  return server.agent_status === 'connected' ? undefined : 'Its agent is not connected';
}
