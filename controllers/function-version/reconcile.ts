import { deployLack } from '../../store/deploy-lack.ts';
import { hasVersionEnded } from '../../store/kinds/function.ts';
import { resolveReferences } from '../../store/referable.ts';
import { isStaying } from '../../store/resource.ts';
import { servedRole } from '../function/plan.ts';
import { perform } from '../rollout/actions.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { hasBegun, patienceMs, taskOf } from '../task/task.ts';
import { plan } from './plan.ts';
import type { RecipeOf } from './plan.ts';
import { advance, conditionsOf } from './states.ts';
import type { Version, World } from './states.ts';

export interface VersionSettings {
  recipe: RecipeOf;
  buildDeadlineMs: number;
}

/** A build that has not begun by then fails, so that it does not begin hours after its user asked for it. */
const queueMs = 60 * 60_000;
/** An image that is lost again and again is built again at most so often. */
const againMs = 10 * 60_000;

/** What a reference stands for is looked for again after that time, while it is being made. In milliseconds. */
const referenceLookMs = 1000;

/** Builds the image of each version of a function. */
export function functionVersionController({
  recipe,
  buildDeadlineMs,
}: VersionSettings): Controller<'function_version'> {
  return {
    name: 'function_version',
    kind: 'function_version',
    reads: ['function', 'application', 'database', 'assignment', 'server'],
    children: ['assignment'],
    notifies: ['function_build_failed'],
    wakes: [
      onChild('assignment', ({ desired }) =>
        desired.workload_kind === 'function' && ['build', 'function'].includes(desired.spec.type)
          ? [desired.version]
          : [],
      ),
      onChange(
        'function',
        ({ meta }) => meta.deletionRequestedAt,
        ({ meta }, view) => unfinished(view.by('function_version', 'function', meta.id)),
      ),
      onChange(
        'server',
        ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
        ({ meta }, view) => unfinished(view.by('function_version', 'server', meta.id)),
      ),
    ],
    reconcile: (it, ctx) => step(it, ctx),
    async finalize(it, ctx) {
      const verdict = await step(it, ctx);
      return { ...verdict, released: taskOf(ctx.view, it.meta.id, 'build') === undefined };
    },
  };

  async function step(it: Version, ctx: Context): Promise<Verdict<'function_version'>> {
    const build = taskOf(ctx.view, it.meta.id, 'build');
    const isBuilding = !hasVersionEnded(it.observed?.phase);
    const isBegun = hasBegun(build);
    const queued = queueMs - ctx.since('queued', isBuilding && !isBegun);
    const building = patienceMs(buildDeadlineMs) - ctx.since('building', isBuilding && isBegun);
    const left = isBegun ? building : queued;
    const world = readWorld(it, ctx, left <= 0);
    const now = advance(world);
    await perform(ctx, plan(world, now, { recipe, deadlineMs: buildDeadlineMs }));
    if (isBuilding && hasVersionEnded(now.phase)) await announce(world, now, ctx);
    if (!isBuilding && !hasVersionEnded(now.phase)) announceLoss(world, ctx);
    return { observed: now, conditions: conditionsOf(world, now), next: nextOf(world, now, left) };
  }
}

function nextOf({ version, resolution, lostIn }: World, now: ReturnType<typeof advance>, left: number): Next {
  if (!hasVersionEnded(now.phase) && resolution !== undefined && 'comes' in resolution)
    return { again: referenceLookMs, because: resolution.comes };
  if (!hasVersionEnded(now.phase)) return { again: Math.max(left, 0), because: 'its server to build it' };
  // the build goes now that its end is stored
  if (now.phase !== version.observed?.phase) return { again: 0, because: 'its build to be removed' };
  return lostIn === undefined ? { settled: true } : { again: lostIn, because: 'its image to be built again' };
}

function readWorld(it: Version, { view, clock }: Context, expired: boolean): World {
  const { function_id, server_id, config } = it.desired;
  const of = view.get('function', function_id);
  const server = view.get('server', server_id);
  const serverGone = !isStaying(server);
  const mayBuild = !serverGone && isStaying(it) && isStaying(of) && deployLack(of.desired, server, []) === undefined;
  const build = taskOf(view, it.meta.id, 'build');
  const isResolved = config.references === undefined || it.observed?.references !== undefined;
  return {
    version: it,
    function: of,
    // one that is being removed is of what was built before
    build: isStaying(build) ? build : undefined,
    resolution:
      isResolved || of === undefined
        ? undefined
        : resolveReferences(view, of.desired.environment_id, config.references ?? []),
    serverGone,
    lostIn:
      mayBuild && isImageLost(it, taskOf(view, function_id, servedRole)) ? untilAgain(it, clock.now()) : undefined,
    serverAway: server?.observed?.phase === 'offline' || server?.observed?.phase === 'error',
    expired,
    now: clock.now().toISOString(),
  };
}

/** Whether the server that is to serve the version reports that the image of it is gone. */
function isImageLost({ meta, observed }: Version, served: ReturnType<typeof taskOf>): boolean {
  const spec = served?.desired.spec;
  if (served?.desired.run !== 'running' || spec?.type !== 'function') return false;
  if (spec.version_id !== meta.id || spec.image_digest !== observed?.image_digest) return false;
  return upToDate(served)?.error?.code === 'image_not_found';
}

/** Milliseconds until the image of the version may be built again. */
function untilAgain({ observed }: Version, now: Date): number {
  if (observed?.lost_at === undefined) return 0;
  return Math.max(0, Date.parse(observed.lost_at) + againMs - now.getTime());
}

function announceLoss({ version, function: of }: World, ctx: Context): void {
  const message = `The image of version ${version.desired.number} was removed from its server: it is built again`;
  for (const it of [version, of])
    if (it !== undefined) ctx.event(it, { type: 'warning', reason: 'ImageGone', about: version.meta.id, message });
}

/** The event is of the function, too, whose history it belongs to. */
async function announce(
  { version, function: of }: World,
  now: ReturnType<typeof advance>,
  ctx: Context,
): Promise<void> {
  const isGood = now.phase === 'ready';
  const { number, reuse } = version.desired;
  const what = `Version ${number}`;
  const good =
    reuse === undefined ? `${what} is built` : `${what} is version ${reuse.number} with its variables of now`;
  const message = isGood ? good : `${what} failed: ${now.error?.message ?? 'no reason was recorded'}`;
  const event = {
    type: isGood ? ('normal' as const) : ('warning' as const),
    reason: isGood ? 'VersionReady' : 'VersionFailed',
    about: version.meta.id,
    message,
  };
  ctx.event(version, event);
  if (of === undefined) return;
  ctx.event(of, event);
  if (isGood) return;
  await ctx.notify(of, `${version.meta.id}/failed`, {
    type: 'function_build_failed',
    severity: 'error',
    title: `Function ${of.desired.name} was not built`,
    message,
  });
}

function unfinished(versions: readonly Version[]): string[] {
  return versions.filter(({ observed }) => !hasVersionEnded(observed?.phase)).map(({ meta }) => meta.id);
}
