import type { Clock } from '../../time/clock.ts';
import { watchDisk, type DiskGuard } from '../disk/disk-guard.ts';
import type { ImageOwner, ImageRecord } from './image-record.ts';
import { PullLogs } from './pull-log.ts';
import type { RegistryGuard } from './registry-guard.ts';
import { RegistryLogins } from './registry-logins.ts';
import { imageSource, isOwnName, notAllowed, type ImageSource } from '../runtime/image-reference.ts';
import type { ContainerRuntime, LocalImage } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';

/** An image to run or to build upon, and the workload that it is for. */
export interface WantedImage {
  /** The reference of the source, or the name of a built image. */
  reference: string;
  /** Image id or repository digest that the image must have. */
  pinned?: string | undefined;
  owner: ImageOwner;
  /** Ids of the images that containers of this assignment were made from: it may go on using them. */
  inUse?: ReadonlySet<string>;
  /** The tag may have moved: its registry is asked, also for an image that is here and confirmed. */
  refresh?: boolean;
  /** Takes lines about the pull, if there is one. */
  line?: (text: string) => void;
}

/**
 * Finds images for services and builds. A project may use images that were built for it, that a registry confirmed for
 * it, that its instances run on already, and that the operator of the machine allows for all. Other images of the
 * engine belong to others.
 */
export interface ImageStore {
  /**
   * Returns the image that must run: `pinned` if given, else the one that containers of the assignment were made from,
   * else the one that `reference` names. If that is on the server and confirmed, its registry is asked for `refresh` and
   * for the tag `latest` alone, and it is used where that does not give another one.
   * @throws RuntimeFailure `image_not_allowed`, `image_not_found`, `image_pull_failed`, `no_space`
   */
  resolve(wanted: WantedImage, signal: AbortSignal): Promise<LocalImage>;
  /** Returns ids of images that were built for the project, newest first. */
  builtFor(owner: ImageOwner, signal: AbortSignal): Promise<string[]>;
  /** Whether the operator of the machine lets every project use the image of that name without a registry. */
  isShared(reference: string): boolean;
  /** Sets the registries that the tenant allows. @throws Error if they cannot be stored */
  allow(registries: readonly string[]): Promise<void>;
  /** The registries that the tenant allows; `undefined`: every public one. */
  readonly registries: readonly string[] | undefined;
  /** What images are pulled with. */
  readonly logins: RegistryLogins;
  /** The images that this agent pulled. */
  readonly pulled: PulledImages;
}

/** What the agent knows of the images that it brought to the machine itself. */
export type PulledImages = Pick<ImageRecord, 'list' | 'used' | 'forget'>;

export interface ImageStoreDeps {
  runtime: ContainerRuntime;
  disk: DiskGuard;
  registries: RegistryGuard;
  record: ImageRecord;
  /** Images of this machine that all projects may use: `NAME`, `NAME:TAG`, `PREFIX/*`, or `*` for all. */
  localImages: readonly string[];
  clock: Clock;
  /** How long after its start the first pulls wait for what the control plane sends of registries; 0 by default. */
  loginWaitMs?: number;
}

/** Most images in the cache of a build: more do not make it faster. */
const maxCacheImages = 20;

