import { hasEnded } from '#rules/application.ts';

/** The shape beside a status; each differs from the others without colour. */
export type Shape = 'good' | 'busy' | 'warn' | 'bad' | 'idle' | 'waiting' | 'gone' | 'info';

/** How a status is shown. */
export interface Look {
  readonly word: string;
  readonly shape: Shape;
}

/** An object with a status, as the API answers with it. */
export type WithStatus = Readonly<Record<string, unknown>>;

const running: Look = { word: 'Running', shape: 'good' };
const stopped: Look = { word: 'Stopped', shape: 'idle' };
const stopping: Look = { word: 'Stopping', shape: 'busy' };
const failed: Look = { word: 'Failed', shape: 'bad' };
const broken: Look = { word: 'Not working', shape: 'bad' };
const beingDeleted: Look = { word: 'Being deleted', shape: 'gone' };
const beingMade: Look = { word: 'Being made', shape: 'busy' };
const waiting: Look = { word: 'Waiting', shape: 'waiting' };
const cancelled: Look = { word: 'Cancelled', shape: 'idle' };
const rollingOut: Look = { word: 'Rolling out', shape: 'busy' };
const beingChecked: Look = { word: 'Being checked', shape: 'busy' };
const used: Look = { word: 'In use', shape: 'good' };
const unused: Look = { word: 'Not used', shape: 'idle' };
const active: Look = { word: 'Active', shape: 'good' };

/** The word and shape of each status of each kind. A new kind adds its row here. */
const looks = {
  application: {
    running,
    stopped,
    deploying: { word: 'Deploying', shape: 'busy' },
    failed,
    error: broken,
    deleting: beingDeleted,
  },
  function: {
    running,
    stopped,
    deploying: { word: 'Deploying', shape: 'busy' },
    failed,
    error: broken,
    deleting: beingDeleted,
  },
  function_version: {
    building: { word: 'Building', shape: 'busy' },
    ready: { word: 'Ready', shape: 'good' },
    failed,
    deleting: beingDeleted,
  },
  execution: {
    running: { word: 'Running', shape: 'busy' },
    succeeded: { word: 'Succeeded', shape: 'good' },
    failed,
    timed_out: { word: 'Timed out', shape: 'bad' },
    missed: { word: 'Missed', shape: 'warn' },
  },
  deployment: {
    queued: { word: 'Queued', shape: 'waiting' },
    building: { word: 'Building', shape: 'busy' },
    deploying: rollingOut,
    succeeded: { word: 'Succeeded', shape: 'good' },
    failed,
    cancelled,
    superseded: { word: 'Overtaken', shape: 'idle' },
  },
  instance: {
    pending: waiting,
    preparing: { word: 'Preparing', shape: 'busy' },
    starting: { word: 'Starting', shape: 'busy' },
    running,
    stopping,
    stopped,
    succeeded: { word: 'Finished', shape: 'idle' },
    failed: { word: 'Crashed', shape: 'bad' },
    lost: { word: 'Lost', shape: 'bad' },
    unknown: { word: 'Not known', shape: 'waiting' },
  },
  database: {
    provisioning: beingMade,
    running,
    stopping,
    stopped,
    error: broken,
    deleting: beingDeleted,
  },
  server: {
    provisioning: { word: 'Waiting for the agent', shape: 'waiting' },
    active,
    error: broken,
    offline: { word: 'Offline', shape: 'bad' },
    deleting: beingDeleted,
  },
  agent: {
    connected: { word: 'Connected', shape: 'good' },
    disconnected: { word: 'Disconnected', shape: 'warn' },
    unknown: { word: 'Never seen', shape: 'waiting' },
  },
  volume: {
    pending: beingMade,
    available: { word: 'Free', shape: 'waiting' },
    bound: used,
    error: broken,
    deleting: beingDeleted,
  },
  backup: {
    pending: waiting,
    running: { word: 'Running', shape: 'busy' },
    verifying: beingChecked,
    completed: { word: 'Good', shape: 'good' },
    failed,
    expired: { word: 'Expired', shape: 'gone' },
    deleting: beingDeleted,
  },
  restore: {
    pending: waiting,
    preparing: { word: 'Preparing', shape: 'busy' },
    restoring: { word: 'Copying', shape: 'busy' },
    verifying: beingChecked,
    ready_to_switch: { word: 'Ready to switch', shape: 'warn' },
    switching: { word: 'Switching', shape: 'busy' },
    completed: { word: 'Done', shape: 'good' },
    failed,
    deleting: beingDeleted,
  },
  run: {
    pending: waiting,
    running: { word: 'Running', shape: 'busy' },
    succeeded: { word: 'Succeeded', shape: 'good' },
    failed,
    cancelled,
    lost: { word: 'Lost', shape: 'bad' },
  },
  preview: {
    awaiting_approval: { word: 'Waiting for approval', shape: 'warn' },
    creating: beingMade,
    deploying: { word: 'Deploying', shape: 'busy' },
    ready: { word: 'Ready', shape: 'good' },
    failed,
    deleting: beingDeleted,
  },
  project: { active, deleting: beingDeleted },
  environment: {
    active,
    cloning: { word: 'Being cloned', shape: 'busy' },
    deleting: beingDeleted,
  },
  backup_destination: {
    pending: { word: 'Not tried yet', shape: 'waiting' },
    reachable: { word: 'Reachable', shape: 'good' },
    unreachable: { word: 'Not reachable', shape: 'bad' },
  },
  backup_schedule: {
    active,
    overdue: { word: 'Overdue', shape: 'warn' },
    paused: { word: 'Paused', shape: 'idle' },
    deleting: beingDeleted,
  },
  template: { used, unused },
  template_instance: {
    pending: waiting,
    deploying: { word: 'Being made', shape: 'busy' },
    running,
    degraded: { word: 'Partly working', shape: 'warn' },
    failed,
    deleting: beingDeleted,
  },
  sync: {
    pending: { word: 'Not read yet', shape: 'waiting' },
    in_sync: { word: 'In sync', shape: 'good' },
    drifted: { word: 'Changed by hand', shape: 'warn' },
    waiting: { word: 'Waiting', shape: 'warn' },
    failed,
    paused: { word: 'Paused', shape: 'idle' },
    deleting: beingDeleted,
  },
  template_child: {
    waiting,
    outdated: { word: 'To be changed', shape: 'waiting' },
    starting: { word: 'Coming up', shape: 'busy' },
    up: { word: 'Up', shape: 'good' },
    stopped,
    failed,
    gone: { word: 'Deleted', shape: 'gone' },
  },
  webhook_delivery: { pending: waiting, decided: { word: 'Decided', shape: 'good' } },
  registry: { used, unused },
  git_credential: { used, unused },
  ssh_key: { used, unused },
} as const satisfies Record<string, Readonly<Record<string, Look>>>;

