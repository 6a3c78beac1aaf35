import type { DiskGuard } from './disk-guard.ts';
import type { ImageOwner, ImageRecord } from './image-record.ts';
import type { RegistryGuard } from './registry-guard.ts';
import { imageSource, notAllowed, type ImageSource } from './runtime/image-reference.ts';
import type { ContainerRuntime, LocalImage } from './runtime/runtime.ts';
import { labels, RuntimeFailure } from './runtime/runtime.ts';

/** What is to run or to be built upon, and for whom. */
export interface WantedImage {
  /** As the source names it, or the name of what was built. */
  reference: string;
  /** Image id or repository digest that it must be. */
  pinned?: string | undefined;
  owner: ImageOwner;
  /** Ids of the images that containers of the very assignment were made from: these go on. */
  inUse?: ReadonlySet<string>;
}

/**
 * Finds images for services and builds. A project gets what was built for it, what a registry confirmed for it, what its
 * instances run on already, and what the operator of the machine lets everybody use: what else the engine has is of others.
 */
export interface ImageStore {
  /**
   * The image that must run: `pinned` where given, else what `reference` stands for now. A tag that is not `latest` is
   * taken to stay what it is: where it is here and was confirmed, no registry is asked.
   * @throws RuntimeFailure `image_not_allowed`, `image_not_found`, `image_pull_failed`, `no_space`
   */
  resolve(wanted: WantedImage, signal: AbortSignal): Promise<LocalImage>;
  /** Ids of images that were built for the project, newest first. */
  builtFor(owner: ImageOwner, signal: AbortSignal): Promise<string[]>;
  /** The registries that the tenant allows from now on. @throws Error if they cannot be written down */
  allow(registries: readonly string[]): Promise<void>;
}

export interface ImageStoreDeps {
  runtime: ContainerRuntime;
  disk: DiskGuard;
  registries: RegistryGuard;
  record: ImageRecord;
  /** Images of this machine that everybody may use: `NAME`, `NAME:TAG`, `PREFIX/*`, or `*` for all. */
  localImages: readonly string[];
}

/** Of a build: more do not make it faster. */
const maxCacheImages = 20;

export function imageStore({ runtime, disk, registries, record, localImages }: ImageStoreDeps): ImageStore {
  return {
    resolve: (wanted, signal) =>
      wanted.pinned === undefined ? byName(wanted, signal) : byPin(wanted, wanted.pinned, signal),

    async builtFor(owner, signal) {
      const found = await Promise.all([
        runtime.images({ [labels.tenant]: owner.tenant, [labels.project]: owner.project }, signal),
        runtime.images({ [labels.tenant]: owner.tenant, [labels.workload]: owner.workload }, signal),
      ]);
      const own = found.flat().filter((image) => isBuiltFor(image.labels, owner));
      return [...new Set(own.map(({ id }) => id))].slice(0, maxCacheImages);
    },

    allow: (list) => record.allow(list),
  };

  async function byPin(wanted: WantedImage, pinned: string, signal: AbortSignal): Promise<LocalImage> {
    const { reference, owner, inUse } = wanted;
    const local = await runtime.image(pinned, signal);
    if (local !== undefined && isBuiltFor(local.labels, owner)) return local;
    if (local !== undefined && inUse?.has(local.id) === true) return confirmedByUse(local, pinned, owner);
    if (local !== undefined && record.has(owner, pinned)) return local;
    if (pinned.includes('@')) return pull(imageSource(pinned), owner, signal);
    if (local !== undefined) {
      if (isLocalName(reference)) return local;
      throw notAllowed(
        `Image ${reference} was not built for this project: deploy it from its source or from a registry`,
      );
    }
    const message = `Image ${reference} (${pinned}) is not on this server any more, and it can only be built again`;
    throw new RuntimeFailure('image_not_found', message, { retryable: false });
  }

  async function byName({ reference, owner, inUse }: WantedImage, signal: AbortSignal): Promise<LocalImage> {
    const source = imageSource(reference);
    const local = await runtime.image(source.reference, signal);
    if (local !== undefined && isLocal(source)) return local;
    const isUsed = local !== undefined && inUse?.has(local.id) === true;
    const isOfRegistry = local?.digest.includes('@') === true;
    if (isUsed && isOfRegistry) await confirmedByUse(local, local.digest, owner);
    const isKnown = isUsed || (isOfRegistry && record.has(owner, local.digest));
    if (isKnown && !isMoving(source)) return local;
    try {
      return await pull(source, owner, signal);
    } catch (error) {
      // A registry that is away must not keep from running what it has confirmed.
      if (isKnown && !signal.aborted) return local;
      throw error;
    }
  }

  async function pull(source: ImageSource, owner: ImageOwner, signal: AbortSignal): Promise<LocalImage> {
    await registries.check(source.registry, signal);
    await disk.check(`pull image ${source.reference}`);
    const image = await runtime.pull(source.reference, signal);
    // A registry can answer with the id of an image that is here already: then the engine takes that one.
    if (isBuiltForAnother(image, owner)) throw notAllowed(`Image ${source.reference} was built for another project`);
    await record.confirm(owner, image.digest);
    return image;
  }

  /**
   * Containers of releases before there was a record run on images that no registry confirmed in it. They are to be made
   * again from them, also when they were removed while no agent looked. No source names an image by its id, so that this
   * permits nothing else.
   */
  async function confirmedByUse(image: LocalImage, pinned: string, owner: ImageOwner): Promise<LocalImage> {
    if (!isBuiltForAnother(image, owner)) await record.confirm(owner, pinned);
    return image;
  }

  function isLocalName(reference: string): boolean {
    try {
      return isLocal(imageSource(reference));
    } catch (error) {
      if (error instanceof RuntimeFailure) return false;
      throw error;
    }
  }

  function isLocal({ name, tag, digest }: ImageSource): boolean {
    return localImages.some(
      (one) =>
        one === '*' ||
        (one.endsWith('/*') && name.startsWith(one.slice(0, -1))) ||
        (digest === undefined && (one === name || one === `${name}:${tag ?? 'latest'}`)),
    );
  }
}

/** By labels that the agent puts on what it builds. Older ones do not name the project, but the workload. */
function isBuiltFor(given: Readonly<Record<string, string>>, { tenant, project, workload }: ImageOwner): boolean {
  return (
    given[labels.tenant] === tenant &&
    (given[labels.project] === undefined ? given[labels.workload] === workload : given[labels.project] === project)
  );
}

/** Every image that an agent built names its tenant. */
function isBuiltForAnother({ labels: given }: LocalImage, owner: ImageOwner): boolean {
  return given[labels.tenant] !== undefined && !isBuiltFor(given, owner);
}

function isMoving({ digest, tag }: ImageSource): boolean {
  return digest === undefined && (tag ?? 'latest') === 'latest';
}
