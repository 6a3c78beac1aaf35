import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import type { Wanted } from '../task/task.ts';
import { planTask } from '../task/task.ts';
import type { World } from './states.ts';

/** The writes for the phase that was just derived. Pure. A build exists only while it is needed. */
export function plan(world: World, now: ObservedOf<'deployment'>, buildDeadlineMs: number): Action[] {
  const { deployment, build } = world;
  const { reuse } = deployment.desired;
  const needed =
    (now.phase === 'queued' || now.phase === 'building') &&
    (reuse === undefined || now.phase === 'building') &&
    isStaying(deployment);
  return planTask('build', deployment, { task: build, wanted: needed ? buildOf(world, buildDeadlineMs) : undefined });
}

/** The build of the deployment; `undefined` if its source needs none. */
function buildOf({ deployment, application }: World, deadlineMs: number): Wanted<'build'> | undefined {
  const { source, reuse } = deployment.desired;
  if (source.type !== 'git' || application === undefined) return undefined;
  const { type: _type, ...what } = source;
  return {
    place: {
      server_id: deployment.desired.server_id,
      project_id: deployment.desired.project_id,
      environment_id: deployment.desired.environment_id,
      workload_kind: 'application',
      workload_id: application.meta.id,
      workload_name: application.desired.internal_id,
      version: deployment.meta.id,
    },
    spec: (head) => ({
      ...what,
      build_args: { ...what.build_args },
      ...(reuse?.commit !== undefined && { commit: reuse.commit }),
      image: `setpoint/${application.desired.internal_id}:${deployment.desired.number}`,
      ...head,
    }),
    deadlineMs,
  };
}
