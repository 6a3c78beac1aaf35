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
  const isBuild = spec.type === 'build';
  const [path, sealed] = isBuild ? ['source.build_args', spec.build_args] : ['config.env', spec.env];
  const opened: Record<string, string> = {};
  for (const [key, value] of Object.entries(sealed)) {
    const place = {
      tenant: it.meta.tenant,
      kind: desired.workload_kind,
      id: desired.workload_id,
      path: `${path}.${key}`,
    };
    try {
      opened[key] = typeof value === 'string' ? value : unsealer.unseal(value, place);
    } catch {
      const what = isBuild ? 'build argument' : 'environment variable';
      return { unopened: `The ${what} ${key} cannot be decrypted: its key is not on the control plane` };
    }
  }
  if (isBuild) return { item: { ...common(it, desired), spec: { ...spec, build_args: opened } } };
  return { item: { ...common(it, desired), spec: { ...mutable(spec), env: opened } } };
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
