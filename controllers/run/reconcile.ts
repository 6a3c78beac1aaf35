import { hasRunEnded } from '../../store/kinds/run.ts';
import { isStaying } from '../../store/resource.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { mountedBy, uncopiedPart } from '../rollout/mounted.ts';
import { perform } from '../rollout/actions.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { patienceMs, taskOf } from '../task/task.ts';
import { plan } from './plan.ts';
import type { Run, World } from './states.ts';
import { advance, awaited, conditionsOf } from './states.ts';

/** A command that has not begun by then fails, so that it does not run hours after its user asked for it. */
const pendingMs = 15 * 60_000;

/** Leads a command from its request to its end. */
export const runController: Controller<'run'> = {
  name: 'run',
  kind: 'run',
  reads: ['application', 'deployment', 'assignment', 'server', 'volume'],
  children: ['assignment'],
  notifies: { never: 'who began the command waits for its end, or looks at it' },
  wakes: [
    onChild('assignment', ({ desired }) => (desired.workload_kind === 'run' ? [desired.workload_id] : [])),
    onChange(
      'application',
      ({ meta }) => meta.deletionRequestedAt,
      ({ meta }, view) => unfinished(view.by('run', 'application', meta.id)),
    ),
    onChange(
      'server',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
      ({ meta }, view) => unfinished(view.by('run', 'server', meta.id)),
    ),
    onChange('volume', uncopiedPart, ({ meta }, view) =>
      view
        .by('application', 'volume', meta.id)
        .flatMap((app) => unfinished(view.by('run', 'application', app.meta.id))),
    ),
  ],
  reconcile: (it, ctx) => step(it, ctx),
  async finalize(it, ctx) {
    const verdict = await step(it, ctx);
    return { ...verdict, released: taskOf(ctx.view, it.meta.id, 'run') === undefined };
  },
};

async function step(it: Run, ctx: Context): Promise<Verdict<'run'>> {
  const phase = it.observed?.phase ?? 'pending';
  const pending = pendingMs - ctx.since('pending', phase === 'pending');
  const running = patienceMs(it.desired.timeout_seconds * 1000) - ctx.since('running', phase === 'running');
  const left = phase === 'pending' ? pending : running;
  const world = readWorld(it, ctx, left <= 0);
  const now = advance(world);
  await perform(ctx, plan(world));
  if (hasRunEnded(now.phase) && !hasRunEnded(it.observed?.phase)) announce(world, now, ctx);
  return { observed: now, conditions: conditionsOf(world, now), next: nextOf(world, now, left) };
}

function readWorld(it: Run, { view, clock }: Context, expired: boolean): World {
  const { application_id, deployment_id, server_id } = it.desired;
  const server = view.get('server', server_id);
  const application = view.get('application', application_id);
  return {
    run: it,
    application,
    deployment: view.get('deployment', deployment_id),
    mounted: mountedBy(application, view),
    task: taskOf(view, it.meta.id, 'run'),
    serverGone: !isStaying(server),
    serverAway: server?.observed?.phase === 'offline',
    expired,
    now: clock.now().toISOString(),
  };
}

/** The event is of the application, too, whose history it belongs to. */
function announce({ run, application }: World, now: ReturnType<typeof advance>, ctx: Context): void {
  const isGood = now.phase === 'succeeded' || now.phase === 'cancelled';
  const reason = `Run${now.phase.charAt(0).toUpperCase()}${now.phase.slice(1)}`;
  const message = `Command ${run.desired.name}: ${now.error?.message ?? now.phase}`;
  const event = { type: isGood ? ('normal' as const) : ('warning' as const), reason, about: run.meta.id, message };
  ctx.event(run, event);
  if (application !== undefined) ctx.event(application, event);
}

function nextOf(world: World, now: ReturnType<typeof advance>, left: number): Next {
  const because = awaited(world, now);
  const { run, task } = world;
  if (because === undefined) {
    // the task goes after the end was recorded
    if (!hasRunEnded(run.observed?.phase) && task !== undefined)
      return { again: 0, because: 'what its server has of it to be removed' };
    return { settled: true };
  }
  if (now.phase !== (run.observed?.phase ?? 'pending')) return { again: 0, because };
  return { again: Math.max(left, 0), because };
}

function unfinished(runs: readonly Run[]): string[] {
  return runs.filter(({ observed }) => !hasRunEnded(observed?.phase)).map(({ meta }) => meta.id);
}
