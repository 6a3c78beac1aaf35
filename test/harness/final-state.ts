import { pino } from 'pino';
import { labels } from '../../agent/runtime/runtime.ts';
import { definitionOf } from '../../store/definition.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { DesiredOf, KindName } from '../../store/kinds/kinds.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { countOf, entriesOf, leftoverKeys } from './leftover-keys.ts';
import type { World } from './world.ts';
import { tenant } from './world.ts';

/** What two runs of one scenario must end in alike. */
export interface FinalState {
  /** Desired and observed states by names that mean the same in every run. */
  objects: Record<string, unknown>;
  /** Containers of all servers. */
  containers: unknown[];
  networks: string[];
  /** What must not be there; empty in every good run. */
  leftovers: string[];
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** People and their notifications are no part of it. */
const leftOut = new Set<KindName>(['user', 'service_key', 'session', 'notification']);
/** Random by design, or a time, or how often something was done. */
const volatile = new Set([
  '$sealed',
  'authority',
  'certificate',
  'agent_public_key',
  'spec_hash',
  'events_seen',
  'restarts',
  'changedAt',
  'observedGeneration',
  'container_id',
  'queued_at',
  'started_at',
  'built_at',
  'finished_at',
]);

/** Reads the state of the world at rest, without ids, times and revisions. */
export async function finalState(world: World): Promise<FinalState> {
  await using mirror = startMirror({ store: world.store, clock: world.clock, log: pino({ level: 'silent' }) });
  await mirror.ready;
  const view = mirror.tenant(tenant);
  const all = (Object.keys(kinds) as KindName[]) // the keys of `kinds` are the names
    .filter((kind) => !leftOut.has(kind))
    .flatMap((kind) => view.list(kind) as readonly ReadonlyResource[]); // of any kind
  const names = new Map(all.map((it) => [it.meta.id, nameOf(it, view)]));
  const plain = plainer(names, view);
  const containers = world.machines.flatMap(({ engine }) => engine.containers);
  const networks = world.machines.flatMap(({ engine }) => [...engine.networks.keys()]);
  return {
    objects: Object.fromEntries(all.map((it) => [names.get(it.meta.id) ?? '', plain(stateOf(it))])),
    containers: containers
      .map((one) => plain({ of: one.mutable.labels[labels.assignment], ...settingsOf(one) }))
      .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)),
    networks: networks.map((name) => plain(name) as string).toSorted(), // a text stays one
    leftovers: [
      ...twice([...names.values()]),
      ...all.filter(isBehind).map((it) => `What is observed is behind what is desired: ${names.get(it.meta.id)}`),
      ...(await wrongKeys(world, view)),
      ...containers
        .filter((one) => !names.has(one.mutable.labels[labels.assignment] ?? ''))
        .map(({ name }) => `Container of nothing: ${name}`),
    ],
  };
}

function stateOf(it: ReadonlyResource): object {
  const { finalizers, deletionRequestedAt } = it.meta;
  // How far a deployment came before a newer one took its place is left to chance.
  const hasLostRace = it.observed !== undefined && 'phase' in it.observed && it.observed.phase === 'superseded';
  const observed = hasLostRace ? 'superseded' : withoutForgotten(it.observed);
  return { desired: it.desired, observed, finalizers, isDeleting: deletionRequestedAt !== undefined };
}

/** An agent reports the image of a failed deployment only if it looked it up itself: a killed agent forgets it. */
function withoutForgotten(observed: ReadonlyResource['observed']): object | undefined {
  if (observed === undefined || !('phase' in observed) || observed.phase !== 'failed') return observed;
  return { ...observed, image_digest: undefined };
}

function settingsOf(one: World['machines'][number]['engine']['containers'][number]): object {
  const { networks, state, mutable } = one;
  return { networks, state, env: mutable.env, command: mutable.command, restart: mutable.restart };
}

/** Replaces what differs from run to run by what it stands for. */
function plainer(names: ReadonlyMap<string, string>, view: TenantView): (value: unknown) => unknown {
  const aliases = [
    ...view.list('application').map((it) => [it.desired.internal_id, names.get(it.meta.id)] as const),
    ...view
      .list('environment')
      .map(({ meta }) => [`sp-${meta.id.replaceAll('-', '').slice(0, 12)}`, names.get(meta.id)] as const),
  ];
  return (value) => {
    let text = JSON.stringify(value, (name, inner: unknown) => (volatile.has(name) ? undefined : inner));
    for (const [alias, name] of aliases) text = text.replaceAll(alias, `<${name}>`);
    return JSON.parse(text.replace(uuid, (id) => `<${names.get(id) ?? 'id'}>`).replace(time, '<time>'));
  };
}

/** A name by what the object belongs to: of its first owner, and of its own. */
function nameOf(it: ReadonlyResource, view: TenantView): string {
  // where its kind has them; a delivery has another name, and its comparison that of the delivery
  const { name, number, delivery_key, delivery_id } = it.desired as Partial<Record<string, string | number>>;
  const delivery = typeof delivery_id === 'string' ? view.get('webhook_delivery', delivery_id) : undefined;
  const called = name ?? number ?? delivery_key ?? delivery?.desired.delivery_key ?? it.meta.id;
  if (isAssignment(it)) return `${ofWorkload(it, view)} ${partOf(it)}`;
  const [owner] = definitionOf(it.meta.kind).owners?.(it.desired as DesiredOf<KindName>) ?? []; // of its own kind
  const own = `${it.meta.kind} ${called}`;
  if (owner === undefined) return own;
  const found = view.get(owner.kind as KindName, owner.id); // an owner is of some kind
  return `${found === undefined ? `${owner.kind} that is gone` : nameOf(found, view)} ${own}`;
}

function isAssignment(it: ReadonlyResource): it is ReadonlyResource<'assignment'> {
  return it.meta.kind === 'assignment';
}

/** What an assignment is a part of: a deployment, or else the workload itself. */
function ofWorkload({ desired }: ReadonlyResource<'assignment'>, view: TenantView): string {
  const { version, workload_kind: kind, workload_id: id } = desired;
  const holder = view.get('deployment', version) ?? view.get(kind, id);
  return holder === undefined ? `${kind} that is gone` : nameOf(holder, view);
}

function partOf({ desired: { spec } }: ReadonlyResource<'assignment'>): string {
  return 'slot' in spec ? `${spec.type} ${spec.slot}` : spec.type;
}

function isBehind({ meta, observed }: ReadonlyResource): boolean {
  return observed !== undefined && observed.observedGeneration !== meta.generation;
}

function twice(names: readonly string[]): string[] {
  return names.filter((name, at) => names.indexOf(name) !== at).map((name) => `There are two of ${name}`);
}

/** Keys of nothing; leaders, replicas and sessions that are too many or too few. */
async function wrongKeys(world: World, view: TenantView): Promise<string[]> {
  const entries = await entriesOf(world.store);
  const has = (kind: string, id: string): boolean => view.get(kind as KindName, id) !== undefined; // of a known key
  const agents = world.machines.filter(({ agent, server }) => agent !== undefined && has('server', server));
  const wanted = { leader: 1, replica: world.planes.length, agent: agents.length };
  return [
    ...leftoverKeys(entries, has),
    ...(['leader', 'replica', 'agent'] as const)
      .filter((area) => countOf(entries, area) !== wanted[area])
      .map((area) => `There must be ${wanted[area]} keys of area ${area}: got ${countOf(entries, area)}`),
  ];
}
