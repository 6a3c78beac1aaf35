import type { BucketPlace } from '../../network/bucket.ts';

/** An object that is sent in parts. */
export interface Upload {
  /** Without the prefix of the place. */
  key: string;
  id: string;
}

/** What a bucket says of an object. */
export interface StoredObject {
  bytes: number;
  etag: string;
}

/**
 * What the control plane asks of a bucket for a backup. Each call has a deadline of its own. Keys are without the prefix of
 * the place. Each throws {@link BucketTrouble}, or the reason of its signal.
 */
export interface BackupBucket {
  /** Begins an upload in parts; resolves with its id. Others of the key stay: a successor of this leader may have begun one. */
  begin(place: BucketPlace, key: string, signal: AbortSignal): Promise<string>;
  /**
   * Makes the object of its first parts, and resolves with what the bucket then says of it, which is what was wanted. One that
   * has become the wanted object already counts as done. Gives up the others of the key.
   */
  complete(
    place: BucketPlace,
    upload: Upload,
    wanted: { bytes: number; etag: string | undefined; parts: number },
    signal: AbortSignal,
  ): Promise<StoredObject>;
  /** Gives up an upload and the others of its key, with their parts; an absent one is fine. */
  abort(place: BucketPlace, upload: Upload, signal: AbortSignal): Promise<void>;
  /** Gives up uploads below a folder of keys that were begun before an instant, some at a time. */
  sweep(place: BucketPlace, below: string, before: Date, signal: AbortSignal): Promise<void>;
  /** `undefined`: there is no such object. */
  stat(place: BucketPlace, key: string, signal: AbortSignal): Promise<StoredObject | undefined>;
  /** Writes a small object. */
  put(place: BucketPlace, key: string, text: string, signal: AbortSignal): Promise<void>;
  /** Keys below a folder that come after one, in their order; `more`: there are further ones. */
  list(
    place: BucketPlace,
    below: string,
    after: string | undefined,
    signal: AbortSignal,
  ): Promise<{ keys: string[]; more: boolean }>;
  /** Removes objects; absent ones are fine. */
  remove(place: BucketPlace, keys: readonly string[], signal: AbortSignal): Promise<void>;
}

/** A bucket did not do what it was asked. Its message is for people, and has nothing that the service sent. */
export class BucketTrouble extends Error {
  readonly code: string;
  /** It may pass by itself. */
  readonly isPassing: boolean;

  constructor(trouble: { code: string; message: string; isPassing: boolean }, options?: ErrorOptions) {
    super(trouble.message, options);
    this.name = 'BucketTrouble';
    this.code = trouble.code;
    this.isPassing = trouble.isPassing;
  }
}
