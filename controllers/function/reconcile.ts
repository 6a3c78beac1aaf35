import type { Ref } from '../../store/resource.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { patienceMs, taskOf, taskState } from '../task/task.ts';
import { assignmentOf, callMs, callRole, plan, servedRole } from './plan.ts';
import { fire } from './schedule.ts';
import type { CallState, Fired } from './schedule.ts';
import { conditionsOf, observe, stateOf } from './states.ts';
import type { Fn, State, World } from './states.ts';

/** Longest time between two looks at a schedule, in milliseconds: a clock that was set is found. */
const lookMs = 60 * 60_000;

/** Lets the version that is to serve do so once it is built, and calls the function as its schedule asks. */
export const functionController: Controller<'function'> = {
  name: 'function',
  kind: 'function',
  reads: ['function_version', 'assignment', 'server'],
  children: ['assignment'],
  notifies: ['function_error', 'function_recovered'],
  wakes: [
    onChild('assignment', ({ desired }) => (desired.workload_kind === 'function' ? [desired.workload_id] : [])),
    onChange(
      'function_version',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
      ({ desired }) => [desired.function_id],
    ),
    onChange(
      'server',
      ({ meta, desired, observed }) => [meta.deletionRequestedAt, desired.direct_ports_enabled, observed?.phase],
      ({ meta }, view) => view.by('function', 'server', meta.id).map((it) => it.meta.id),
    ),
  ],
  reconcile: (it, ctx) => step(it, ctx),
  async finalize(it, ctx) {
    const verdict = await step(it, ctx);
    const { served, call } = readWorld(it, ctx);
    return { ...verdict, released: served === undefined && call === undefined };
  },
};

async function step(it: Fn, ctx: Context): Promise<Verdict<'function'>> {
  const world = readWorld(it, ctx);
  const now = stateOf(world);
  const fired = firedBy(world, ctx);
  await perform(ctx, plan(world, fired));
  await announce(world, now, ctx);
  const observed = observe(world, now, fired);
  return { observed, conditions: conditionsOf(world, now), next: nextOf(world, now, observed, ctx) };
}

function readWorld(it: Fn, { view }: Context): World {
  const place = view.get('server', it.desired.server_id);
  const server = isStaying(place) ? place : undefined;
  const served = taskOf(view, it.meta.id, servedRole);
  const { firing } = it.observed ?? {};
  const versions = versionsOf({ function: it, server, served }, view);
  const { before, target, wanted } = versions;
  const isActive = isTaken(served, wanted);
  const isAtRest = it.desired.run === 'stopped' || (it.observed?.at_rest === true && !isServing(served));
  const isOther = before !== undefined && wanted?.meta.id !== target?.meta.id;
  return {
    function: it,
    target,
    wanted,
    active: isActive ? wanted : (before ?? wanted),
    isUnproven: !isActive && before !== undefined && (before.meta.id !== wanted?.meta.id || isDoubted(served, wanted)),
    refused: versions.refused,
    isAtRest,
    isHeld: isAtRest && it.desired.run === 'running' && isOther,
    served,
    isAsWanted:
      served !== undefined && served.desired.spec_hash === assignmentOf({ function: it, server }, wanted)?.spec_hash,
    call: firing && taskOf(view, it.meta.id, callRole(firing.at)),
    server,
  };
}

/** The versions that concern it now. `before`: the one that was active when its state was written last. */
function versionsOf(
  { function: it, server, served }: Pick<World, 'function' | 'server' | 'served'>,
  view: Context['view'],
): Pick<World, 'target' | 'wanted' | 'refused'> & { before: World['target'] } {
  const versionOf = (id: string | undefined) => (id === undefined ? undefined : view.get('function_version', id));
  const [target, before] = [versionOf(it.desired.version_id), versionOf(it.observed?.active_version_id)];
  const refused = before && refusedOf({ function: it, target, server, served }, before);
  return {
    target,
    before,
    refused,
    wanted: target?.observed?.phase === 'ready' && refused === undefined ? target : before,
  };
}

/** That the version that is to serve does not start, as its server says or said in this attempt. */
function refusedOf(
  { function: it, target, server, served }: Pick<World, 'function' | 'target' | 'server' | 'served'>,
  before: NonNullable<World['target']>,
): World['refused'] {
  if (target === undefined || target.meta.id === before.meta.id) return undefined;
  const wanted = assignmentOf({ function: it, server }, target);
  if (wanted === undefined) return undefined;
  const { attempt } = it.desired;
  const { refused } = it.observed ?? {};
  if (refused?.attempt === attempt && refused.spec_hash === wanted.spec_hash) return refused;
  const error = served && upToDate(served)?.error;
  if (error?.code !== 'not_started' || served?.desired.spec_hash !== wanted.spec_hash) return undefined;
  return { attempt, spec_hash: wanted.spec_hash, message: error.message };
}

