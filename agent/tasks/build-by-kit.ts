import { contextEntries } from './build-context.ts';
import type { BuildProgress } from './build-progress.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { StepGuard } from '../ports/step-guard.ts';
import type { ContainerRuntime, ImageInfo } from '../runtime/runtime.ts';
import { imageLabels, judgedDockerfile, type Prepared } from './prepared-build.ts';

interface Deps {
  runtime: ContainerRuntime;
  images: ImageStore;
  steps: StepGuard;
  server: string;
}

/** Arguments by which BuildKit itself is set, such as which image reads the Dockerfile. */
const ofKit = /^BUILDKIT_/;

/**
 * Builds with BuildKit; `version` is the engine's major version. Its cache is one for all projects, so that the steps of
 * each are kept apart by the scope. @throws RuntimeFailure
 */
export async function buildByKit(
  prepared: Prepared,
  { version, platform }: { version: number; platform?: string | undefined },
  { runtime, images, steps, server }: Deps,
  { line, at }: Pick<BuildProgress, 'line' | 'at'>,
  signal: AbortSignal,
): Promise<ImageInfo> {
  const { item, context } = prepared;
  const { spec } = item;
  const args = Object.entries(spec.build_args);
  const left = args.flatMap(([name]) => (ofKit.test(name) ? [name] : []));
  if (left.length > 0) line(`Leaves out what would set the builder: ${left.join(', ')}`);
  // All of it is checked, although the engine asks only for what the Dockerfile copies.
  const entries = await Array.fromAsync(contextEntries(context, signal));
  const { text, source } = await judgedDockerfile(prepared, { kit: version, platform }, images, { line, at }, signal);
  await using _guard = await steps.hold(signal);
  at({ step: 'uploading' });
  const options = {
    dockerfile: text,
    source,
    context: entries,
    tag: spec.image,
    buildArgs: Object.fromEntries(args.filter(([name]) => !ofKit.test(name))),
    labels: imageLabels(prepared, server),
    scope: item.project_id,
    secrets: spec.build_secrets ?? {},
    steps: (done: number, total: number) => at({ step: 'building', done, total, unit: 'steps' }),
  };
  return await runtime.buildByKit(options, line, signal);
}
