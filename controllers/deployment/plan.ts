import { generatedPath } from '../../agent-protocol/generated-dockerfile.ts';
import { generateSettings } from '../operation/dockerfile.ts';
import { repositoryOf } from '../../store/kinds/application.ts';
import { buildRole } from '../../store/kinds/composed-service.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Composed } from '../rollout/services.ts';
import type { Action } from '../rollout/actions.ts';
import type { Wanted } from '../task/task.ts';
import { planTask } from '../task/task.ts';
import type { World } from './states.ts';

/**
 * The writes for the phase that was just derived. Pure. A build exists only while it is needed, and until what it made is
 * stored: from then on its server keeps the image, of which it has nothing else to run yet.
 */
export function plan(world: World, now: ObservedOf<'deployment'>, buildDeadlineMs: number): Action[] {
  const { deployment, build, builds } = world;
  const { reuse, services } = deployment.desired;
  const isBuilding = now.phase === 'building';
  if (now.phase === 'deploying' && deployment.observed?.phase !== now.phase) return [];
  const needed = (now.phase === 'queued' || isBuilding) && isStaying(deployment);
  if (services !== undefined)
    return [...builds].flatMap(([service, { composed, task }]) =>
      planTask('build', deployment, {
        task,
        wanted: needed ? serviceBuild(world, composed, buildDeadlineMs) : undefined,
        role: buildRole(service),
      }),
    );
  const wanted = needed && (reuse === undefined || isBuilding) ? buildOf(world, buildDeadlineMs) : undefined;
  return planTask('build', deployment, { task: build, wanted });
}

/** The build of a service of a compose file, at the commit of that. */
function serviceBuild(
  { deployment, application }: World,
  { image, build }: Composed,
  deadlineMs: number,
): Wanted<'build'> | undefined {
  const { source, commit } = deployment.desired;
  const repository = repositoryOf(source);
  if (repository === undefined || application === undefined || build === undefined || image === undefined)
    return undefined;
  const { repository_url, branch, git_credential_id: access } = repository;
  const { context, dockerfile, dockerfile_path, args, target } = build;
  return {
    place: placeOf(deployment, application),
    spec: (head) => ({
      repository_url,
      branch,
      ...(commit !== undefined && { commit }),
      build_context: context,
      // a path from the context, which is no word such as auto
      dockerfile_path: `${context}/${dockerfile_path}`,
      ...(dockerfile !== undefined && { dockerfile_text: dockerfile }),
      ...(target !== undefined && { target }),
      build_args: { ...args },
      ...(access !== undefined && { git_credential: access }),
      image,
      ...head,
    }),
    deadlineMs,
  };
}

function placeOf(
  deployment: World['deployment'],
  application: ReadonlyResource<'application'>,
): Wanted<'build'>['place'] {
  return {
    server_id: deployment.desired.server_id,
    project_id: deployment.desired.project_id,
    environment_id: deployment.desired.environment_id,
    workload_kind: 'application',
    workload_id: application.meta.id,
    workload_name: application.desired.internal_id,
    version: deployment.meta.id,
  };
}

/** The build of the deployment; `undefined` if its source needs none. */
function buildOf({ deployment, application }: World, deadlineMs: number): Wanted<'build'> | undefined {
  const { source, reuse, commit = reuse?.commit } = deployment.desired;
  if (source.type !== 'git' || application === undefined) return undefined;
  const { type: _type, git_credential_id: access, build_secrets: secrets, ...what } = source;
  return {
    place: placeOf(deployment, application),
    spec: (head) => ({
      ...what,
      build_args: { ...what.build_args },
      ...(source.dockerfile_path === generatedPath && {
        generate: generateSettings(deployment.desired.config, application.desired.app_type),
      }),
      ...(secrets !== undefined && { build_secrets: { ...secrets } }),
      ...(commit !== undefined && { commit }),
      ...(access !== undefined && { git_credential: access }),
      image: `setpoint/${application.desired.internal_id}:${deployment.desired.number}`,
      ...head,
    }),
    deadlineMs,
  };
}
