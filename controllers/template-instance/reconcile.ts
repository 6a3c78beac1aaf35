import { refusedPort } from '../../agent-protocol/port-policy.ts';
import { areBuildsUsedUp } from '../../store/build-minutes.ts';
import { defined } from '../../store/defined.ts';
import { definitionOf } from '../../store/definition.ts';
import { deployLack } from '../../store/deploy-lack.ts';
import { portPolicyOf } from '../../store/direct-ports.ts';
import { foldName } from '../../store/fold-name.ts';
import { childProgress } from '../../store/instance-progress.ts';
import { isBuilt } from '../../store/kinds/application.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { InstanceChildKind } from '../../store/kinds/template-instance.ts';
import type { TenantView } from '../../store/mirror.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import { createDeployment } from '../../store/new-deployment.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { portOwner } from '../../store/port-owner.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { serverLack } from '../../store/server-room.ts';
import { credentialsOf } from '../../store/source-credentials.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { Context, Controller, Next } from '../runtime/controller.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { possibleOf, stateOf } from './states.ts';
import type { Child, Instance, Lack, State, World } from './states.ts';

/** What is in the way of a child is looked for again after that time. */
const lackPauseMs = 60_000;

/** Namespace of the ids of the deployments of instances (UUIDv5). */
const namespace = '0b6d0a6e-3b7f-4b57-8a0a-8a4a6d3f9a52';

export interface TemplateInstanceSettings {
  /** What a build under way counts as. */
  buildDeadlineMs: number;
  /** Ports of servers on the machine of the control plane that it has itself. */
  ownPorts: readonly number[];
}

const childKinds = ['volume', 'database', 'application'] as const satisfies readonly InstanceChildKind[];

/**
 * Makes what a template declares, wave by wave: a wave begins once all of those before are up. What it made is an object
 * like any other from then on, which the instance owns. At the end it removes them, the last wave first.
 */
export function templateInstanceController(settings: TemplateInstanceSettings): Controller<'template_instance'> {
  return {
    name: 'template_instance',
    kind: 'template_instance',
    reads: [...childKinds, 'deployment', 'project', 'environment', 'server', 'settings', 'registry', 'git_credential'],
    children: [...childKinds, 'deployment'],
    notifies: ['template_instance_failed'],
    wakes: [
      onChild('volume', ownerOf),
      onChild('database', ownerOf),
      onChild('application', ownerOf),
      onChange(
        'deployment',
        ({ observed }) => observed?.phase,
        ({ desired }, view) => {
          const it = view.get('application', desired.application_id);
          return it === undefined ? [] : ownerOf(it);
        },
      ),
    ],
    async reconcile(it, ctx) {
      const world = worldOf(it, ctx, settings);
      const made = possibleOf(world);
      for (const child of made) await make(it, child, ctx);
      const state = stateOf(world, made);
      await announce(it, state, ctx);
      return { observed: state.observed, conditions: [state.ready], next: nextOf(state) };
    },
    async finalize(it, ctx) {
      const left = await remove(it, ctx);
      const { observed, ready } = stateOf(worldOf(it, ctx, settings));
      const next: Next =
        left.length === 0
          ? { settled: true }
          : { waitingFor: left.map(({ meta: { kind, id } }) => ({ kind, id })), because: 'what it made to be gone' };
      return { observed, conditions: [ready], next, released: left.length === 0 };
    },
  };
}

function ownerOf({ desired }: { readonly desired: { readonly template_instance_id?: string | undefined } }): string[] {
  return desired.template_instance_id === undefined ? [] : [desired.template_instance_id];
}

function worldOf(instance: Instance, ctx: Context, settings: TemplateInstanceSettings): World {
  const { view } = ctx;
  return {
    instance,
    progress: (child) => childProgress(view, instance, child),
    lack: (child) => lackOf(child, ctx, settings),
  };
}

function lackOf(child: Child, { view, clock }: Context, settings: TemplateInstanceSettings): Lack | undefined {
  const { project_id: projectId, server_id: serverId, name } = child.desired;
  const server = view.get('server', serverId);
  const credentials = child.kind === 'application' ? credentialsOf(view, child.desired, child.desired.source) : [];
  const unusable = deployLack({ name, project_id: projectId }, server, credentials);
  if (unusable !== undefined) return unusable;
  const holder = namesake(view, child);
  if (holder !== undefined) {
    const message = `${child.kind} ${name} cannot be made as another ${child.kind}, ${holder.desired.name}, has its name or one of its domains: rename or delete that`;
    return { reason: 'NameTaken', message };
  }
  const port = portOf(child);
  const wanted = { projectId, serverId, port };
  if (port !== undefined && server?.desired.direct_ports_enabled === true) {
    const policy = portPolicyOf(server.desired, settings.ownPorts);
    const owner = portOwner(view, wanted);
    const refusal = refusedPort(policy, { port, project: projectId, held: false });
    if (refusal !== undefined) return { reason: 'PortNotUsable', message: refusal };
    if (owner !== undefined)
      return {
        reason: 'PortNotUsable',
        message: `Port ${port} of the server belongs to ${owner}: stop that one first`,
      };
  }
  if (child.kind !== 'application') return undefined;
  const full = serverLack(view, [{ server: serverId, desired: child.desired }]);
  if (full !== undefined) return { reason: 'NoRoom', message: full };
  const now = clock.now().getTime();
  if (isBuilt({ source: child.desired.source }) && areBuildsUsedUp(view, projectId, now, settings.buildDeadlineMs))
    return {
      reason: 'BuildsUsedUp',
      message: 'Builds have used up what the project may take in 24 hours: it goes on later',
    };
  return undefined;
}