/** Whether its server serves with the settings before as no instance starts with the present ones, and has not said otherwise since. */
function isDoubted(served: World['served'], wanted: World['wanted']): boolean {
  if (served === undefined || served.desired.version !== wanted?.meta.id) return false;
  const isWarm = served.desired.spec.type === 'function' && served.desired.spec.warm === true;
  const report = upToDate(served);
  return isWarm || (report?.ready === true && report.error?.code === 'not_started');
}

/** Whether calls are answered by the version that is to be. */
function isTaken(served: World['served'], wanted: World['wanted']): boolean {
  const report = served && upToDate(served);
  return report?.ready === true && report.error === undefined && served?.desired.version === wanted?.meta.id;
}

/** Whether calls are answered, by whatever version. */
function isServing(served: World['served']): boolean {
  return served?.desired.run === 'running' && upToDate(served)?.ready === true;
}

/** What its schedule leads to; `undefined`: it has none. */
function firedBy(world: World, ctx: Context): Fired | undefined {
  const { function: it, active, server, isHeld } = world;
  const { trigger, run } = it.desired;
  if (trigger.type !== 'cron' || isDeleting(it)) return undefined;
  const known = it.observed;
  const before: Fired = {
    handledUntil: known?.handled_until ?? ctx.clock.now().toISOString(),
    lastRunAt: known?.last_run_at,
    firing: known?.firing,
    missed: known?.missed ?? [],
    isIdle: known?.is_idle === true,
    rule: known?.rule,
  };
  const isIdle = run === 'stopped' || isHeld || active === undefined || server === undefined;
  return fire({ expression: trigger.schedule, timezone: trigger.timezone }, before, callStateOf(world, ctx), {
    isIdle,
    now: ctx.clock.now(),
  });
}

/** What is there of the call that was asked for last. A server that is away makes it once it is back. */
function callStateOf({ function: it, call, server }: World, ctx: Context): CallState {
  const firing = it.observed?.firing;
  const isUnderWay = firing !== undefined && firing.ended !== true;
  const isAway = server?.observed?.phase === 'offline' || server?.observed?.phase === 'error';
  // a server that answers and does not end a call would keep any other one from beginning
  const lateMs = patienceMs(
    call?.desired.spec.type === 'call' ? call.desired.spec.deadline_seconds * 1000 : callMs(it),
  );
  if (ctx.since('calling', isUnderWay && !isAway) <= lateMs) return callState(call);
  return call?.observed === undefined ? 'expired' : 'ended';
}

function callState(call: World['call']): CallState {
  if (call === undefined) return 'absent';
  const { outcome } = taskState('call', call);
  return ['succeeded', 'failed', 'lost'].includes(outcome) ? 'ended' : 'under_way';
}

/** Records each change of the phase, and notifies the users who may see the function of an error and of its end. */
async function announce(world: World, now: State, ctx: Context): Promise<void> {
  const { function: it } = world;
  const { meta, desired, observed } = it;
  if (observed === undefined) return;
  const isBroken = now.phase === 'error';
  if (observed.phase !== now.phase)
    ctx.event(it, {
      type: isBroken || now.phase === 'failed' ? 'warning' : 'normal',
      reason: now.reason,
      message: now.message,
    });
  const key = `${meta.id}/${now.phase}/${meta.observedRevision ?? 0}`;
  if (isBroken && observed.notified !== true)
    await ctx.notify(it, key, {
      type: 'function_error',
      severity: 'error',
      title: `Function ${desired.name} does not serve any more`,
      message: now.message,
    });
  if (observed.notified === true && observed.phase === 'error' && now.phase === 'running')
    await ctx.notify(it, key, {
      type: 'function_recovered',
      severity: 'info',
      title: `Function ${desired.name} serves again`,
      message: now.message,
    });
}

function nextOf(world: World, now: State, observed: Verdict<'function'>['observed'], ctx: Context): Next {
  const before = world.function.observed;
  // what was recorded is carried out by the next run
  if (JSON.stringify(observed.firing) !== JSON.stringify(before?.firing))
    return { again: 0, because: 'its schedule to be carried out' };
  if (observed.next_run_at === undefined)
    return now.because === undefined ? { settled: true } : { waitingFor: parts(world), because: now.because };
  const left = Date.parse(observed.next_run_at) - ctx.clock.now().getTime();
  return { again: Math.min(Math.max(left, 1), lookMs), because: now.because ?? 'its next time to come' };
}

function parts({ target, served, call, server }: World): Ref[] {
  return [
    ...(target === undefined ? [] : [{ kind: 'function_version', id: target.meta.id } as const]),
    ...[served, call].flatMap((it): Ref[] => (it === undefined ? [] : [{ kind: 'assignment', id: it.meta.id }])),
    ...(server === undefined ? [] : [{ kind: 'server', id: server.meta.id } as const]),
  ];
}
