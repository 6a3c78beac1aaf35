import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { envBytes, room, serverLack, sizeOf } from '../../store/server-room.ts';
import type { Coming } from '../../store/server-room.ts';
import { badField, conflicting } from '../ground/api-error.ts';

type Env = DeepReadonly<DesiredOf<'application'>>['config']['env'];

/**
 * Checks the size of the variables. Earlier releases accepted more: such variables may stay only if they shrink.
 * @throws ApiError BAD_REQUEST
 */
export function requireEnvRoom(env: Env, before: Env = {}): void {
  const bytes = envBytes(env);
  if (bytes <= room.env || bytes < envBytes(before)) return;
  const message =
    `The variables have ${sizeOf(bytes)} in all and at most ${sizeOf(room.env)} are allowed: ` +
    'remove some, or put large values into the image or fetch them when the process starts';
  throw badField('env', 'limit', message);
}

/** Checks that servers have room for these applications. `field` names the server in the request. @throws ApiError CONFLICT */
export function requireServerRoom(
  view: Pick<TenantView, 'get' | 'by'>,
  coming: readonly Coming[],
  field: string,
): void {
  const message = serverLack(view, coming);
  if (message !== undefined) throw conflicting(message, [{ field, reason: 'limit', message }]);
}
