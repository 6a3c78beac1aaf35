import { createHash } from 'node:crypto';
import { taskRow } from '../../agent-protocol/task-types.ts';
import { canonicalJson } from '../../store/canonical-json.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { BuildSpec, StoredTask } from '../../store/kinds/assignment.ts';
import { buildHash } from '../rollout/spec-hash.ts';

/**
 * Returns the hash of what a task does. It covers the names of its secrets, not their values, which are sealed. A build
 * has the form of the first release: another hash begins a running task anew.
 */
export function taskHash(version: string, spec: DeepReadonly<StoredTask>): string {
  return isBuild(spec) ? buildHash(version, spec) : hashOf(version, spec);
}

function isBuild(spec: DeepReadonly<StoredTask>): spec is DeepReadonly<BuildSpec> {
  const type: string = spec.type;
  return type === 'build';
}

function hashOf(version: string, spec: DeepReadonly<StoredTask>): string {
  const settings: Record<string, unknown> = { ...spec };
  for (const { field } of taskRow(spec.type).secrets) settings[field] = Object.keys(settings[field] ?? {}).toSorted();
  return createHash('sha256')
    .update(canonicalJson([version, settings]))
    .digest('hex');
}
