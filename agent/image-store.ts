import type { DiskGuard } from './disk-guard.ts';
import { imageParts, imageReference } from './runtime/image-reference.ts';
import type { ContainerRuntime, ImageInfo } from './runtime/runtime.ts';
import { RuntimeFailure } from './runtime/runtime.ts';

/** Finds images for services. */
export interface ImageStore {
  /**
   * The image that must run: `pinned` (an image id or a repository digest) where given, else what `reference` stands
   * for now. A tag that is not `latest` is taken to stay what it is: where it is here, no registry is asked.
   * @throws RuntimeFailure
   */
  resolve(reference: string, pinned: string | undefined, signal: AbortSignal): Promise<ImageInfo>;
}

export function imageStore(runtime: ContainerRuntime, disk: DiskGuard): ImageStore {
  return {
    async resolve(reference, pinned, signal) {
      if (pinned !== undefined) return resolvePinned(reference, pinned, signal);
      const local = await runtime.image(reference, signal);
      if (local !== undefined && !isMoving(reference)) return local;
      try {
        return await pull(reference, signal);
      } catch (error) {
        // A registry that is away, or never knew an image that was made here, must not keep it from running.
        if (local !== undefined && !signal.aborted) return local;
        throw error;
      }
    },
  };

  async function resolvePinned(reference: string, pinned: string, signal: AbortSignal): Promise<ImageInfo> {
    const local = await runtime.image(pinned, signal);
    if (local !== undefined) return local;
    if (pinned.includes('@')) return pull(pinned, signal);
    const message = `Image ${reference} (${pinned}) is not on this server any more, and it can only be built again`;
    throw new RuntimeFailure('image_not_found', message, { retryable: false });
  }

  async function pull(reference: string, signal: AbortSignal): Promise<ImageInfo> {
    await disk.check(`pull image ${reference}`);
    return runtime.pull(reference, signal);
  }
}

function isMoving(reference: string): boolean {
  const parts = imageParts(imageReference(reference));
  return parts !== undefined && parts.digest === undefined && (parts.tag ?? 'latest') === 'latest';
}
