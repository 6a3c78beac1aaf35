import { mainService } from '../../agent-protocol/workload.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { StoredComposedService } from '../../store/kinds/composed-service.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { healthOf } from './health.ts';
import type { Health } from './health.ts';
import { isDone, isStarted } from './slots.ts';
import type { Assignment } from './slots.ts';

type App = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;
export type Composed = DeepReadonly<StoredComposedService>;

/** One set of like instances of a deployment. An application without a compose file has one, by the name `main`. */
export interface Service {
  name: string;
  /** The version of its instances: the deployment, unless an earlier one had the service with the same settings. */
  version: string;
  replicas: number;
  /** A new value restarts its instances; a service that comes to an end is not begun again. */
  restartToken: string | undefined;
  /** How the compose file declares it; absent for an application without one. */
  composed?: Composed;
}

interface Wanting {
  readonly desired: Readonly<Pick<App['desired'], 'replicas'>> &
    Partial<Readonly<Pick<App['desired'], 'restart_token'>>>;
}

/** The services of a deployment, the one that requests are for first. `replicas` of the application is for that one. */
export function servicesOf(
  { desired: { replicas, restart_token: restartToken } }: Wanting,
  { meta, desired }: Pick<Deployment, 'meta' | 'desired'>,
): Service[] {
  const { services } = desired;
  if (services === undefined) return [{ name: mainService, version: meta.id, replicas, restartToken }];
  return services.map((composed, index) => ({
    name: composed.name,
    version: composed.version,
    replicas: index === 0 ? replicas : replicas === 0 ? 0 : composed.replicas,
    restartToken: composed.restart_policy === 'no' ? undefined : restartToken,
    composed,
  }));
}

export function isOf(it: Assignment, { name, version }: Service): boolean {
  return it.desired.service === name && it.desired.version === version;
}

/** Whether an instance is of one of these services. */
export function isOfAny(it: Assignment, services: readonly Service[]): boolean {
  return services.some((service) => isOf(it, service));
}

/** How the instances of all services of a deployment are, together. */
export function healthOfAll(slots: readonly Assignment[], services: readonly Service[]): Health {
  const all = services.map((service) => healthOfService(slots, service));
  const [first] = all;
  if (first !== undefined && all.length === 1) return first;
  return {
    instances: all.flatMap((it) => it.instances),
    ready: sum(all.map((it) => it.ready)),
    covering: sum(all.map((it) => it.covering)),
    stable: sum(all.map((it) => it.stable)),
    isComing: all.some((it) => it.isComing),
    lacking: sum(all.map((it) => it.lacking)),
    isStable: all.every((it) => it.isStable),
    isCrashLooping: all.some((it) => it.isCrashLooping),
    errors: all.flatMap((it) => it.errors),
    failures: all.flatMap((it) => it.failures),
  };
}

function healthOfService(slots: readonly Assignment[], { name, version, replicas }: Service): Health {
  const own = slots.filter(({ desired }) => desired.service === name);
  return healthOf(own, version, replicas);
}

/** Whether a service may be started: those that it depends on have come as far as it needs them. */
export function mayStart(
  { composed }: Service,
  { services, slots }: { services: readonly Service[]; slots: readonly Assignment[] },
): boolean {
  return (composed?.depends_on ?? []).every(({ service: name, condition }) => {
    const other = services.find((it) => it.name === name);
    if (other === undefined || other.replicas === 0) return true;
    const { instances, lacking } = healthOfService(slots, other);
    if (instances.length < other.replicas) return false;
    switch (condition) {
      case 'service_started':
        return instances.every((it) => isStarted(it) || isDone(it));
      case 'service_healthy':
        return lacking === 0;
      case 'service_completed_successfully':
        return instances.every(isDone);
    }
  });
}

/** Names of the volumes that the services of a deployment mount. */
export function volumesOf({ desired }: Pick<Deployment, 'desired'>): string[] {
  const names = (desired.services ?? []).flatMap(({ mounts }) =>
    mounts.flatMap((mount) => (mount.type === 'volume' ? mount.volume : [])),
  );
  return [...new Set(names)];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}
