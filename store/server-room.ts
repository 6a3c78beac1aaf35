import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { TenantView } from './mirror.ts';
import { plainBytes } from './seal.ts';

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
export function envBytes(env: Env): number {
  const before = known.get(env);
  if (before !== undefined) return before;
  const bytes = Object.entries(env).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + plainBytes(value),
    0,
  );
  known.set(env, bytes);
  return bytes;
}

/** An application that is to be on a server. `before` is its earlier state: one that does not grow always has room. */
export interface Coming {
  server: string;
  desired: Desired;
  before?: Desired;
}

/** Why the servers have no room for these applications, in words; `undefined`: they have it. */
export function serverLack(view: Pick<TenantView, 'get' | 'by'>, coming: readonly Coming[]): string | undefined {
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
    return (
      `Server ${name} would have ${sizeOf(present + more)} of variables and instances and at most ` +
      `${sizeOf(room.server)} are allowed (${sizeOf(room.instance)} for each replica): reduce the variables or ` +
      'replicas of what is there, delete what is not needed, or use another server'
    );
  }
  return undefined;
}

/** The bytes of an application; one that is scaled to 0 counts with the replicas that a start brings back. */
function weightOf({ config, replicas, last_replicas: last = 0 }: Desired): number {
  return envBytes(config.env) + (replicas || last) * room.instance;
}

/** The size in KiB or MiB, rounded up, so that a size above a bound never looks equal to it. */
export function sizeOf(bytes: number): string {
  const mebi = 1024 * 1024;
  return bytes < mebi ? `${Math.ceil(bytes / 1024)} KiB` : `${Math.ceil((bytes / mebi) * 10) / 10} MiB`;
}
