import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { ApplicationPhase, DeploymentPhase } from '../../store/kinds/application.ts';
import type { ServerPhase } from '../../store/kinds/server.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Application = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;
type Server = ReadonlyResource<'server'>;

/** Whether a deployment has not ended yet. */
export function isUnfinished(deployment: Deployment): boolean {
  return !hasDeploymentEnded(deployment.observed?.phase);
}

export function deploymentStatus(deployment: Deployment): DeploymentPhase {
  return deployment.observed?.phase ?? 'queued';
}

/**
 * The status of an application: the last one from its controller, or the one that follows from later requests. `target`
 * is the deployment that it converges to.
 */
export function applicationStatus(it: Application, target: Deployment | undefined): ApplicationPhase {
  if (isDeleting(it)) return 'deleting';
  const phase = it.observed?.phase ?? 'stopped';
  if (it.desired.run === 'stopped') return phase;
  if (isStaying(target) && isUnfinished(target)) return 'deploying';
  const seen = it.observed !== undefined && it.observed.observedGeneration >= it.meta.generation;
  if (seen || it.desired.deployment_id === undefined) return phase;
  const lacking = (it.observed?.ready_replicas ?? 0) < it.desired.replicas;
  return phase === 'running' && !lacking ? 'running' : 'deploying';
}

/** The deployment that an application converges to. */
export function targetOf(it: Application, view: TenantView): Deployment | undefined {
  const { deployment_id } = it.desired;
  return deployment_id === undefined ? undefined : view.get('deployment', deployment_id);
}

/** Whether the controller of an application has reached the desired state or given up. */
export function isApplicationSettled(it: Application, view: TenantView): boolean {
  const target = targetOf(it, view);
  if (target !== undefined && isUnfinished(target)) return false;
  return isReconciled(it) && !['deploying', 'deleting'].includes(applicationStatus(it, target));
}

export type ServerStatus = ServerPhase | 'deleting';

export function serverStatus(it: Server): ServerStatus {
  return isDeleting(it) ? 'deleting' : (it.observed?.phase ?? 'provisioning');
}

export type AgentStatus = 'connected' | 'disconnected' | 'unknown';

/** `unknown`: none has joined, or several agents have the identity of the server, so that it is not known which one tells. */
export function agentStatus(it: Server, view: TenantView): AgentStatus {
  const agent = view.agent(it.meta.id);
  if (agent !== undefined) return agent.conflict === true ? 'unknown' : 'connected';
  return it.desired.agent_public_key === undefined ? 'unknown' : 'disconnected';
}

/** Status of a project or an environment. */
export function lifeStatus(it: ReadonlyResource<'project'> | ReadonlyResource<'environment'>): 'active' | 'deleting' {
  return isDeleting(it) ? 'deleting' : 'active';
}

/** Whether an object stays, and its controller has done all it can for the present generation. */
export function isSettled(it: ReadonlyResource): boolean {
  return !isDeleting(it) && isReconciled(it);
}

/** Whether the controller has done all it can for the present generation. */
export function isReconciled(it: ReadonlyResource): boolean {
  const { observed, meta } = it;
  if (observed === undefined || observed.observedGeneration < meta.generation) return false;
  return !observed.conditions.some(({ type, status }) => type === 'Reconciling' && status === 'true');
}
