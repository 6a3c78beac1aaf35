import { parseKey, keys } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { startMirror } from '../../store/mirror.ts';
import { pino } from 'pino';
import type { World } from './world.ts';
import { tenant } from './world.ts';

/** What two runs of one scenario must end in alike. */
export interface FinalState {
  /** Desired and observed states by names that mean the same in every run. */
  objects: Record<string, unknown>;
  /** Containers of each server. */
  containers: unknown[];
  networks: string[];
  /** What must not be there; empty in every good run. */
  leftovers: string[];
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const time = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** People and what they are told are no part of it; nor are counters that tell how often something was done. */
const leftOut = new Set(['user', 'service_key', 'session', 'notification']);
const volatile = new Set([
  '$sealed',
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
  const entries = await all(world);
  const log = pino({ level: 'silent' });
  await using mirror = startMirror({ store: world.store, clock: world.clock, log });
  await mirror.ready;
  const view = mirror.tenant(tenant);
  const objects: ReadonlyResource[] = [];
  for (const kind of [
    'project',
    'environment',
    'server',
    'application',
    'deployment',
    'assignment',
    'operation',
  ] as const)
    objects.push(...view.list(kind));
  const names = new Map(objects.map((it) => [it.meta.id, nameOf(it, (kind, id) => view.get(kind, id))]));
  const networks = new Map(
    view.list('environment').map((it) => [`sp-${it.meta.id.replaceAll('-', '').slice(0, 12)}`, names.get(it.meta.id)]),
  );
  const aliases = new Map(view.list('application').map((it) => [it.desired.internal_id, names.get(it.meta.id)]));
  const plain = (value: unknown): unknown => {
    if (value === undefined) return undefined;
    let text = JSON.stringify(value, (name, inner: unknown) => (volatile.has(name) ? undefined : inner));
    for (const [alias, name] of [...aliases, ...networks]) text = text.replaceAll(alias, `<${name}>`);
    text = text.replace(uuid, (id) => `<${names.get(id) ?? 'id'}>`).replace(time, '<time>');
    return JSON.parse(text);
  };
  const leftovers: string[] = [];
  const state: FinalState = { objects: {}, containers: [], networks: [], leftovers };
  for (const it of objects) {
    const name = names.get(it.meta.id) ?? '';
    if (name in state.objects) leftovers.push(`A second ${name}`);
    if (
      it.observed !== undefined &&
      it.observed.observedGeneration !== it.meta.generation &&
      it.meta.kind !== 'environment'
    )
      leftovers.push(`${name} is at generation ${it.meta.generation}, observed ${it.observed.observedGeneration}`);
    state.objects[name] = plain({
      desired: it.desired,
      observed: hasLostRace(it) ? 'superseded' : it.observed,
      finalizers: it.meta.finalizers,
      deleting: it.meta.deletionRequestedAt !== undefined,
    });
  }
  const known = new Set(objects.map((it) => `${it.meta.kind}/${it.meta.id}`));
  leftovers.push(...orphans(entries, known, world));
  for (const machine of world.machines) {
    for (const one of machine.engine.containers) {
      const { env, state: runs, command } = one.detail();
      const assignment = one.mutable.labels[labels.assignment] ?? '';
      if (!names.has(assignment)) leftovers.push(`Container ${one.name} of no assignment`);
      state.containers.push(
        plain({ assignment, runs, env, command, network: one.network, restart: one.mutable.restart }),
      );
    }
    for (const name of machine.engine.networks.keys())
      state.networks.push(networks.has(name) ? `<${networks.get(name)}>` : name);
  }
  state.containers.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  state.networks.sort();
  return state;
}

/** How far a deployment came before a newer one took its place is left to chance. */
function hasLostRace({ observed }: ReadonlyResource): boolean {
  return observed !== undefined && 'phase' in observed && observed.phase === 'superseded';
}

function nameOf(it: ReadonlyResource, get: (kind: KindName, id: string) => ReadonlyResource | undefined): string {
  const { kind } = it.meta;
  const desired = it.desired as Record<string, unknown>; // of any kind: looked at by kind
  const of = (owner: KindName, field: string): string => {
    const id = String(desired[field]);
    const found = get(owner, id);
    return found === undefined ? `${owner} that is gone` : nameOf(found, get);
  };
  switch (kind) {
    case 'environment':
      return `${of('project', 'project_id')} environment ${String(desired['name'])}`;
    case 'deployment':
      return `${of('application', 'application_id')} deployment ${String(desired['number'])}`;
    case 'assignment': {
      const spec = desired['spec'] as { type: string; slot?: number };
      return `${of('deployment', 'deployment_id')} ${spec.type}${spec.slot === undefined ? '' : ` ${spec.slot}`}`;
    }
    default:
      return `${kind} ${String(desired['name'] ?? it.meta.id)}`;
  }
}

/** Keys that belong to nothing, or whose holder should be there and is not. */
function orphans(
  entries: readonly { key: string; value: string }[],
  known: ReadonlySet<string>,
  world: World,
): string[] {
  const found: string[] = [];
  const count = { leader: 0, replica: 0 };
  for (const { key, value } of entries) {
    const meaning = parseKey(key);
    switch (meaning?.area) {
      case undefined:
        found.push(`Unknown key ${key}`);
        break;
      case 'desired':
      case 'observed':
      case 'events':
        if (!leftOut.has(meaning.kind) && !known.has(`${meaning.kind}/${meaning.id}`)) found.push(`Orphan ${key}`);
        break;
      case 'unique':
        if (!leftOut.has(meaning.kind) && !known.has(`${meaning.kind}/${JSON.parse(value).id}`))
          found.push(`Orphan ${key}`);
        break;
      case 'agent':
        if (!known.has(`server/${meaning.server}`)) found.push(`Orphan ${key}`);
        break;
      case 'leader':
      case 'replica':
        count[meaning.area] += 1;
        break;
      case 'idempotency':
      case 'tenant':
      case 'meta':
        break;
    }
  }
  if (count.leader !== 1) found.push(`${count.leader} leaders`);
  if (count.replica !== world.planes.length) found.push(`${count.replica} replicas announced`);
  const sessions = entries.filter(({ key }) => parseKey(key)?.area === 'agent').length;
  const agents = world.machines.filter(
    ({ agent, server }) => agent !== undefined && known.has(`server/${server}`),
  ).length;
  if (sessions !== agents) found.push(`${sessions} sessions of ${agents} agents`);
  return found;
}

async function all(world: World): Promise<{ key: string; value: string }[]> {
  const found: { key: string; value: string }[] = [];
  let after: string | undefined;
  for (;;) {
    const page = await world.store.list(keys.all, { limit: 500, ...(after !== undefined && { after }) });
    found.push(...page.entries);
    if (page.next === undefined) return found;
    after = page.next;
  }
}
