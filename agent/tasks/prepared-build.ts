import type { BuildContext } from './build-context.ts';
import type { BuildProgress } from './build-progress.ts';
import type { ImageOwner } from '../engine/image-record.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { DockerfileSource } from '../runtime/dockerfile-source.ts';
import { labels } from '../runtime/runtime.ts';
import { judgeTriggers, readDockerfile, type DockerfileReader } from './dockerfile.ts';
import type { TaskItem } from './task.ts';

/** A build whose files are checked out and checked. */
export interface Prepared {
  item: TaskItem<'build'>;
  commit: string;
  /** The Dockerfile as it is in the repository, or as it was generated. */
  written: Buffer;
  /** Its registries are asked for the images that it begins with, as no author can name a later tag. */
  isGenerated: boolean;
  context: Omit<BuildContext, 'dockerfile'>;
}

/** The workload that the image is for. */
export function ownerOf({ item }: Prepared): ImageOwner {
  return { tenant: item.tenant, project: item.project_id, workload: item.workload_id };
}

/** Labels that all builds of the project on this server have in common. */
export function projectLabels({ item }: Prepared, server: string): Record<string, string> {
  return { [labels.server]: server, [labels.tenant]: item.tenant, [labels.project]: item.project_id };
}

/** Labels of the image that is built. */
export function imageLabels(prepared: Prepared, server: string): Record<string, string> {
  const { item, commit } = prepared;
  return {
    ...projectLabels(prepared, server),
    [labels.workload]: item.workload_id,
    [labels.assignment]: item.id,
    [labels.type]: 'build',
    'org.opencontainers.image.revision': commit,
  };
}

/** A Dockerfile for the builder. */
export interface Judged {
  text: Buffer;
  source: DockerfileSource;
}

/** An instruction of a base image that may use a stage. */
const usesStage = /\bfrom=/i;

/**
 * Returns the Dockerfile for the builder, once it is checked that the project may use all images in it, and the engine
 * has them.
 */
export async function judgedDockerfile(
  prepared: Prepared,
  reader: DockerfileReader,
  images: ImageStore,
  { line, at }: Pick<BuildProgress, 'line' | 'at'>,
  signal: AbortSignal,
): Promise<Judged> {
  const { build_args, target } = prepared.item.spec;
  const read = readDockerfile(prepared.written, build_args, { ...reader, target });
  const uses = [...Map.groupBy(read.images, ({ reference }) => reference)];
  for (const [done, [reference, places]] of uses.entries()) {
    at({ step: 'resolving', done, total: uses.length, unit: 'images' });
    line(`Looks for image ${reference}`);
    const wanted = { reference, owner: ownerOf(prepared), refresh: prepared.isGenerated, line };
    const found = await images.resolve(wanted, signal);
    if (reader.everyStage !== true && found.onBuild.some((one) => usesStage.test(one)))
      return judgedDockerfile(prepared, { ...reader, everyStage: true }, images, { line, at }, signal);
    for (const used of places) if (used.before !== undefined) judgeTriggers(used, found.onBuild, reader.kit);
  }
  return { text: Buffer.from(read.text, 'latin1'), source: read.source };
}
