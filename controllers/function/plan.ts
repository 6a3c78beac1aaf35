import { createHash } from 'node:crypto';
import { mainService } from '../../agent-protocol/workload.ts';
import { canonicalJson } from '../../store/canonical-json.ts';
import { defined } from '../../store/defined.ts';
import { FunctionSpec } from '../../store/kinds/assignment.ts';
import type { FunctionRuntime } from '../../store/kinds/function.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { parseCpus, parseMemory } from '../../store/kinds/quantity.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import { planOne } from '../rollout/actions.ts';
import { environmentNetwork } from '../rollout/environment-network.ts';
import { mountsOf } from '../rollout/mounted.ts';
import { planTask } from '../task/task.ts';
import type { Fired } from './schedule.ts';
import type { World } from './states.ts';

/** Role of what its server has of a function, among its assignments. */
export const servedRole = 'function';

/** Role of the call for an instant. */
export function callRole(at: string): string {
  return `call/${at}`;
}

/** Calls that one instance answers at a time unless its user says otherwise. */
const usualConcurrency: Readonly<Record<FunctionRuntime, number>> = {
  node20: 16,
  bun: 16,
  deno: 16,
  go: 16,
  python3: 1,
};

/** The writes that bring what is on its server nearer to the function. Pure. */
export function plan(world: World, fired: Fired | undefined): Action[] {
  return [...planServed(world), ...planCall(world, fired)];
}

/** What a stopped function has on its server stays, without instances, so that the executions of it do. */
function planServed(world: World): Action[] {
  const { function: it, served, wanted, server, isHeld } = world;
  if (isDeleting(it) || server === undefined) return planOne(it, servedRole, { present: served, desired: undefined });
  if (wanted === undefined) return [];
  const desired = assignmentOf(world, wanted, world.isUnproven);
  return planOne(it, servedRole, {
    present: served,
    desired: isHeld && desired !== undefined ? { ...desired, run: 'stopped' } : desired,
  });
}

/**
 * What the server is to serve with a version; `undefined`: it was not built. `isUnproven`: no instance of it answered yet, which
 * is no part of its hash.
 */
export function assignmentOf(
  { function: { meta, desired }, server }: Pick<World, 'function' | 'server'>,
  wanted: World['wanted'],
  isUnproven = false,
): DesiredOf<'assignment'> | undefined {
  const { image, image_digest } = wanted?.observed ?? {};
  if (wanted === undefined || image === undefined || image_digest === undefined) return undefined;
  const port =
    desired.trigger.type === 'http' && server?.desired.direct_ports_enabled === true ? desired.exposed_port : undefined;
  const spec = FunctionSpec.parse(
    defined({
      type: 'function',
      image,
      image_digest,
      config: { kind: 'function_version', id: wanted.meta.id },
      version_id: wanted.meta.id,
      network: { name: environmentNetwork(desired.environment_id), aliases: [] },
      port,
      timeout_seconds: desired.timeout_seconds,
      concurrency: desired.concurrency ?? usualConcurrency[wanted.desired.runtime],
      min_instances: desired.min_instances,
      max_instances: desired.max_instances,
      mounts: desired.mounts.length === 0 ? undefined : mountsOf({ desired }),
      limits: limitsOf(desired),
    }),
  );
  return {
    server_id: desired.server_id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    workload_kind: 'function',
    workload_id: meta.id,
    workload_name: desired.internal_id,
    service: mainService,
    version: wanted.meta.id,
    run: desired.run,
    spec: isUnproven ? { ...spec, warm: true } : spec,
    spec_hash: createHash('sha256').update(canonicalJson(spec)).digest('hex'),
  };
}

function limitsOf({ memory_limit, cpu_limit }: World['function']['desired']): FunctionSpec['limits'] {
  const memory = memory_limit === undefined ? undefined : parseMemory(memory_limit);
  const cpus = cpu_limit === undefined ? undefined : parseCpus(cpu_limit);
  return defined({
    memory_bytes: memory !== undefined && 'bytes' in memory ? memory.bytes : undefined,
    nano_cpus: cpus !== undefined && 'nanoCpus' in cpus ? cpus.nanoCpus : undefined,
  });
}

/** How long a call by the schedule that begins now may take, in milliseconds, with its wait for a turn. */
export function callMs({ desired }: Pick<World['function'], 'desired'>): number {
  return (desired.timeout_seconds + 60) * 1000;
}

/**
 * The call that its schedule asked for: until its end is recorded. It is asked for once, with the limits of then: a task with others
 * would break it off.
 */
function planCall({ function: it, call }: World, fired: Fired | undefined): Action[] {
  const firing = it.observed?.firing;
  if (firing === undefined) return [];
  const { desired, meta } = it;
  const isWanted = !isDeleting(it) && firing.ended !== true && fired !== undefined;
  if (isWanted && isStaying(call)) return [];
  return planTask('call', it, {
    task: call,
    role: callRole(firing.at),
    wanted: isWanted
      ? {
          place: {
            server_id: desired.server_id,
            project_id: desired.project_id,
            environment_id: desired.environment_id,
            workload_kind: 'function',
            workload_id: meta.id,
            workload_name: desired.internal_id,
            version: meta.id,
          },
          spec: (head) => ({
            function_id: meta.id,
            scheduled_at: firing.at,
            missed: [...firing.missed],
            ...head,
          }),
          deadlineMs: callMs(it),
        }
      : undefined,
  });
}
