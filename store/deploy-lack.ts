import { grants } from './grants.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import { isStaying } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';
import type { SourceCredential } from './source-credentials.ts';

/** Why an application cannot be deployed now. */
export interface DeployLack {
  reason: 'ServerNotUsable' | 'CredentialNotUsable';
  message: string;
}

/** Why an application may not use its server, or what its source is fetched with; `undefined`: it may. */
export function deployLack(
  { name, project_id }: DeepReadonly<Pick<DesiredOf<'application'>, 'name' | 'project_id'>>,
  server: ReadonlyResource<'server'> | undefined,
  credentials: readonly SourceCredential[],
): DeployLack | undefined {
  if (!isStaying(server)) return { reason: 'ServerNotUsable', message: `the server of ${name} was deleted` };
  if (!grants(server, project_id))
    return { reason: 'ServerNotUsable', message: `the server of ${name} is not for this project` };
  const foreign = credentials.find(({ it }) => !grants(it, project_id));
  if (foreign === undefined) return undefined;
  const message = `the ${foreign.word} ${foreign.it.desired.name} of ${name} is not for this project any more`;
  return { reason: 'CredentialNotUsable', message };
}
