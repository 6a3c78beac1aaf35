import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { plainBytes } from '../../store/seal.ts';
import { badField, conflicting } from '../ground/api-error.ts';

type Desired = DeepReadonly<DesiredOf<'application'>>;
type Env = Desired['config']['env'];

/** Bounds of the configuration that an agent receives and keeps, in bytes. */
export const room = {
  /** Names and values of the variables of one application. */
  env: 256 * 1024,
  /** All variables and instances of one server. Concurrent requests may exceed it slightly. */
  server: 64 * 1024 * 1024,
  /** One replica, with its successor in a rollout. It does not include the variables, which all instances share. */
  instance: 8 * 1024,
} as const;

const known = new WeakMap<Env, number>();

/** Bytes of names and plain values, computed from the sealed values. */
function envBytes(env: Env): number {
  const before = known.get(env);
  if (before !== undefined) return before;
  const bytes = Object.entries(env).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + plainBytes(value),
    0,
  );
  known.set(env, bytes);
  return bytes;
}

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

/**
 * Checks that servers have room for these applications. `before` is the earlier state of an application: one that does
 * not grow always passes. `field` names the server in the request.
 * @throws ApiError CONFLICT
 */
export function requireServerRoom(
  view: Pick<TenantView, 'get' | 'by'>,
  coming: readonly { server: string; desired: Desired; before?: Desired }[],
  field: string,
): void {
  const growth = new Map<string, number>();
  for (const { server, desired, before } of coming) {
    const bytes = weightOf(desired) - (before === undefined ? 0 : weightOf(before));
    growth.set(server, (growth.get(server) ?? 0) + bytes);
  }
  for (const [server, more] of growth) {
    if (more <= 0) continue;
    const present = view.by('application', 'server', server).reduce((sum, it) => sum + weightOf(it.desired), 0);
    if (present + more <= room.server) continue;
    const name = view.get('server', server)?.desired.name ?? server;
    const message =
      `Server ${name} would have ${sizeOf(present + more)} of variables and instances and at most ` +
      `${sizeOf(room.server)} are allowed (${sizeOf(room.instance)} for each replica): reduce the variables or ` +
      'replicas of what is there, delete what is not needed, or use another server';
    throw conflicting(message, [{ field, reason: 'limit', message }]);
  }
}

/** The bytes of an application; one that is scaled to 0 counts with the replicas that a start brings back. */
function weightOf({ config, replicas, last_replicas: last = 0 }: Desired): number {
  return envBytes(config.env) + (replicas || last) * room.instance;
}

/** The size in KiB or MiB, rounded up, so that a size above a bound never looks equal to it. */
function sizeOf(bytes: number): string {
  const mebi = 1024 * 1024;
  return bytes < mebi ? `${Math.ceil(bytes / 1024)} KiB` : `${Math.ceil((bytes / mebi) * 10) / 10} MiB`;
}
