import { repositoryOf } from '../../store/kinds/application.ts';
import { maxApplicationsPerDelivery } from '../../store/kinds/git-webhook.ts';
import type { Delivered, DeliveryDecision } from '../../store/kinds/git-webhook.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { SyncDecision } from '../../store/kinds/operation.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { isSameRepository } from '../../store/repository-address.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';

export type Delivery = ReadonlyResource<'webhook_delivery'>;
export type App = ReadonlyResource<'application'>;

/** Namespace of the ids of comparisons that follow from a delivery (UUIDv5). */
const namespace = '6a3e0e1c-8a57-4d0c-9f3b-0d2f6f7f9b14';

const limits = {
  /** Comparisons of one application that may fail, beside those of a server that is away. */
  failures: 6,
  firstPauseMs: 15_000,
  /** A delivery is not decided later than that, however long a server is away. */
  patienceMs: 24 * 3_600_000,
} as const;

/** Failures that another comparison cannot mend. */
const final: ReadonlySet<string> = new Set(['not_found', 'invalid_source', 'branch_not_found']);

export interface World {
  delivery: Delivery;
  /** Absent: it was deleted. */
  webhook: ReadonlyResource<'git_webhook'> | undefined;
  /** All of the project. */
  applications: readonly App[];
  /** The other deliveries of the same webhook. */
  others: readonly Delivery[];
  operation(id: string): ReadonlyResource<'operation'> | undefined;
  /** The server is known to be away. */
  isAway(app: App): boolean;
  nowMs: number;
}

/** A comparison that a delivery needs. */
export interface Needed {
  app: App;
  id: string;
}

export interface Planned {
  observed: ObservedOf<'webhook_delivery'>;
  /** Comparisons to begin. */
  begin: Needed[];
  /** Comparisons under way. */
  underWay: string[];
  /** Servers to wait for. */
  servers: string[];
  /** When to look again, if no change comes before, in milliseconds from now. */
  againMs: number | undefined;
}

/** What becomes of a delivery. Pure. What was decided for an application stays, whatever changes later. */
export function plan(world: World): Planned {
  const { delivery, webhook } = world;
  const { ended } = delivery.desired;
  if (ended !== undefined) return decided(world, ended.decision, ended.reason);
  if (webhook === undefined) return decided(world, 'ignored', 'The webhook was deleted');
  const entries = entriesOf(world);
  if (entries.length === 0)
    return decided(
      world,
      'no_application',
      'No application of the project has this repository and branch as its source',
    );
  const steps = entries.map((entry) => advance(entry, world));
  const applications = steps.map(({ entry }) => entry);
  if (applications.every(({ decision }) => decision !== 'pending')) {
    const deployed = applications.filter(({ decision }) => decision === 'deployed').length;
    return decided(
      world,
      'evaluated',
      `${deployed} of ${applications.length} application(s) were deployed`,
      applications,
    );
  }
  return {
    observed: { phase: 'pending', applications },
    begin: steps.flatMap(({ begin }) => begin ?? []),
    underWay: steps.flatMap(({ underWay }) => underWay ?? []),
    servers: steps.flatMap(({ server }) => server ?? []),
    againMs: steps.reduce<number | undefined>(
      (least, { againMs }) => (againMs === undefined ? least : Math.min(againMs, least ?? againMs)),
      undefined,
    ),
  };
}

function decided(
  { nowMs }: World,
  decision: DeliveryDecision,
  reason: string,
  applications: Delivered[] = [],
): Planned {
  const decided_at = new Date(nowMs).toISOString();
  const observed = { phase: 'decided' as const, decision, reason, applications, decided_at };
  return { observed, begin: [], underWay: [], servers: [], againMs: undefined };
}

/** The applications that the delivery is about, each as it was decided so far. */
function entriesOf({ delivery, webhook, applications }: World): Delivered[] {
  const known = (delivery.observed?.applications ?? []).map((it) => plainCopy<Delivered>(it));
  const branches = branchesOf(delivery);
  const added = applications
    .filter(isStaying)
    .filter(({ meta }) => !known.some(({ id }) => id === meta.id))
    .filter(({ desired }) => {
      const source = repositoryOf(desired.source);
      if (source === undefined || webhook === undefined || !branches.has(source.branch)) return false;
      return isSameRepository(source.repository_url, webhook.desired.repository_url);
    })
    // one that is made later is compared when it is deployed
    .slice(0, delivery.observed === undefined ? maxApplicationsPerDelivery : 0)
    .map(({ meta, desired }): Delivered => ({
      id: meta.id,
      name: desired.name,
      decision: 'pending',
      reason: 'It is to be compared',
      failures: 0,
    }));
  return [...known, ...added];
}

/** Names of the branches that were pushed and not deleted. */
export function branchesOf({ desired }: Delivery): ReadonlySet<string> {
  const heads = desired.pushes.filter(({ ref, deleted }) => ref.startsWith('refs/heads/') && deleted !== true);
  return new Set(heads.map(({ ref }) => ref.slice('refs/heads/'.length)));
}

/** Names of the tags that were pushed and not deleted. */
export function tagsOf({ desired }: Delivery): string[] {
  const tags = desired.pushes.filter(({ ref, deleted }) => ref.startsWith('refs/tags/') && deleted !== true);
  return tags.map(({ ref }) => ref.slice('refs/tags/'.length));
}

