declare const of: unique symbol;
const mark = Symbol('kept');

/** JSON that is serialised once per object and sent many times. `T` is the type of its value. */
export interface Kept<T> {
  readonly json: string;
  /** Value of the `ETag` header, for objects that have a version. */
  readonly etag?: string;
  readonly [of]?: T;
  readonly [mark]: true;
}

/** The result of a handler: a value, or JSON that is kept. `undefined` is 204. */
export type Reply<T> = T | Kept<T>;

/** Sent besides `data` in the answer of a list. */
export interface ListMeta {
  next_cursor: string | null;
  limit: number;
  /** Matching items on all pages; `null` if they are not counted. */
  total: number | null;
  /** Notifications only: the number of unread ones, whatever the query. */
  unread?: number;
}

/**
 * Keeps the serialised JSON of an immutable object for as long as the object exists. `variant` names one form of
 * several that an object has, for example a masked one, or one that depends on another object.
 */
export type Keep = <T>(it: object, variant: string, build: () => T) => Kept<T>;

/** An empty cache; a process needs one. */
export function createKeep(): Keep {
  const kept = new WeakMap<object, Map<string, Kept<unknown>>>();
  return <T>(it: object, variant: string, build: () => T): Kept<T> => {
    let variants = kept.get(it);
    if (variants === undefined) kept.set(it, (variants = new Map<string, Kept<unknown>>()));
    let found = variants.get(variant);
    if (found === undefined) variants.set(variant, (found = serialise(build())));
    // one variant of an object is always built by the same T
    return found as Kept<T>;
  };
}

/** Serialises a value that is not worth keeping, or that depends on the caller. */
export function serialise<T>(value: T): Kept<T> {
  const json = JSON.stringify(value);
  const version = versionOf(value);
  return { json, ...(version !== undefined && { etag: `"${version}"` }), [mark]: true };
}

export function isKept(value: unknown): value is Kept<unknown> {
  return typeof value === 'object' && value !== null && mark in value;
}

function versionOf(value: unknown): string | undefined {
  return typeof value === 'object' &&
    value !== null &&
    'resource_version' in value &&
    typeof value.resource_version === 'string'
    ? value.resource_version
    : undefined;
}
