import type { FunctionRuntime } from '../../store/kinds/function.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { Action } from '../rollout/actions.ts';
import { planTask } from '../task/task.ts';
import { isWanted } from './states.ts';
import type { World } from './states.ts';

/** What an image of a function is built of. */
export interface Recipe {
  dockerfile: string;
  /** By path, without the Dockerfile. */
  files: Readonly<Record<string, string>>;
}

/** How images of each runtime are built. `base`: the image to build upon, in place of that of the runtime. */
export type RecipeOf = (source: {
  runtime: FunctionRuntime;
  code: string;
  dependencies: string | undefined;
  base: string | undefined;
}) => Recipe;

/**
 * The writes for the phase that was just derived. Pure. A build exists only while it is needed, and until what it made is
 * stored: from then on its server keeps the image.
 */
export function plan(
  world: World,
  now: ObservedOf<'function_version'>,
  { recipe, deadlineMs }: { recipe: RecipeOf; deadlineMs: number },
): Action[] {
  const { version, function: of, build } = world;
  if (now.phase === 'ready' && version.observed?.phase !== now.phase) return [];
  const isFaulty = world.resolution !== undefined && 'fault' in world.resolution;
  if (!isWanted(world, now) || of === undefined || isFaulty)
    return planTask('build', version, { task: build, wanted: undefined });
  const { runtime, code, dependencies, base_image: base, number } = version.desired;
  const { dockerfile, files } = recipe({ runtime, code, dependencies, base });
  return planTask('build', version, {
    task: build,
    wanted: {
      place: {
        server_id: version.desired.server_id,
        project_id: version.desired.project_id,
        environment_id: of.desired.environment_id,
        workload_kind: 'function',
        workload_id: of.meta.id,
        workload_name: of.desired.internal_id,
        version: version.meta.id,
      },
      spec: (head) => ({
        repository_url: '',
        branch: '',
        dockerfile_path: 'Dockerfile',
        build_context: '.',
        dockerfile_text: dockerfile,
        files: { ...files },
        build_args: {},
        image: `setpoint/${of.desired.internal_id}:${number}`,
        ...head,
      }),
      deadlineMs,
    },
  });
}