interface Step {
  entry: Delivered;
  begin?: Needed;
  underWay?: string;
  server?: string;
  againMs?: number;
}

function advance(entry: Delivered, world: World): Step {
  if (entry.decision !== 'pending') return { entry };
  const app = world.applications.find(({ meta }) => meta.id === entry.id);
  if (!isStaying(app)) return end(entry, 'failed', 'The application was deleted');
  const id = comparisonId(world.delivery, entry);
  const { desired, observed } = world.operation(id) ?? {};
  if (observed?.finished_at !== undefined) return outcome(entry, observed, world);
  if (desired !== undefined) return { entry: { ...entry, reason: 'It is being compared' }, underWay: id };
  if (!app.desired.autodeploy) return end(entry, 'autodeploy_off', 'Autodeploy of the application is off');
  const repository = repositoryOf(app.desired.source);
  if (repository === undefined) return end(entry, 'failed', 'The application has no repository any more');
  const { branch } = repository;
  if (laterOf(world).some((it) => branchesOf(it).has(branch)))
    return end(entry, 'superseded', 'A later push to the branch is decided instead');
  const left = patienceLeft(world);
  if (left <= 0) return end(entry, 'failed', 'The server was away for a day: push again, or replay the delivery');
  if (world.isAway(app))
    return {
      entry: { ...entry, reason: 'It waits for the server of the application to be connected' },
      server: app.desired.server_id,
      againMs: left,
    };
  const pause = entry.not_before === undefined ? 0 : Date.parse(entry.not_before) - world.nowMs;
  if (pause > 0) return { entry, againMs: pause };
  return { entry: { ...entry, reason: 'It is being compared' }, begin: { app, id }, underWay: id };
}

/** For how long the delivery may still wait, in milliseconds. */
export function patienceLeft({ delivery, nowMs }: Pick<World, 'delivery' | 'nowMs'>): number {
  return Date.parse(delivery.desired.received_at) + limits.patienceMs - nowMs;
}

/** Deliveries that came later, and are about something. */
function laterOf({ delivery, others }: World): Delivery[] {
  return others.filter((it) => it.desired.ended === undefined && orderOf(it) > orderOf(delivery));
}

/** Orders deliveries, the newest highest. */
export function orderOf({ meta }: Delivery): number {
  return meta.createdRevision ?? meta.desiredRevision;
}

/** As it was decided, with the syncs that look at the repository because of it. */
export function withSyncs(
  observed: ObservedOf<'webhook_delivery'>,
  names: readonly string[],
): ObservedOf<'webhook_delivery'> {
  if (names.length === 0 || observed.decision === 'ignored') return observed;
  const looks = `${names.length === 1 ? 'Sync' : 'Syncs'} ${names.join(', ')} ${names.length === 1 ? 'looks' : 'look'} at the repository`;
  const isOfApplications = observed.decision === 'evaluated';
  return {
    ...observed,
    decision: 'evaluated',
    reason: isOfApplications ? `${observed.reason ?? ''}. ${looks}` : looks,
  };
}

/** Whether a later event of the same request is decided instead. Git hosts send events in any order, and some again. */
export function isOvertaken(world: World): boolean {
  const { request } = world.delivery.desired;
  if (request === undefined) return false;
  return world.others.some((other) => {
    const { ended, request: of } = other.desired;
    if (ended !== undefined || of?.number !== request.number) return false;
    const between = timeBetween(request, of);
    return between === 0 ? orderOf(other) > orderOf(world.delivery) : between > 0;
  });
}

/** Milliseconds from one event of a request to another, by the git host; 0 where it does not say. */
export function timeBetween(
  one: { updated_at?: string | undefined },
  other: { updated_at?: string | undefined },
): number {
  if (one.updated_at === undefined || other.updated_at === undefined) return 0;
  return Date.parse(other.updated_at) - Date.parse(one.updated_at);
}

function comparisonId({ meta }: Delivery, { id, failures }: Delivered): string {
  return uuidv5(namespace, `${meta.id} ${id} ${failures}`);
}

function outcome(
  entry: Delivered,
  { phase, result, error }: Pick<NonNullable<ReadonlyResource<'operation'>['observed']>, 'phase' | 'result' | 'error'>,
  { nowMs }: World,
): Step {
  if (phase === 'succeeded') {
    const decision = SyncDecision.safeParse(result?.['decision']).data ?? 'up_to_date';
    const { latest_commit: commit, deployment_id: deployment, reason } = result ?? {};
    return {
      entry: {
        ...without(entry),
        decision,
        reason: text(reason) ?? '',
        ...(text(commit) !== undefined && { commit: text(commit) }),
        ...(text(deployment) !== undefined && { deployment_id: text(deployment) }),
      },
    };
  }
  const failures = entry.failures + 1;
  const why = error?.message ?? 'The comparison did not end in time';
  if (failures >= limits.failures || final.has(error?.code ?? '')) return end({ ...entry, failures }, 'failed', why);
  const pause = limits.firstPauseMs * 2 ** (failures - 1);
  const not_before = new Date(nowMs + pause).toISOString();
  return { entry: { ...entry, failures, not_before, reason: `${why}: it is compared again` }, againMs: pause };
}

function end(entry: Delivered, decision: Delivered['decision'], reason: string): Step {
  return { entry: { ...without(entry), decision, reason } };
}

function without(entry: Delivered): Delivered {
  const kept = { ...entry };
  delete kept.not_before;
  return kept;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
