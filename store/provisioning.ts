import { createHash } from 'node:crypto';
import type { ReadonlyResource } from './resource.ts';
import type { TenantView } from './mirror.ts';
import { uuidv5 } from './uuid.ts';

/** The id of the one operation that provisions a server, so that a repetition after a crash finds the first one. */
export function provisioningOf(server: string): string {
  return uuidv5(server, 'provision');
}

/**
 * What the control plane is asked to provision, as a digest of all that leads to the machine; `undefined`: nothing, as
 * the server has no address, no SSH key, or an agent already. Another digest begins anew.
 */
export function askedOf(server: ReadonlyResource<'server'>, view: Pick<TenantView, 'get'>): string | undefined {
  const { ip_address, port, username, ssh_key_id, provision_attempt, agent_public_key } = server.desired;
  const key = ssh_key_id === undefined ? undefined : view.get('ssh_key', ssh_key_id);
  if (ip_address === undefined || key === undefined || agent_public_key !== undefined) return undefined;
  const parts = [ip_address, port, username, ssh_key_id, publicHalfOf(key), provision_attempt];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** What changes when a machine would judge the key otherwise; a sealed secret changes with each rotation of keys. */
export function publicHalfOf({ desired: { credential } }: ReadonlyResource<'ssh_key'>): string {
  return credential.type === 'key' ? credential.public_key : credential.type;
}
