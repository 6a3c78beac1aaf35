import { refusedPort } from '../../agent-protocol/port-policy.ts';
import { areBuildsUsedUp } from '../../store/build-minutes.ts';
import { builtBy } from '../../store/built-by.ts';
import { needsDeployment, needsVersion } from '../../store/declared/effects.ts';
import { referencesPath } from '../../store/declared/leaves.ts';
import { comparable, declarationOf, driftOf } from '../../store/declared/field-plan.ts';
import { writeLeaves } from '../../store/declared/merge.ts';
import { defined } from '../../store/defined.ts';
import { definitionOf } from '../../store/definition.ts';
import { deployLack } from '../../store/deploy-lack.ts';
import { portPolicyOf } from '../../store/direct-ports.ts';
import { foldName } from '../../store/fold-name.ts';
import { childProgress, isHeldBack, isOutdated } from '../../store/instance-progress.ts';
import { isBuilt } from '../../store/kinds/application.ts';
import type { SealedValue } from '../../store/kinds/define.ts';
import type { FunctionRuntime } from '../../store/kinds/function.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { InstanceChildKind } from '../../store/kinds/template-instance.ts';
import type { TenantView } from '../../store/mirror.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import { createDeployment } from '../../store/new-deployment.ts';
import type { NewDeployment } from '../../store/new-deployment.ts';
import { createFunctionVersion } from '../../store/new-function-version.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { portOwner } from '../../store/port-owner.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { hostOfOthers } from '../../store/routed-hosts.ts';
import type { SealComparer } from '../../store/seal.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import { serverLack } from '../../store/server-room.ts';
import { servingDeployment } from '../../store/serving.ts';
import { credentialsOf } from '../../store/source-credentials.ts';
import { usersInWords, usersOutside } from '../../store/users-outside.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { ChildUnit, Context, Controller, Next } from '../runtime/controller.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { leftOf, possibleOf, retiredOf, stateOf } from './states.ts';
import type { Child, Drift, Instance, Lack, State, World } from './states.ts';

/** What is in the way of a child is looked for again after that time. */
const lackPauseMs = 60_000;

/** Namespace of the ids of the deployments of instances (UUIDv5). */
const namespace = '0b6d0a6e-3b7f-4b57-8a0a-8a4a6d3f9a52';

export interface TemplateInstanceSettings {
  /** What a build under way counts as. */
  buildDeadlineMs: number;
  /** Ports of servers on the machine of the control plane that it has itself. */
  ownPorts: readonly number[];
  /** Images to build functions upon, in place of those of their runtimes. */
  runtimeImages: Readonly<Partial<Record<FunctionRuntime, string>>>;
  secrets: SealComparer;
}

const childKinds = ['volume', 'database', 'application', 'function'] as const satisfies readonly InstanceChildKind[];

/**
 * Makes what a template declares, wave by wave: a wave begins once all of those before are up. What it made is an object
 * like any other from then on, which the instance owns. At the end it removes them, the last wave first.
 */
