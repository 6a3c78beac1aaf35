declare const of: unique symbol;
const mark = Symbol('kept');

/** JSON that is made once per object and sent many times. `T` is what it says. */
export interface Kept<T> {
  readonly json: string;
  /** Value of the `ETag` header, for objects that have a version. */
  readonly etag?: string;
  readonly [of]?: T;
  readonly [mark]: true;
}

/**
 * Keeps serialised JSON per immutable object for as long as the object itself is kept. `variant` tells apart the forms
 * that one object has (masked, or depending on another object).
 */
export type Keep = <T>(it: object, variant: string, build: () => T) => Kept<T>;

/** An empty keeper: one per process. */
export function createKeep(): Keep {
  const kept = new WeakMap<object, Map<string, Kept<unknown>>>();
  return <T>(it: object, variant: string, build: () => T): Kept<T> => {
    let variants = kept.get(it);
    if (variants === undefined) kept.set(it, (variants = new Map<string, Kept<unknown>>()));
    let found = variants.get(variant);
    if (found === undefined) variants.set(variant, (found = serialise(build())));
    // what is kept under a variant of an object was built as T: a variant names one form
    return found as Kept<T>;
  };
}

/** Serialises a value that is not worth keeping, or not the same for everybody. */
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
