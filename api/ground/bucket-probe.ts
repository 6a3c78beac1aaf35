/** Where and as whom a bucket is probed. */
export interface BucketPlace {
  /** Scheme, host and port. */
  endpoint: string;
  region: string;
  bucket: string;
  /** What all keys begin with; empty: nothing. */
  prefix: string;
  accessKey: string;
  secretKey: string;
  pathStyle: boolean;
  /** Certificates in PEM of the authority of the endpoint. */
  ca: string | undefined;
  storageClass: string | undefined;
  /** Endpoints that the tenant names: one in a private network must be among them. */
  allowed: readonly string[];
}

/** Why a bucket cannot be used; the message is for people, and has nothing that the service sent. */
export interface BucketTrouble {
  code: string;
  message: string;
}

/**
 * Writes, reads, lists and deletes an object, and uploads one in parts. Takes 30 s at most.
 *
 * @param id of the destination
 * @throws the signal's reason
 */
export type ProbeBucket = (
  place: BucketPlace,
  id: string,
  signal: AbortSignal,
) => Promise<{ trouble: BucketTrouble | undefined }>;

/** Small objects of a bucket that have a name, in the order of their keys; `content` is absent if it is too long. */
export interface FoundObjects {
  objects: { key: string; content?: string }[];
  /** The key to go on after; absent: there are no more. */
  next?: string;
}

/**
 * Reads the objects of a bucket that have a name, after a key. Takes at most a minute. @throws the signal's reason
 */
export type SearchBucket = (
  place: BucketPlace,
  wanted: { name: string; after: string | undefined; maxBytes: number },
  signal: AbortSignal,
) => Promise<FoundObjects | { trouble: BucketTrouble }>;