export function templateInstanceController(settings: TemplateInstanceSettings): Controller<'template_instance'> {
  return {
    name: 'template_instance',
    kind: 'template_instance',
    reads: [
      ...childKinds,
      'deployment',
      'project',
      'environment',
      'server',
      'settings',
      'registry',
      'git_credential',
      'function_version',
    ],
    children: [...childKinds, 'deployment', 'function_version'],
    notifies: ['template_instance_failed'],
    wakes: [
      onChild('volume', ownerOf),
      onChild('database', ownerOf),
      onChild('application', ownerOf),
      onChild('function', ownerOf),
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
      for (const child of made)
        await (world.progress(child).state === 'outdated'
          ? update(it, child, ctx, settings)
          : make(it, child, ctx, settings));
      const left = leftOf(world);
      for (const one of left) await leaveToUsers(it, one, ctx);
      const retired = retiredOf(world);
      for (const { meta } of retired) await ctx.retire(meta.kind, meta.id);
      if (it.desired.drift === 'correct') await correct(world, ctx, settings);
      const state = stateOf(world, made, uncorrected(world, ctx, settings));
      await announce(it, state, ctx);
      // a change that its object had already is no event of that, and the next wave waits for it
      const next: Next =
        made.length + left.length > 0
          ? { again: 0, because: 'what it changed to be looked at' }
          : nextOf(state, retired);
      return { observed: state.observed, conditions: [state.ready], next };
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
  const { children } = instance.desired;
  const declared = new Set(children.map(({ id }) => id));
  const obsolete = ownedBy(instance, view).filter(({ meta }) => !declared.has(meta.id));
  return {
    instance,
    progress: (child) => childProgress(view, instance, child),
    lack: (child) => lackOf(instance, child, ctx, settings),
    former: ({ kind, desired }) =>
      obsolete.find((it) => it.meta.kind === kind && foldName(it.desired.name) === foldName(desired.name)),
    obsolete,
    isUsed: (one) => usersOutside(view, one).length > 0,
    drift:
      instance.desired.drift === 'ignore'
        ? []
        : children.flatMap((child) => driftedFields(instance, child, ctx, settings)),
  };
}

function ownedBy(instance: Instance, view: TenantView): ReadonlyResource<InstanceChildKind>[] {
  return childKinds.flatMap((kind): readonly ReadonlyResource<InstanceChildKind>[] =>
    view.by(kind, 'template_instance', instance.meta.id),
  );
}

/** What a user changed by hand of a child that is there and is not about to be changed. */
function driftedFields(
  instance: Instance,
  child: Child,
  { view, tenant }: Context,
  { secrets }: TemplateInstanceSettings,
): Drift[] {
  const it = view.get(child.kind, child.id);
  if (!isStaying(it) || isOutdated(instance, child)) return [];
  const isSame = (one: SealedValue, other: SealedValue): boolean => secrets.isSame(tenant, one, other);
  const live = comparable(it.desired, child.desired);
  return driftOf(child.kind, declarationOf(child.desired, child.declared), live, isSame).map(
    ({ path, field, before, after }) => ({ id: child.id, path, field, declared: after, live: before }),
  );
}

function lackOf(instance: Instance, child: Child, ctx: Context, settings: TemplateInstanceSettings): Lack | undefined {
  const { view } = ctx;
  if (isStaying(view.get(child.kind, child.id)))
    return isOutdated(instance, child) ? changeLack(ctx, settings, child, child.changes ?? []) : undefined;
  const { project_id: projectId, server_id: serverId, name } = child.desired;
  const server = view.get('server', serverId);
  const credentials = child.kind === 'application' ? credentialsOf(view, child.desired, child.desired.source) : [];
  const unusable = deployLack({ name, project_id: projectId }, server, credentials);
  if (unusable !== undefined) return unusable;
  const taken = nameLack(view, child, 'made') ?? mountLack(view, child);
  if (taken !== undefined) return taken;
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
  return isBuilt({ source: child.desired.source }) ? buildLack(ctx, settings, projectId) : undefined;
}

function buildLack(
  { view, clock }: Pick<Context, 'view' | 'clock'>,
  { buildDeadlineMs }: TemplateInstanceSettings,
  projectId: string,
): Lack | undefined {
  if (!areBuildsUsedUp(view, projectId, clock.now().getTime(), buildDeadlineMs)) return undefined;
  return {
    reason: 'BuildsUsedUp',
    message: 'Builds have used up what the project may take in 24 hours: it goes on later',
  };
}

function portOf(child: Child): number | undefined {
  switch (child.kind) {
    case 'volume':
      return undefined;
    case 'database':
      return child.desired.exposed_port;
    case 'application':
      return child.desired.config.exposed_port;
    case 'function':
      return child.desired.exposed_port;
  }
}

/** What is in the way of writing these leaves of a child into its object. */
function changeLack(
  ctx: Pick<Context, 'view' | 'clock'>,
  settings: TemplateInstanceSettings,
  child: Child,
  paths: readonly string[],
): Lack | undefined {
  const { view } = ctx;
  const coming = comingOf(view, child, paths);
  if (coming === undefined) return undefined;
  const isMounting = paths.some((path) => path === 'mounts' || path === 'replicas');
  const lack = nameLack(view, coming, 'changed') ?? (isMounting ? mountLack(view, coming) : undefined);
  if (lack !== undefined) return lack;
  return isToBuild(view, coming, paths) ? buildLack(ctx, settings, coming.desired.project_id) : undefined;
}

/** Whether a change of these leaves builds: what serves is not of that source. */
function isToBuild(view: TenantView, { id, desired }: Coming, paths: readonly string[]): boolean {
  if (!('source' in desired) || !isBuilt({ source: desired.source })) return false;
  const isOther = !sealedEqual(servingDeployment(view, id)?.desired.source, desired.source, view.isSame);
  return isOther && paths.some((path) => path.startsWith('source/'));
}

type Coming = Pick<Child, 'kind' | 'id' | 'desired'>;

/** The object of a child as it is once these leaves are written; `undefined`: there is none that stays. */
function comingOf(view: TenantView, child: Child, paths: readonly string[]): Coming | undefined {
  const { kind, id } = child;
  switch (child.kind) {
    case 'volume': {
      const it = view.get('volume', id);
      if (!isStaying(it)) return undefined;
      const desired = plainCopy<DesiredOf<'volume'>>(it.desired);
      writeLeaves<'volume'>(desired, child.desired, paths);
      return { kind, id, desired };
    }
    case 'database': {
      const it = view.get('database', id);
      if (!isStaying(it)) return undefined;
      const desired = plainCopy<DesiredOf<'database'>>(it.desired);
      writeLeaves<'database'>(desired, child.desired, paths);
      return { kind, id, desired };
    }
    case 'application': {
      const it = view.get('application', id);
      if (!isStaying(it)) return undefined;
      const desired = plainCopy<DesiredOf<'application'>>(it.desired);
      writeLeaves<'application'>(desired, child.desired, paths);
      return { kind, id, desired };
    }
    case 'function': {
      const it = view.get('function', id);
      if (!isStaying(it)) return undefined;
      const desired = plainCopy<DesiredOf<'function'>>(it.desired);
      writeLeaves<'function'>(desired, child.desired, paths);
      return { kind, id, desired };
    }
  }
}

/** Another object that has a name which the child would have. */
function nameLack(view: TenantView, { kind, id, desired }: Coming, become: 'made' | 'changed'): Lack | undefined {
  const wanted = new Set(namesOf(kind, desired));
  const others: readonly ReadonlyResource<InstanceChildKind>[] = [
    ...view.by(kind, 'environment', desired.environment_id),
    ...view.by(kind, 'server', desired.server_id),
  ];
  const holder = others.find((it) => it.meta.id !== id && namesOf(kind, it.desired).some((name) => wanted.has(name)));
  const cannot = `${kind} ${desired.name} cannot be ${become} as`;
  if (holder !== undefined) {
    // what other projects have is not told
    const other =
      holder.desired.project_id === desired.project_id ? `, ${holder.desired.name},` : ' of another project';
    const message = `${cannot} another ${kind}${other} has its name or one of its domains: rename or delete that`;
    return { reason: 'NameTaken', message };
  }
  const { project_id: projectId, server_id: serverId } = desired;
  const hosts = 'domains' in desired ? desired.domains.map(({ host }) => host) : [];
  const host = hostOfOthers(view, { id, projectId, serverId }, hosts);
  if (host === undefined) return undefined;
  const message = `${cannot} ${host} is used: a host of a server belongs to one project. Give it another domain`;
  return { reason: 'NameTaken', message };
}

/** One application mounts a volume, and only one instance of it if it may write. */
function mountLack(view: TenantView, { id, desired }: Coming): Lack | undefined {
  if (!('replicas' in desired)) return undefined;
  const { name, mounts, replicas } = desired;
  for (const mount of mounts) {
    const others = [
      ...view.by('application', 'volume', mount.volume_id),
      ...view.by('function', 'volume', mount.volume_id),
    ];
    const other = others.find(({ meta }) => meta.id !== id);
    if (other !== undefined)
      return {
        reason: 'VolumeInUse',
        message: `application ${name} cannot mount a volume that ${other.desired.name} mounts: unbind it there first`,
      };
  }
  if (replicas <= 1 || mounts.every((mount) => mount.read_only)) return undefined;
  return {
    reason: 'VolumeInUse',
    message: `application ${name} has ${replicas} replicas and cannot write to a volume: scale it to 1 first`,
  };
}

function namesOf(kind: InstanceChildKind, desired: Child['desired']): string[] {
  const unique = definitionOf(kind).unique?.(plainCopy<DesiredOf<typeof kind>>(desired)) ?? [];
  return unique.map(({ scope, name }) => `${scope} ${foldName(name)}`);
}

/** Makes a child in one transaction; an application with its first deployment, a function with its first version. */
async function make(
  instance: Instance,
  child: Child,
  ctx: Context,
  { runtimeImages }: TemplateInstanceSettings,
): Promise<void> {
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
          const desired = plainCopy<DesiredOf<'application'>>(child.desired);
          mountPresentData(unit, desired, view);
          const it = unit.create('application', child.id, desired, labels);
          createDeployment(unit, it, uuidv5(namespace, `${instance.meta.id} ${child.id}`), {
            trigger: 'template',
            triggeredBy: requested_by,
            queued_at: clock.now().toISOString(),
          });
          return;
        }
        case 'function': {
          const it = unit.create('function', child.id, plainCopy<DesiredOf<'function'>>(child.desired), labels);
          createFunctionVersion(unit, it, uuidv5(namespace, `${instance.meta.id} ${child.id}`), {
            requestedBy: requested_by,
            baseImage: runtimeImages[it.desired.runtime],
            requested_at: clock.now().toISOString(),
          });
        }
      }
    },
    { audited: 'controller template_instance' },
  );
}

