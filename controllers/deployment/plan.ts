import { mainService } from '../../agent-protocol/workload.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf, ObservedOf } from '../../store/kinds/kinds.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { buildHash } from '../rollout/spec-hash.ts';
import type { World } from './states.ts';

export type Action = { do: 'build'; id: string; desired: DesiredOf<'assignment'> } | { do: 'retire'; id: string };

/** Attempts in all of a build that was lost with its agent's state. */
const attempts = 3;

/** Whether the last attempt was lost, so that no other is made. */
export function buildsExhausted(build: World['build']): boolean {
  return build?.desired.spec.type === 'build' && build.desired.spec.attempt >= attempts && isLost(build);
}

/** The writes for the phase that was just derived. Pure. A build exists only while it is needed. */
export function plan(world: World, now: ObservedOf<'deployment'>, buildDeadlineSeconds: number): Action[] {
  const { deployment, application, build } = world;
  const { source, reuse } = deployment.desired;
  const needed =
    (now.phase === 'queued' || now.phase === 'building') &&
    (reuse === undefined || now.phase === 'building') &&
    deployment.meta.deletionRequestedAt === undefined;
  if (!needed || source.type !== 'git' || application === undefined)
    return build === undefined || build.meta.deletionRequestedAt !== undefined
      ? []
      : [{ do: 'retire', id: build.meta.id }];
  const attempt = nextAttempt(build);
  const { type: _type, ...what } = source;
  const spec = {
    ...what,
    build_args: { ...what.build_args },
    ...(reuse?.commit !== undefined && { commit: reuse.commit }),
    type: 'build' as const,
    image: `setpoint/${application.desired.internal_id}:${deployment.desired.number}`,
    deadline_seconds: buildDeadlineSeconds,
    attempt,
  };
  return [
    {
      do: 'build',
      id: assignmentId.task(deployment.meta.id, 'build'),
      desired: {
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
      },
    },
  ];
}

function nextAttempt(build: World['build']): number {
  if (build === undefined || build.desired.spec.type !== 'build') return 1;
  const { attempt } = build.desired.spec;
  return isLost(build) ? Math.min(attempt + 1, attempts) : attempt;
}

function isLost(build: NonNullable<World['build']>): boolean {
  return upToDate(build)?.phase === 'lost';
}
