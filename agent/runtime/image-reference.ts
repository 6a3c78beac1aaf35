import { RuntimeFailure } from './runtime.ts';

declare const brand: unique symbol;

/** An image as the engine may be asked for it: an image id, or `[host[:port]/]path[:tag][@digest]`. */
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

/** @throws RuntimeFailure `image_not_found` when the text does not follow the grammar of image references. */
export function imageReference(text: string): ImageReference {
  if (!id.test(text) && !parts(text)) {
    throw new RuntimeFailure('image_not_found', `Invalid image reference: ${JSON.stringify(text.slice(0, 300))}`, {
      retryable: false,
    });
  }
  return text as ImageReference; // the grammar was checked
}

/** `undefined` for an image id. */
export function imageParts(reference: ImageReference): ImageParts | undefined {
  return id.test(reference) ? undefined : parts(reference);
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
