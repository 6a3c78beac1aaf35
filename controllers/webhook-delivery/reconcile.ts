import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource, Ref } from '../../store/resource.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { onChange, onChild, onGone } from '../runtime/wakes.ts';
import { announcedBy } from '../sync/announced.ts';
import { previewsOf } from './previews.ts';
import { branchesOf, isOvertaken, patienceLeft, plan, tagsOf, withSyncs } from './states.ts';
import type { Delivery, Planned, World } from './states.ts';

/** Longer than the 20 s of a comparison whose answer a user waits for. */
const deadlineSeconds = 30;

/**
 * Decides a delivery for each application that follows the pushed branch, by a comparison with the branch: an operation,
 * which deploys. What a git host says of a push is never deployed itself.
 */
export const webhookDeliveryController: Controller<'webhook_delivery'> = {
  name: 'delivery',
  kind: 'webhook_delivery',
  reads: ['git_webhook', 'application', 'operation', 'server', 'project', 'environment', 'preview', 'sync'],
  children: ['operation', 'preview'],
  notifies: ['autodeploy_failed'],
  wakes: [
    onChild('operation', ({ desired }) => (desired.delivery_id === undefined ? [] : [desired.delivery_id])),
    onGone('preview', ({ desired }, view) =>
      view
        .by('webhook_delivery', 'project', desired.project_id)
        .filter(isPending)
        .map(({ meta }) => meta.id),
    ),
    onChange(
      'server',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
      (_, view) =>
        view
          .list('webhook_delivery')
          .filter(isPending)
          .map(({ meta }) => meta.id),
    ),
  ],
  async reconcile(it, ctx) {
    if (it.observed?.phase === 'decided') return settled(plainCopy<ObservedOf<'webhook_delivery'>>(it.observed));
    const world = readWorld(it, ctx);
    const isOfPreviews = isOfPreviewsAlone(it);
    if (it.desired.ended === undefined && world.webhook !== undefined) {
      const leftMs = patienceLeft(world);
      const found = await previewsOf(
        it,
        world.webhook,
        { isOvertaken: isOvertaken(world), isPatient: leftMs > 0 },
        ctx,
      );
      if ('waitsFor' in found) return waiting(found.waitsFor, leftMs);
      if (isOfPreviews) return settled(previewed(found.said, ctx));
    }
    const planned = plan(world);
    for (const { app, id } of planned.begin)
      await ctx.ensure(
        'operation',
        id,
        {
          type: 'sync',
          project_id: app.desired.project_id,
          application_id: app.meta.id,
          server_id: app.desired.server_id,
          deploy: true,
          // a user who replays a delivery also wants what failed before
          ...(it.desired.requested_by === undefined
            ? { trigger: 'webhook' as const }
            : { requested_by: it.desired.requested_by }),
          delivery_id: it.meta.id,
          requested_at: it.desired.received_at,
          deadline_seconds: deadlineSeconds,
        },
        app,
      );
    await notifyFailures(it, planned, ctx);
    if (planned.observed.phase === 'decided')
      return settled(
        withSyncs(
          planned.observed,
          announcedBy(it, ctx.view).map(({ desired }) => desired.name),
        ),
      );
    return {
      observed: planned.observed,
      conditions: [{ type: 'Ready', status: 'false', reason: 'Pending', message: 'It is being decided' }],
      next: nextOf(planned),
    };
  },
};

function isPending({ observed }: Delivery): boolean {
  return observed?.phase === 'pending';
}

/** Nothing of it is about a branch or a tag that is there: nothing can be compared with it. */
function isOfPreviewsAlone(it: Delivery): boolean {
  return it.desired.request !== undefined || (branchesOf(it).size === 0 && tagsOf(it).length === 0);
}

function waiting({ desired: { name } }: ReadonlyResource<'preview'>, leftMs: number): Verdict<'webhook_delivery'> {
  const reason = `It waits for preview ${name}, which is being removed, to be gone`;
  return {
    observed: { phase: 'pending', reason, applications: [] },
    conditions: [{ type: 'Ready', status: 'false', reason: 'Pending', message: reason }],
    next: { again: leftMs, because: `preview ${name} to be gone` },
  };
}

function previewed(said: string | undefined, { clock }: Context): ObservedOf<'webhook_delivery'> {
  const decided_at = clock.now().toISOString();
  return {
    phase: 'decided',
    decision: said === undefined ? 'ignored' : 'evaluated',
    reason: said ?? 'The branch was deleted',
    applications: [],
    decided_at,
  };
}

function readWorld(it: Delivery, { view, clock }: Context): World {
  const { webhook_id: webhook, project_id: project } = it.desired;
  const others = view.by('webhook_delivery', 'git_webhook', webhook).filter(({ meta }) => meta.id !== it.meta.id);
  return {
    delivery: it,
    webhook: view.get('git_webhook', webhook),
    applications: view.by('application', 'project', project),
    others,
    operation: (id) => view.get('operation', id),
    isAway: ({ desired }) => {
      const phase = view.get('server', desired.server_id)?.observed?.phase;
      return phase === 'offline' || phase === 'provisioning';
    },
    nowMs: clock.now().getTime(),
  };
}

/** Notifies of each application for which the delivery could not be decided: its user waits for a deployment. */
async function notifyFailures(it: Delivery, { observed }: Planned, ctx: Context): Promise<void> {
  const before = new Map(it.observed?.applications.map((one) => [one.id, one.decision]));
  for (const { id, name, decision, reason } of observed.applications) {
    const app = ctx.view.get('application', id);
    if (decision !== 'failed' || before.get(id) === 'failed' || app === undefined) continue;
    ctx.event(app, { type: 'warning', reason: 'AutodeployFailed', message: reason });
    await ctx.notify(app, `${it.meta.id}/${id}/failed`, {
      type: 'autodeploy_failed',
      severity: 'error',
      title: `A push to ${name} was not deployed`,
      message: reason,
    });
  }
}

function nextOf({ underWay, servers, againMs }: Planned): Verdict<'webhook_delivery'>['next'] {
  const because = 'its applications to be compared with their branch';
  if (againMs !== undefined) return { again: againMs, because };
  const refs: Ref[] = [
    ...underWay.map((id) => ({ kind: 'operation' as const, id })),
    ...servers.map((id) => ({ kind: 'server' as const, id })),
  ];
  return { waitingFor: refs, because };
}

function settled(observed: ObservedOf<'webhook_delivery'>): Verdict<'webhook_delivery'> {
  return {
    observed,
    conditions: [{ type: 'Ready', status: 'true', reason: 'Decided', message: observed.reason ?? 'It is decided' }],
    next: { settled: true },
  };
}
