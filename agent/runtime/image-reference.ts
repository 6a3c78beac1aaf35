import { RuntimeFailure } from './runtime.ts';

declare const brand: unique symbol;

/** A checked image reference: an image id, or `[host[:port]/]path[:tag][@digest]`. */
export type ImageReference = string & { readonly [brand]: 'ImageReference' };

export interface ImageParts {
  /** Host and path, without tag and digest. */
  repository: string;
  tag: string | undefined;
  digest: string | undefined;
}

const id = /^(?:sha256:)?[0-9a-f]{64}$/;
const host =
  /^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$/;
const segment = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const tag = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const digest = /^sha256:[0-9a-f]{64}$/;

/** Checks a text. @throws RuntimeFailure `image_not_found` if it does not follow the grammar of image references */
export function imageReference(text: string): ImageReference {
  if (!id.test(text) && !parts(text)) {
    throw new RuntimeFailure('image_not_found', `Invalid image reference: ${JSON.stringify(text.slice(0, 300))}`, {
      retryable: false,
    });
  }
  return text as ImageReference; // the grammar was checked
}

/** Splits a reference into its parts; `undefined` for an image id. */
export function imageParts(reference: ImageReference): ImageParts | undefined {
  return id.test(reference) ? undefined : parts(reference);
}

/** An image as users and Dockerfiles name it: by its registry, never by an id. */
export interface ImageSource {
  /** The reference for the engine. It always has a tag or a digest, so that it cannot look like the start of an id. */
  reference: ImageReference;
  /** The usual name: without the default registry, tag and digest. */
  name: string;
  tag: string | undefined;
  digest: string | undefined;
  /** `HOST` or `HOST:PORT`, in lower case. */
  registry: string;
}

const defaultRegistry = 'docker.io';
/** Names that are reserved for images that this product builds. */
const ownNames = /^setpoint(?:\/|$)/;
const digestAlgorithm = /^sha(?:256|384|512)$/;

/**
 * Parses an image as a user or a Dockerfile names it.
 * @throws RuntimeFailure `image_not_allowed` for an image id or a reserved name; `image_not_found` if the text is not
 * an image reference
 */
export function imageSource(text: string): ImageSource {
  const found = imageParts(imageReference(text));
  if (found === undefined || digestAlgorithm.test(found.repository))
    throw notAllowed(`Image ${text} is named by its id: name it by repository and tag`);
  const { host: given, path } = splitHost(found.repository);
  const registry = knownHost(given);
  const name = registry === defaultRegistry ? path.replace(/^library\//, '') : `${registry}/${path}`;
  if (isOwnName(name))
    throw notAllowed(
      `Image ${text} bears a name that is kept for images that Setpoint builds: deploy it from its source`,
    );
  const { tag: version, digest: pinned } = found;
  const end = pinned === undefined ? `:${version ?? 'latest'}` : `@${pinned}`;
  return { reference: imageReference(`${name}${end}`), name, tag: version, digest: pinned, registry };
}

/** Whether a name, or a reference, is one of the images that this product builds. */
export function isOwnName(name: string): boolean {
  return ownNames.test(name);
}

/** The registry that the engine asks for an image: `HOST` or `HOST:PORT`. */
export function registryOf(reference: ImageReference): string {
  return knownHost(splitHost(imageParts(reference)?.repository ?? reference).host);
}

/** Returns a RuntimeFailure `image_not_allowed`, which only another image or an administrator can resolve. */
export function notAllowed(message: string): RuntimeFailure {
  return new RuntimeFailure('image_not_allowed', message, { retryable: false });
}

function knownHost(given: string | undefined): string {
  return given === undefined || given === 'index.docker.io' ? defaultRegistry : given;
}

function splitHost(repository: string): { host: string | undefined; path: string } {
  const slash = repository.indexOf('/');
  const first = repository.slice(0, Math.max(0, slash));
  return /[.:]/.test(first) || first === 'localhost'
    ? { host: first.toLowerCase(), path: repository.slice(slash + 1) }
    : { host: undefined, path: repository };
}

function parts(text: string): ImageParts | undefined {
  if (text.length > 400) return undefined;
  const at = text.indexOf('@');
  const named = at === -1 ? text : text.slice(0, at);
  const pinned = at === -1 ? undefined : text.slice(at + 1);
  const colon = named.lastIndexOf(':');
  const tagged = colon > named.lastIndexOf('/');
  const repository = tagged ? named.slice(0, colon) : named;
  const version = tagged ? named.slice(colon + 1) : undefined;
  if (pinned !== undefined && !digest.test(pinned)) return undefined;
  if (version !== undefined && !tag.test(version)) return undefined;
  const [first = '', ...others] = repository.split('/');
  const firstIsHost = others.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost');
  if (firstIsHost ? !host.test(first) : !segment.test(first)) return undefined;
  if (!others.every((one) => segment.test(one))) return undefined;
  return { repository, tag: version, digest: pinned };
}
