import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';

type Assignment = ReadonlyResource<'assignment'>;
type Spec = Assignment['desired']['spec'];

/**
 * The wire form of an assignment, its secrets opened. `unopened`: a secret cannot be opened, so the item must not be sent:
 * nothing is started with less than its whole configuration.
 */
export function project(it: Assignment, unsealer: Unsealer): { item: WireAssignment } | { unopened: string } {
  const { spec, server_id: _, ...desired } = it.desired;
  if (spec.type === 'build') return { item: { ...common(it, desired), spec: { ...spec } } };
  const env: Record<string, string> = {};
  for (const [key, sealed] of Object.entries(spec.env)) {
    const place = {
      tenant: it.meta.tenant,
      kind: desired.workload_kind,
      id: desired.workload_id,
      path: `config.env.${key}`,
    };
    try {
      env[key] = unsealer.unseal(sealed, place);
    } catch {
      return { unopened: `The environment variable ${key} cannot be decrypted: its key is not on the control plane` };
    }
  }
  return { item: { ...common(it, desired), spec: { ...mutable(spec), env } } };
}

function common(
  { meta }: Assignment,
  desired: Omit<Assignment['desired'], 'spec' | 'server_id'>,
): Omit<WireAssignment, 'spec'> {
  return { id: meta.id, generation: meta.generation, tenant: meta.tenant, ...desired };
}

function mutable({ command, ...spec }: Extract<Spec, { type: 'service' }>) {
  return { ...spec, ...(command !== undefined && { command: [...command] }) };
}