/** Writes what a revision changes of a child, in one transaction with the deployment that it needs. */
async function update(
  instance: Instance,
  child: Child,
  ctx: Context,
  settings: TemplateInstanceSettings,
): Promise<void> {
  const paths = child.changes ?? [];
  const id = uuidv5(namespace, `${instance.meta.id} ${child.id} ${child.revision ?? 1}`);
  await writeChild(instance, child, { paths, deploymentId: id, ...settings }, ctx);
}

/**
 * Changes back what a user changed by hand. What cannot be stays shown as drift, and is tried again; so does what would start
 * an object that a user has stopped.
 */
async function correct(world: World, ctx: Context, settings: TemplateInstanceSettings): Promise<void> {
  const { instance } = world;
  for (const child of instance.desired.children) {
    const paths = correctable(world, child, ctx.view);
    if (paths.length === 0 || changeLack(ctx, settings, child, paths) !== undefined) continue;
    const { desiredRevision = 0 } = ctx.view.get(child.kind, child.id)?.meta ?? {};
    const deploymentId = uuidv5(namespace, `${instance.meta.id} ${child.id} at ${desiredRevision}`);
    await writeChild(instance, child, { paths, deploymentId, ...settings }, ctx);
  }
}

/** The leaves of a child that a user changed by hand, without those that wait until it is started. */
function correctable({ drift }: World, { kind, id }: Child, view: TenantView): string[] {
  const it = view.get(kind, id);
  const isPossible = (path: string): boolean => it !== undefined && !isHeldBack(it, [path]);
  return drift.filter((one) => one.id === id && isPossible(one.path)).map(({ path }) => path);
}

