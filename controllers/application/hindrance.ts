import { upToDate } from '../runtime/up-to-date.ts';
import type { Assignment } from './world.ts';

/**
 * Failures because of which no container of an instance can be made or started, each with its remedy. A process that
 * exits or does not answer is not among them: its logs show why.
 */
const remedies: ReadonlyMap<string, string> = new Map([
  ['image_not_found', 'deploy the application again'],
  ['image_not_allowed', 'have the image allowed, or deploy another one'],
  ['image_pull_failed', 'see that its server reaches the registry'],
  ['no_space', 'free space on the disk of its server'],
  ['create_failed', 'change what the engine refuses, and deploy'],
  ['name_taken', 'remove the other container from its server'],
  ['port_taken', 'free the port on its server, or change exposed_port'],
  ['invalid_source', 'change the source, and deploy'],
  ['runtime_unavailable', 'see the conditions of its server'],
  ['secret_unavailable', 'bring the key back, or set the variables again'],
  ['agent_outdated', 'upgrade the agent of its server'],
]);

/** `: `, the failure that keeps instances from being made, and its remedy; empty if none is known. Stable text. */
export function hindrance(slots: readonly Assignment[]): string {
  for (const slot of slots) {
    const error = upToDate(slot)?.error;
    const remedy = error === undefined ? undefined : remedies.get(error.code);
    if (error !== undefined && remedy !== undefined) return `: ${error.message} (${remedy})`;
  }
  return '';
}