export function imageStore({
  runtime,
  disk,
  registries,
  record,
  localImages,
  clock,
  loginWaitMs = 0,
}: ImageStoreDeps): ImageStore {
  const logins = new RegistryLogins(clock, loginWaitMs);
  const pullLogs = new PullLogs(clock);
  return {
    async resolve(wanted, signal) {
      const { pinned } = wanted;
      const found = await (pinned === undefined ? byName(wanted, signal) : byPin(wanted, pinned, signal));
      record.used(found.id, clock.now().getTime());
      return found;
    },

    async builtFor(owner, signal) {
      const found = await Promise.all([
        runtime.images({ [labels.tenant]: owner.tenant, [labels.project]: owner.project }, signal),
        runtime.images({ [labels.tenant]: owner.tenant, [labels.workload]: owner.workload }, signal),
      ]);
      const own = found.flat().filter((image) => isBuiltFor(image.labels, owner));
      return [...new Set(own.map(({ id }) => id))].slice(0, maxCacheImages);
    },

    isShared: isLocalName,

    allow: (list) => record.allow(list),

    get registries() {
      return record.registries;
    },

    logins,

    pulled: record,
  };

  async function byPin(wanted: WantedImage, pinned: string, signal: AbortSignal): Promise<LocalImage> {
    const { reference, owner, inUse } = wanted;
    const local = await runtime.image(pinned, signal);
    if (local !== undefined && isBuiltFor(local.labels, owner)) return local;
    if (local !== undefined && inUse?.has(local.id) === true) return confirmedByUse(local, pinned, owner);
    if (local !== undefined && record.has(owner, pinned)) return local;
    if (pinned.includes('@')) return pull(imageSource(pinned), wanted, signal);
    if (local !== undefined) {
      if (isLocalName(reference)) return local;
      throw notAllowed(
        `Image ${reference} was not built for this project: deploy it from its source or from a registry`,
      );
    }
    const way = isOwnName(reference) ? 'it can only be built again' : 'no registry has it by this id';
    const message = `Image ${reference} (${pinned}) is not on this server any more, and ${way}`;
    throw new RuntimeFailure('image_not_found', message, { retryable: false });
  }

  async function byName(wanted: WantedImage, signal: AbortSignal): Promise<LocalImage> {
    const { reference, owner, inUse, refresh = false, line } = wanted;
    const source = imageSource(reference);
    const local = await runtime.image(source.reference, signal);
    if (local !== undefined && isLocal(source)) return local;
    const isUsed = local !== undefined && inUse?.has(local.id) === true;
    const isOfRegistry = local?.digest.includes('@') === true;
    if (isUsed && isOfRegistry) await confirmedByUse(local, local.digest, owner);
    if (isUsed) return local;
    const isKnown = isOfRegistry && record.has(owner, local.digest);
    if (isKnown && !mayMove(source, refresh)) return local;
    try {
      return await pull(source, wanted, signal);
    } catch (error) {
      // An image that the registry has confirmed can run while the registry is away.
      if (!isKnown || signal.aborted) throw error;
      line?.(`Registry ${source.registry} does not give image ${source.reference} now: the one on the server is used`);
      return local;
    }
  }

  async function pull(
    source: ImageSource,
    { owner, line = () => undefined }: Pick<WantedImage, 'owner' | 'line'>,
    signal: AbortSignal,
  ): Promise<LocalImage> {
    await registries.check(source.registry, signal);
    await disk.check(`pull image ${source.reference}`);
    const before = await runtime.images({}, signal);
    const login = await logins.of(owner.workload, source.registry, signal);
    using log = pullLogs.begin(owner.workload, source, line);
    const asked = login === undefined ? source.reference : { reference: source.reference, login };
    // How large an image is once it is unpacked is known by nobody before.
    using watch = watchDisk(disk, clock, `go on pulling image ${source.reference}`);
    const pulled = runtime.pull(asked, AbortSignal.any([signal, watch.signal]), (progress) => log.seen(progress));
    const image = await pulled.catch((error: unknown) => {
      if (!signal.aborted) watch.signal.throwIfAborted();
      throw error;
    });
    log.pulled(image);
    // A registry can answer with the id of an image that the engine already has: the engine then uses its own.
    const isNew = before.every(({ id }) => id !== image.id);
    if (isBuiltForAnother(image, owner)) {
      // An image has any labels that its author wrote: what no project may use must not take the room of all of them.
      if (isNew) await runtime.removeImage(image.id, signal);
      throw notAllowed(`Image ${source.reference} was built for another project`);
    }
    await record.pulled(owner, image, isNew, clock.now().getTime());
    return image;
  }

  /**
   * Containers of releases without a record run on images that the record does not have as confirmed. The agent must be
   * able to make them again, also if they were removed while it did not run. No source names an image by its id, so
   * this permits nothing else.
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

/** Judges by the labels that the agent puts on built images. Older images name the workload, not the project. */
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

function mayMove({ digest, tag }: ImageSource, refresh: boolean): boolean {
  return digest === undefined && (refresh || (tag ?? 'latest') === 'latest');
}
