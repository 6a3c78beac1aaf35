import type { Ref } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { withCertificate } from './encryption.ts';
import type { Secrets } from './encryption.ts';
import { plan } from './plan.ts';
import { awaitedPooler } from './pooler-states.ts';
import { conditionsOf, isUnready, observe, stateOf } from './states.ts';
import { readWorld } from './world.ts';
import type { Database, World } from './world.ts';

export interface DatabaseSettings {
  /** A database that was ready and is not any more is in error after that many milliseconds. */
  unreadyGraceMs: number;
  /** A database that was started must be ready within that many milliseconds: its image is fetched, its data is made. */
  startDeadlineMs: number;
  /** The image of poolers; absent: the usual one. */
  poolerImage?: string | undefined;
  secrets: Secrets;
}

/** Whether a pooler that is not wanted any more is still used is looked at again after that time. In milliseconds. */
const poolerLookMs = 5000;

/**
 * Keeps the one instance of a database on the volume that its data is in, with a certificate of the authority of its
 * environment, and its pooler beside it if it has one.
 */
export function databaseController(settings: DatabaseSettings): Controller<'database'> {
  const { poolerImage, secrets } = settings;
  return {
    name: 'database',
    kind: 'database',
    reads: [
      'assignment',
      'environment',
      'server',
      'volume',
      'wal_archive',
      'application',
      'deployment',
      'function',
      'function_version',
    ],
    children: ['assignment', 'database', 'environment', 'wal_archive'],
    notifies: ['database_error', 'database_recovered'],
    wakes: [
      onChild('assignment', ({ desired }) => (desired.workload_kind === 'database' ? [desired.workload_id] : [])),
      onChild('volume', ({ desired }) => (desired.database_id === undefined ? [] : [desired.database_id])),
      onChange(
        'wal_archive',
        ({ observed }) => observed?.conditions.map(({ status, reason, message }) => [status, reason, message]),
        ({ desired }) => [desired.database_id],
      ),
      onChange(
        'server',
        ({ meta, desired, observed }) => [meta.deletionRequestedAt, desired.direct_ports_enabled, observed?.phase],
        ({ meta }, view) => view.by('database', 'server', meta.id).map((it) => it.meta.id),
      ),
    ],
    async reconcile(it, ctx) {
      const found = readWorld(it, ctx.view);
      const read = { ...found, database: await withCertificate(found, ctx, secrets) };
      const unreadyLeft = leftOfGrace(it, isUnready(read), ctx);
      const world: World = { ...read, poolerImage, unreadyTooLong: unreadyLeft !== undefined && unreadyLeft <= 0 };
      await perform(ctx, plan(world));
      await archive(it, ctx);
      await announce(world, ctx);
      return verdict(world, unreadyLeft);
    },
    async finalize(it, ctx) {
      const world: World = { ...readWorld(it, ctx.view), poolerImage, unreadyTooLong: false };
      await perform(ctx, plan(world));
      const { slots, poolers, volumes } = world;
      return { ...verdict(world, undefined), released: slots.length + poolers.length + volumes.length === 0 };
    },
  };

  /** Milliseconds that a database that is not ready has left; `undefined` if it has or needs none. */
  function leftOfGrace(it: Database, unready: boolean, ctx: Context): number | undefined {
    const lasted = ctx.since('unready', unready);
    if (!unready) return undefined;
    const before = it.observed?.phase;
    const grace = before === 'running' || before === 'error' ? settings.unreadyGraceMs : settings.startDeadlineMs;
    return grace - lasted;
  }
}

/** Begins the archive that the database names, and ends every other one of it. */
async function archive(database: Database, ctx: Context): Promise<void> {
  const { meta, desired } = database;
  const wanted = desired.archive;
  for (const it of ctx.view.by('wal_archive', 'database', meta.id))
    if (it.meta.id !== wanted?.id && !it.desired.ended)
      await ctx.amend('wal_archive', it.meta.id, (draft) => void (draft.ended = true));
  if (wanted === undefined || ctx.view.get('wal_archive', wanted.id) !== undefined) return;
  const { project_id, environment_id, server_id, name, type, version } = desired;
  await ctx.transact((unit) => {
    unit.require(database);
    unit.create('wal_archive', wanted.id, {
      project_id,
      place: { environment_id, server_id },
      database_id: meta.id,
      volume_id: desired.data_volume_id,
      destination_id: wanted.destination_id,
      name,
      engine: { type, version },
      ended: false,
    });
  });
}

/** Records each change of the phase, and notifies the users who may see the database of an error and of its end. */
async function announce(world: World, ctx: Context): Promise<void> {
  const { database } = world;
  const { meta, desired, observed } = database;
  const now = stateOf(world);
  if (observed === undefined) return;
  if (observed.phase !== now.phase) {
    const { reason, message } = now;
    ctx.event(database, { type: now.phase === 'error' ? 'warning' : 'normal', reason, message });
  }
  const wasNotified = observed.notified === true;
  const isNotified = observe(world, now).notified === true;
  const key = `${meta.id}/${isNotified ? 'error' : 'recovered'}/${meta.observedRevision ?? 0}`;
  if (isNotified && !wasNotified) {
    const output = world.slots.map((it) => it.observed?.last_output).find((it) => it !== undefined);
    await ctx.notify(database, key, {
      type: 'database_error',
      severity: 'error',
      title: `Database ${desired.name} does not serve any more`,
      message: output === undefined ? now.message : `${now.message}\n\n${output}`,
    });
  }
  if (wasNotified && now.phase === 'running')
    await ctx.notify(database, key, {
      type: 'database_recovered',
      severity: 'info',
      title: `Database ${desired.name} serves again`,
      message: now.message,
    });
}

function verdict(world: World, unreadyLeft: number | undefined): Verdict<'database'> {
  const now = stateOf(world);
  return { observed: observe(world, now), conditions: conditionsOf(world, now), next: nextOf(world, unreadyLeft) };
}

function nextOf(world: World, unreadyLeft: number | undefined): Next {
  const { because = awaitedPooler(world), reason } = stateOf(world);
  if (because === undefined && world.isPoolerUsed)
    return { again: poolerLookMs, because: 'what has the address of its pooler to be replaced' };
  if (because === undefined) return { settled: true };
  if ((reason === 'Starting' || reason === 'NotReady') && unreadyLeft !== undefined && unreadyLeft > 0)
    return { again: unreadyLeft, because };
  return { waitingFor: parts(world), because };
}

function parts({ slots, poolers, volumes, server }: World): Ref[] {
  return [
    ...[...slots, ...poolers].map((it): Ref => ({ kind: 'assignment', id: it.meta.id })),
    ...volumes.map((it): Ref => ({ kind: 'volume', id: it.meta.id })),
    ...(server === undefined ? [] : [{ kind: 'server', id: server.meta.id } as const]),
  ];
}