/** Why something that was changed by hand is not changed back; `undefined`: nothing is in the way. */
function uncorrected(world: World, ctx: Context, settings: TemplateInstanceSettings): Lack | undefined {
  const { instance } = world;
  if (instance.desired.drift !== 'correct') return undefined;
  return instance.desired.children
    .map((child) => ({ child, paths: correctable(world, child, ctx.view) }))
    .filter(({ paths }) => paths.length > 0)
    .map(({ child, paths }) => changeLack(ctx, settings, child, paths))
    .find((it) => it !== undefined);
}

async function writeChild(
  instance: Instance,
  child: Child,
  {
    paths,
    deploymentId,
    runtimeImages,
  }: Pick<TemplateInstanceSettings, 'runtimeImages'> & {
    paths: readonly string[];
    /** Of the deployment, or the version, that the change may need. */
    deploymentId: string;
  },
  ctx: Context,
): Promise<void> {
  const { view, clock } = ctx;
  await ctx.transact(
    (unit) => {
      unit.require(instance);
      switch (child.kind) {
        case 'volume': {
          const it = view.get('volume', child.id);
          if (isStaying(it)) unit.change(it, (draft) => writeLeaves<'volume'>(draft, child.desired, paths));
          return;
        }
        case 'database': {
          const it = view.get('database', child.id);
          if (isStaying(it)) unit.change(it, (draft) => writeLeaves<'database'>(draft, child.desired, paths));
          return;
        }
        case 'application': {
          const it = view.get('application', child.id);
          if (!isStaying(it)) return;
          const changed = unit.change(it, (draft) => {
            writeLeaves<'application'>(draft, child.desired, paths);
            if (paths.includes('mounts')) mountPresentData(unit, draft, view);
          });
          if (!needsDeployment(paths)) return;
          const image = builtImageFor(changed, view);
          // what it refers to may be another object, although its variables say the same
          const isAnew = paths.includes(referencesPath) && view.get('deployment', deploymentId) === undefined;
          if (image === 'deployed' && !isAnew) return;
          createDeployment(unit, changed, deploymentId, {
            trigger: 'template',
            triggeredBy: instance.desired.requested_by,
            queued_at: clock.now().toISOString(),
            ...(image === 'deployed' ? reusedBy(changed, view) : image),
          });
          return;
        }
        case 'function': {
          const it = view.get('function', child.id);
          if (!isStaying(it)) return;
          const changed = unit.change(it, (draft) => {
            writeLeaves<'function'>(draft, child.desired, paths);
            // one of them may be of somebody else
            draft.min_instances = Math.min(draft.min_instances, draft.max_instances);
          });
          if (!needsVersion(paths) || view.get('function_version', deploymentId) !== undefined) return;
          createFunctionVersion(unit, changed, deploymentId, {
            requestedBy: instance.desired.requested_by,
            baseImage: runtimeImages[changed.desired.runtime],
            requested_at: clock.now().toISOString(),
          });
        }
      }
    },
    { audited: 'controller template_instance' },
  );
}

