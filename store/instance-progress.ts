import { needsDeployment, needsVersion } from './declared/effects.ts';
import { hasDeploymentEnded } from './kinds/application.ts';
import type { InstanceChild } from './kinds/template-instance.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import type { TenantView } from './mirror.ts';
import { isDeleting } from './resource.ts';
import type { ReadonlyResource } from './resource.ts';

type View = Pick<TenantView, 'get'>;
type Child = DeepReadonly<InstanceChild>;

/** How far a child of a template instance is. `outdated`: a change of it is yet to come. `gone`: it was deleted by itself. */
export interface Progress {
  state: 'waiting' | 'outdated' | 'starting' | 'up' | 'stopped' | 'failed' | 'gone';
  message: string;
}

/** Children of all instances of a project that are still to be made. */
export function childrenToCome(view: View & Pick<TenantView, 'by'>, projectId: string): Child[] {
  return view
    .by('template_instance', 'project', projectId)
    .flatMap((it) => it.desired.children.filter((child) => childProgress(view, it, child).state === 'waiting'));
}

/** How far a child is, by the view. Pure. */
export function childProgress(view: View, instance: ReadonlyResource<'template_instance'>, child: Child): Progress {
  const { kind, id } = child;
  const it = view.get(kind, id);
  if (it === undefined) {
    const wasMade = instance.observed?.made.includes(id) === true;
    return wasMade
      ? { state: 'gone', message: 'It was deleted, and is not made again' }
      : { state: 'waiting', message: 'It is made once all of the waves before are up' };
  }
  if (isDeleting(it)) return { state: 'gone', message: 'It is being deleted' };
  if (isOutdated(instance, child) && isHeldBack(it, child.changes ?? []))
    return {
      state: 'stopped',
      message:
        'It was stopped: start it, which runs its former version first, and it is changed then; to run the declared one alone, make its change by hand and deploy it',
    };
  if (isOutdated(instance, child))
    return { state: 'outdated', message: 'It is changed once all of the waves before are up' };
  switch (kind) {
    case 'volume':
      return progressOfVolume(view.get('volume', id));
    case 'database':
      return progressOfDatabase(view.get('database', id));
    case 'application':
      return progressOfApplication(view, view.get('application', id));
    case 'function':
      return progressOfFunction(view, view.get('function', id));
  }
}

/** Whether a child that is there was not brought to its present revision yet. */
export function isOutdated({ observed }: ReadonlyResource<'template_instance'>, { id, revision = 1 }: Child): boolean {
  return revision > (observed?.applied?.[id] ?? 1);
}

/**
 * Whether the change of these leaves has to wait, as it takes a deployment or a version, which would start an object that a person
 * has stopped: a template declares what runs, and not that it runs.
 */
export function isHeldBack({ meta: { kind }, desired }: ReadonlyResource, paths: readonly string[]): boolean {
  if (!('run' in desired) || desired.run !== 'stopped') return false;
  if (kind === 'application') return needsDeployment(paths);
  return kind === 'function' && needsVersion(paths);
}

const starting: Progress = { state: 'starting', message: 'It is being brought up' };
const up: Progress = { state: 'up', message: 'It is up' };
const stopped: Progress = { state: 'stopped', message: 'It was stopped: start it' };

/** What its condition `Ready` says, else the text. */
function words(it: ReadonlyResource | undefined, otherwise: string): string {
  const message = it?.observed?.conditions.find(({ type }) => type === 'Ready')?.message;
  return message === undefined || message === '' ? otherwise : message;
}

function progressOfVolume(it: ReadonlyResource<'volume'> | undefined): Progress {
  switch (it?.observed?.phase) {
    case 'available':
    case 'bound':
      return up;
    case 'error':
      return { state: 'failed', message: words(it, 'It cannot be made') };
    case 'pending':
    case 'deleting':
    case undefined:
      return starting;
  }
}

function progressOfDatabase(it: ReadonlyResource<'database'> | undefined): Progress {
  if (it?.desired.run === 'stopped') return stopped;
  switch (it?.observed?.phase) {
    case 'running':
      return up;
    case 'error':
      return { state: 'failed', message: words(it, 'It does not run') };
    case 'provisioning':
    case 'stopped':
    case 'deleting':
    case undefined:
      return starting;
  }
}

function progressOfApplication(view: View, it: ReadonlyResource<'application'> | undefined): Progress {
  if (it?.desired.run === 'stopped') return stopped;
  const id = it?.desired.deployment_id;
  const target = id === undefined ? undefined : view.get('deployment', id);
  const failure = failureOf(target);
  if (failure !== undefined) return failure;
  switch (it?.observed?.phase) {
    case 'running':
      return target?.observed?.phase === 'succeeded' ? up : starting;
    case 'failed':
    case 'error':
      return { state: 'failed', message: words(it, 'It does not run') };
    case 'stopped':
    case 'deploying':
    case 'deleting':
    case undefined:
      return starting;
  }
}

function progressOfFunction(view: View, it: ReadonlyResource<'function'> | undefined): Progress {
  if (it === undefined) return starting;
  if (it.desired.run === 'stopped') return stopped;
  const isActive = it.observed?.active_version_id === it.desired.version_id;
  const isSeen = it.observed !== undefined && it.observed.observedGeneration >= it.meta.generation;
  if (isRefused(view, it)) return { state: 'failed', message: words(it, 'Its version cannot serve') };
  switch (it.observed?.phase) {
    case 'running':
      return isActive ? progressOfServing(it) : starting;
    case 'failed':
    case 'error':
      return isSeen ? { state: 'failed', message: words(it, 'It does not serve') } : starting;
    case 'stopped':
    case 'deploying':
    case 'deleting':
    case undefined:
      return starting;
  }
}

/** One that serves with the settings of before, as no instance starts with the present ones, is not up. */
function progressOfServing(it: ReadonlyResource<'function'>): Progress {
  const ready = it.observed?.conditions.find(({ type }) => type === 'Ready');
  return ready?.reason === 'NotStarted' ? { state: 'failed', message: ready.message } : up;
}

/** Whether the version that is to serve was not built, or does not start. */
function isRefused(view: View, { desired, observed }: ReadonlyResource<'function'>): boolean {
  const { version_id: target, attempt } = desired;
  const version = target === undefined ? undefined : view.get('function_version', target);
  if (version?.observed?.phase === 'failed') return true;
  return observed?.refused?.attempt === attempt && observed.active_version_id !== target;
}

/** What a deployment that ended without success came to. */
function failureOf(it: ReadonlyResource<'deployment'> | undefined): Progress | undefined {
  const phase = it?.observed?.phase;
  if (it === undefined || phase === undefined || phase === 'succeeded' || !hasDeploymentEnded(phase)) return undefined;
  const why = it.observed?.error?.message ?? 'deploy it again';
  return { state: 'failed', message: `Deployment ${it.desired.number} ${phase}: ${why}` };
}