function portOf(child: Child): number | undefined {
  switch (child.kind) {
    case 'volume':
      return undefined;
    case 'database':
      return child.desired.exposed_port;
    case 'application':
      return child.desired.config.exposed_port;
  }
}

/** Another object that has a name which the child would have. */
function namesake(view: TenantView, { kind, id, desired }: Child): ReadonlyResource<InstanceChildKind> | undefined {
  const wanted = new Set(namesOf(kind, desired));
  const others: readonly ReadonlyResource<InstanceChildKind>[] = [
    ...view.by(kind, 'environment', desired.environment_id),
    ...view.by(kind, 'server', desired.server_id),
  ];
  return others.find((it) => it.meta.id !== id && namesOf(kind, it.desired).some((name) => wanted.has(name)));
}

function namesOf(kind: InstanceChildKind, desired: Child['desired']): string[] {
  const unique = definitionOf(kind).unique?.(plainCopy<DesiredOf<typeof kind>>(desired)) ?? [];
  return unique.map(({ scope, name }) => `${scope} ${foldName(name)}`);
}

/** Makes a child in one transaction; an application with its first deployment. */
async function make(instance: Instance, child: Child, ctx: Context): Promise<void> {
  const { view, clock } = ctx;
  const { project_id, environment_id, server_id, requested_by } = instance.desired;
  const labels = defined({ labels: child.labels && { ...child.labels } });
  await ctx.transact(
    (unit) => {
      unit.require(instance);
      for (const it of [
        view.get('project', project_id),
        view.get('environment', environment_id),
        view.get('server', server_id),
      ])
        if (it !== undefined) unit.require(it);
      switch (child.kind) {
        case 'volume':
          unit.create('volume', child.id, plainCopy<DesiredOf<'volume'>>(child.desired), labels);
          return;
        case 'database': {
          unit.create('database', child.id, plainCopy<DesiredOf<'database'>>(child.desired), labels);
          unit.create('volume', child.desired.data_volume_id, volumeOf(child.id, child.desired));
          return;
        }
        case 'application': {
          const it = unit.create('application', child.id, plainCopy<DesiredOf<'application'>>(child.desired), labels);
          createDeployment(unit, it, uuidv5(namespace, `${instance.meta.id} ${child.id}`), {
            trigger: 'template',
            triggeredBy: requested_by,
            queued_at: clock.now().toISOString(),
          });
        }
      }
    },
    { audited: 'controller template_instance' },
  );
}

/** Removes the last wave that is left, or leaves what has data to nobody. Returns what is not gone yet. */
async function remove(instance: Instance, ctx: Context): Promise<ReadonlyResource<InstanceChildKind>[]> {
  const { children, keep_data: isKept = false } = instance.desired;
  const waves = new Map(children.map(({ id, wave }) => [id, wave]));
  const owned = childKinds.flatMap((kind): readonly ReadonlyResource<InstanceChildKind>[] =>
    ctx.view.by(kind, 'template_instance', instance.meta.id),
  );
  const left: ReadonlyResource<InstanceChildKind>[] = [];
  for (const it of owned) {
    const { kind, id } = it.meta;
    if (isKept && kind !== 'application' && !isDeleting(it))
      await ctx.amend(kind, id, leave, { audited: 'controller template_instance' });
    else left.push(it);
  }
  const last = Math.max(...left.map(({ meta }) => waves.get(meta.id) ?? 0));
  for (const { meta } of left) if ((waves.get(meta.id) ?? 0) === last) await ctx.retire(meta.kind, meta.id);
  return left;
}

function leave(draft: { template_instance_id?: string | undefined }): void {
  delete draft.template_instance_id;
}

/** Tells the users of the project that a part cannot be brought up. */
async function announce(instance: Instance, { observed, ready }: State, ctx: Context): Promise<void> {
  const { phase } = observed;
  if (instance.observed?.phase === phase) return;
  const { name } = instance.desired;
  const isTrouble = phase === 'failed' || phase === 'degraded';
  ctx.event(instance, { type: isTrouble ? 'warning' : 'normal', reason: ready.reason, message: ready.message });
  if (phase === 'failed')
    await ctx.notify(instance, `${instance.meta.id}/failed/${instance.meta.observedRevision ?? 0}`, {
      type: 'template_instance_failed',
      severity: 'warning',
      title: `Template instance ${name} cannot be brought up`,
      message: ready.message,
    });
}

function nextOf({ pending, isLacking }: State): Next {
  if (isLacking) return { again: lackPauseMs, because: 'what is in its way to be gone' };
  if (pending.length === 0) return { settled: true };
  return {
    waitingFor: pending.map(({ kind, id }) => ({ kind, id })),
    because: 'what it makes to be up',
  };
}
