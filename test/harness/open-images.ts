import { join } from 'node:path';
import { diskGuard, type DiskSpace } from '../../agent/disk/disk-guard.ts';
import { ImageRecord } from '../../agent/engine/image-record.ts';
import { imageStore, type ImageStore } from '../../agent/engine/image-store.ts';
import { openRegistries } from '../../agent/engine/registry-guard.ts';
import type { ContainerRuntime } from '../../agent/runtime/runtime.ts';
import { systemClock } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';

const roomy = (): Promise<DiskSpace> => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 });

/** Lets everybody use every image of the engine and of every registry: for tests that are not about whose image it is. */
export async function openImages(
  runtime: ContainerRuntime,
  folder: string,
  disk = roomy,
  clock: Clock = systemClock,
): Promise<ImageStore> {
  return imageStore({
    runtime,
    disk: diskGuard(disk),
    registries: openRegistries,
    record: await ImageRecord.open(join(folder, 'images.json')),
    localImages: ['*'],
    clock,
  });
}