/** A volume may have had its data exchanged since the mount was declared. The unit guards that it has not by the commit. */
function mountPresentData(
  unit: Pick<ChildUnit, 'require'>,
  { mounts }: DesiredOf<'application'>,
  view: TenantView,
): void {
  for (const mount of mounts) {
    const volume = view.get('volume', mount.volume_id);
    if (volume !== undefined) unit.require(volume);
    const data = volume?.desired.data_id;
    if (data === undefined) delete mount.data_id;
    else mount.data_id = data;
  }
}

/** The image that a deployment may use, if its source is that of what serves; `deployed`: it needs none. */
function builtImageFor(
  { meta, desired }: ReadonlyResource<'application'>,
  view: TenantView,
): 'deployed' | Pick<NewDeployment, 'reuse' | 'commit'> {
  const target = desired.deployment_id === undefined ? undefined : view.get('deployment', desired.deployment_id);
  const isOf = (it: ReadonlyResource<'deployment'>): boolean =>
    sealedEqual(it.desired.source, desired.source, view.isSame);
  if (target !== undefined && isOf(target) && sealedEqual(target.desired.config, desired.config, view.isSame))
    return 'deployed';
  return reusedBy({ meta, desired }, view);
}

/** The image of what serves, if that is of the same source. */
function reusedBy(
  { meta, desired }: Pick<ReadonlyResource<'application'>, 'meta' | 'desired'>,
  view: TenantView,
): Pick<NewDeployment, 'reuse' | 'commit'> {
  const serving = servingDeployment(view, meta.id);
  if (serving === undefined || !sealedEqual(serving.desired.source, desired.source, view.isSame)) return {};
  const { commit } = serving.desired;
  return defined({ reuse: builtBy(serving), commit });
}