export type StatusKind = keyof typeof looks;

/** A status of a release that is newer than this page. */
const unknownLook = (status: string): Look => ({ word: status, shape: 'waiting' });

/** The word and shape of a status by itself, as in a filter. */
export function lookOfStatus(kind: StatusKind, status: string): Look {
  const table: Readonly<Record<string, Look>> = looks[kind];
  return table[status] ?? unknownLook(status);
}

/** The statuses of a kind, in the order in which they are listed. */
export function statusesOf(kind: StatusKind): readonly string[] {
  return Object.keys(looks[kind]);
}

interface ConditionLike {
  type: string;
  status: string;
  reason: string;
}

function conditionOf(object: WithStatus, type: string): ConditionLike | undefined {
  const { conditions } = object;
  if (!Array.isArray(conditions)) return undefined;
  return (conditions as ConditionLike[]).find((it) => it.type === type); // every condition of the API has these fields
}

/** The word and shape of an object: its status, made exact by its conditions and replicas. */
export function lookOf(kind: StatusKind, object: WithStatus): Look {
  const status = String(object['status']);
  const special = kind === 'application' ? ofApplication(status, object) : ofOther(kind, status, object);
  return special ?? lookOfStatus(kind, status);
}

function ofApplication(status: string, object: WithStatus): Look | undefined {
  const { ready_replicas: ready, replicas, conditions } = object;
  if (status === 'stopped' && hasEnded(conditions)) return { word: 'Finished', shape: 'idle' };
  if (status === 'failed' && hasEnded(conditions)) return { word: 'Ended with an error', shape: 'bad' };
  if (status !== 'running') return undefined;
  if (typeof ready === 'number' && typeof replicas === 'number' && ready < replicas)
    return { word: `Running ${ready} of ${replicas}`, shape: 'warn' };
  const unready = conditionOf(object, 'Ready');
  return unready?.status === 'false' ? { word: wordOfUnready(unready.reason), shape: 'warn' } : undefined;
}

/** Of an application that runs and is not ready, although as many instances answer as it wants. */
function wordOfUnready(reason: string): string {
  switch (reason) {
    case 'RolloutFailed':
      return 'Running, newest deployment failed';
    case 'CrashLoop':
      return 'Running, a process keeps exiting';
    default:
      return 'Running, an instance is not ready';
  }
}

function ofOther(kind: StatusKind, status: string, object: WithStatus): Look | undefined {
  if (kind === 'deployment' && status === 'succeeded' && object['serving'] === true)
    return { word: 'Serving', shape: 'good' };
  if (kind === 'function_version' && status === 'ready' && object['is_active'] === true)
    return { word: 'Serving', shape: 'good' };
  if (kind === 'function' && status === 'running') return ofRunningFunction(object);
  if (kind === 'database' && status === 'provisioning' && conditionOf(object, 'Restoring')?.status === 'true')
    return { word: 'Being restored', shape: 'busy' };
  if (kind === 'volume' && status === 'error' && conditionOf(object, 'DataLost')?.status === 'true')
    return { word: 'Lost', shape: 'bad' };
  return undefined;
}

function ofRunningFunction(object: WithStatus): Look | undefined {
  switch (conditionOf(object, 'Ready')?.reason) {
    case 'VersionFailed':
      return { word: 'Running, newest version failed', shape: 'warn' };
    case 'Stopping':
      return stopping;
    default:
      return undefined;
  }
}

/** The worst first, as a list of what needs a look shows it. */
export const shapesByUrgency: readonly Shape[] = ['bad', 'warn', 'busy', 'waiting', 'gone', 'info', 'idle', 'good'];
