import { isBuilt } from '../../store/kinds/application.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Bounds } from '../../store/settings.ts';
import { tooMany } from '../ground/api-error.ts';
import { scopeName } from './scope.ts';
import type { Scope } from './scope.ts';

type Deployment = ReadonlyResource<'deployment'>;

/** Build time in the last 24 hours, as the mirror showed it. */
export interface BuildTime extends Disposable {
  /** Milliseconds, by the name of the scope; builds under way count up to now. */
  usedMs(name: string): number;
  /** @throws ApiError TOO_MANY_REQUESTS if the deployment needs a build and there is no time left for it */
  judge(view: TenantView, it: Deployment, boundsOf: (scope: Scope) => Bounds): void;
}

const hourMs = 3_600_000;
const hoursOfDay = 24;

/** An object as it is, or a change of it. */
type Seen = Pick<ObjectChange, 'tenant' | 'kind' | 'id' | 'before' | 'after' | 'initial'>;

interface UnderWay {
  names: readonly string[];
  startedAt: number | undefined;
}

/**
 * Counts each build in the hour in which it ended, for project, owner and tenant. The build time of a deleted
 * deployment or project stays counted; after a restart only what still exists is counted. `deadlineMs`: what a build
 * under way counts as when another one is judged.
 */
export function createBuildTime(
  mirror: Pick<Mirror, 'subscribe' | 'tenant' | 'tenants'>,
  clock: Clock,
  deadlineMs: number,
): BuildTime {
  /** Milliseconds by the hour since the epoch, per scope. */
  const ended = new Map<string, Map<number, number>>();
  const underWay = new Map<string, UnderWay>();

  const namesOf = (tenant: string, { desired }: Deployment): string[] => {
    const owner = mirror.tenant(tenant).get('project', desired.project_id)?.desired.owner_id;
    const project = scopeName(tenant, { of: 'project', id: desired.project_id });
    return [project, ...(owner === undefined ? [] : [scopeName(tenant, { of: 'user', id: owner })]), tenant];
  };

  const forget = (hour: number): void => {
    for (const [name, hours] of ended) {
      for (const at of hours.keys()) if (at <= hour - hoursOfDay) hours.delete(at);
      if (hours.size === 0) ended.delete(name);
    }
  };

  const count = (names: readonly string[], start: number, end: number): void => {
    const hour = Math.floor(end / hourMs);
    const now = Math.floor(clock.now().getTime() / hourMs);
    forget(now);
    if (hour <= now - hoursOfDay) return;
    for (const name of names) {
      const hours = ended.get(name) ?? new Map<number, number>();
      hours.set(hour, (hours.get(hour) ?? 0) + Math.max(0, end - start));
      ended.set(name, hours);
    }
  };

  const take = ({ tenant, kind, id, after, before, initial }: Seen): void => {
    if (kind !== 'deployment') return;
    const key = `${tenant}/${id}`;
    const known = underWay.get(key);
    underWay.delete(key);
    const it = (after ?? before) as Deployment | undefined; // the kind was checked above
    if (it === undefined || !isBuilt(it.desired)) return;
    const { startedAt, endedAt } = timesOf(it);
    const names = known?.names ?? namesOf(tenant, it);
    if (after === undefined) {
      if (known?.startedAt !== undefined) count(names, known.startedAt, clock.now().getTime());
    } else if (endedAt === undefined) underWay.set(key, { names, startedAt });
    else if (startedAt !== undefined && (known !== undefined || initial)) count(names, startedAt, endedAt);
  };

  for (const tenant of mirror.tenants())
    for (const it of mirror.tenant(tenant).list('deployment'))
      take({ tenant, kind: 'deployment', id: it.meta.id, after: it, initial: true });
  const unsubscribe = mirror.subscribe(take);

  const running = (name: string): UnderWay[] => [...underWay.values()].filter(({ names }) => names.includes(name));

  const endedMs = (name: string): number => {
    const oldest = Math.floor(clock.now().getTime() / hourMs) - hoursOfDay;
    let sum = 0;
    for (const [hour, ms] of ended.get(name) ?? []) if (hour > oldest) sum += ms;
    return sum;
  };

  return {
    usedMs(name) {
      const now = clock.now().getTime();
      return running(name).reduce((sum, { startedAt }) => sum + (now - (startedAt ?? now)), endedMs(name));
    },
    judge(view, it, boundsOf) {
      if (!isBuilt(it.desired)) return;
      const { project_id: id } = it.desired;
      const owner = view.get('project', id)?.desired.owner_id;
      const scopes: Scope[] = [
        { of: 'project', id },
        ...(owner === undefined ? [] : [{ of: 'user' as const, id: owner }]),
        { of: 'tenant' },
      ];
      for (const scope of scopes) {
        const minutes = boundsOf(scope).build_minutes_per_day;
        const name = scopeName(view.tenant, scope);
        const used = endedMs(name) + running(name).length * deadlineMs;
        if (minutes === 0 || used < minutes * 60_000) continue;
        throw tooMany(
          `Builds of the ${scope.of} may take ${minutes} minutes in 24 hours, and those that ended or are under way may use them up: ` +
            `deploy an image, wait, or ask a superadmin to raise budgets.${scope.of}.build_minutes_per_day in the settings`,
          Math.ceil(hourMs / 1000),
        );
      }
    },
    [Symbol.dispose]: unsubscribe,
  };
}

function timesOf({ observed }: Deployment): { startedAt: number | undefined; endedAt: number | undefined } {
  const at = (text: string | undefined): number | undefined => (text === undefined ? undefined : Date.parse(text));
  return { startedAt: at(observed?.started_at), endedAt: at(observed?.built_at ?? observed?.finished_at) };
}