/**
 * Removes the last wave that is left. Volumes and databases whose data is to be kept, and those that other workloads use, stay
 * and belong to no instance any more. Returns what is not gone yet.
 */
async function remove(instance: Instance, ctx: Context): Promise<ReadonlyResource<InstanceChildKind>[]> {
  const { children, keep_data: isKept = false } = instance.desired;
  const waves = new Map(children.map(({ id, wave }) => [id, wave]));
  const owned = ownedBy(instance, ctx.view);
  const left: ReadonlyResource<InstanceChildKind>[] = [];
  for (const it of owned) {
    if (isDeleting(it)) left.push(it);
    else if (isKept && hasData(it.meta)) await leave(it, ctx);
    else if (usersOutside(ctx.view, it).length > 0) await leaveToUsers(instance, it, ctx);
    else left.push(it);
  }
  const last = Math.max(...left.map(({ meta }) => waves.get(meta.id) ?? 0));
  for (const { meta } of left) if ((waves.get(meta.id) ?? 0) === last) await ctx.retire(meta.kind, meta.id);
  return left;
}

function hasData({ kind }: { kind: InstanceChildKind }): boolean {
  return kind === 'volume' || kind === 'database';
}

/** Keeps an object, which belongs to no instance any more. */
async function leave({ meta: { kind, id } }: ReadonlyResource<InstanceChildKind>, ctx: Context): Promise<void> {
  const change = (draft: { template_instance_id?: string | undefined }): void => void delete draft.template_instance_id;
  await ctx.amend(kind, id, change, { audited: 'controller template_instance' });
}

/** Keeps an object that others use, as `leave` does, and says so at the object and at the instance. */
async function leaveToUsers(instance: Instance, it: ReadonlyResource<InstanceChildKind>, ctx: Context): Promise<void> {
  const { kind, id } = it.meta;
  const words = usersInWords(usersOutside(ctx.view, it));
  await leave(it, ctx);
  const { name } = it.desired;
  const message = `Template instance ${instance.desired.name} leaves ${kind} ${name} behind instead of deleting it, as it is used by ${words}: delete it by itself once nothing uses it`;
  ctx.event(it, { type: 'warning', reason: 'LeftBehind', message });
  ctx.event(instance, { type: 'warning', reason: 'LeftBehind', about: id, message });
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

function nextOf({ pending, isLacking }: State, retired: readonly ReadonlyResource<InstanceChildKind>[]): Next {
  if (retired.length > 0)
    return {
      waitingFor: retired.map(({ meta: { kind, id } }) => ({ kind, id })),
      because: 'what it does not declare any more to be gone',
    };
  if (isLacking) return { again: lackPauseMs, because: 'what is in its way to be gone' };
  if (pending.length === 0) return { settled: true };
  return {
    waitingFor: pending.map(({ kind, id }) => ({ kind, id })),
    because: 'what it makes to be up',
  };
}
