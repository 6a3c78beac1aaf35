import { mainService } from '../../agent-protocol/workload.ts';
import type { DesiredOf, ObservedOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import { buildHash } from '../rollout/spec-hash.ts';
import { planTask, taskState } from '../task/task.ts';
import type { World } from './states.ts';
import { buildAttempts } from './states.ts';

/** The writes for the phase that was just derived. Pure. A build exists only while it is needed. */
export function plan(world: World, now: ObservedOf<'deployment'>, buildDeadlineSeconds: number): Action[] {
  const { deployment, build } = world;
  const { reuse } = deployment.desired;
  const needed =
    (now.phase === 'queued' || now.phase === 'building') &&
    (reuse === undefined || now.phase === 'building') &&
    isStaying(deployment);
  return planTask(deployment, 'build', {
    task: build,
    desired: needed ? buildOf(world, buildDeadlineSeconds) : undefined,
  });
}

/** The build of the deployment; `undefined` if its source needs none. */
function buildOf(
  { deployment, application, build }: World,
  deadlineSeconds: number,
): DesiredOf<'assignment'> | undefined {
  const { source, reuse } = deployment.desired;
  if (source.type !== 'git' || application === undefined) return undefined;
  const { type: _type, ...what } = source;
  const spec = {
    ...what,
    build_args: { ...what.build_args },
    ...(reuse?.commit !== undefined && { commit: reuse.commit }),
    type: 'build' as const,
    image: `setpoint/${application.desired.internal_id}:${deployment.desired.number}`,
    deadline_seconds: deadlineSeconds,
    attempt: taskState(build, buildAttempts).attempt,
  };
  return {
    server_id: deployment.desired.server_id,
    project_id: deployment.desired.project_id,
    environment_id: deployment.desired.environment_id,
    workload_kind: 'application',
    workload_id: application.meta.id,
    workload_name: application.desired.internal_id,
    service: mainService,
    version: deployment.meta.id,
    run: 'running',
    spec,
    spec_hash: buildHash(deployment.meta.id, spec),
  };
}
