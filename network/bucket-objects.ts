import type { CompletedPart, ListPartsCommandOutput } from '@aws-sdk/client-s3';
import { etagOf, maxParts } from './multipart.ts';
import { withinCall } from './bucket-call.ts';
import { BucketFailure, troubleOf } from './bucket-trouble.ts';
import type { BucketStep } from './bucket-trouble.ts';
import type { Bucket } from './bucket.ts';

/*
 * What the control plane does with objects of a bucket. Keys are relative to the prefix of the place. Every function ends
 * within its deadline, and throws `BucketFailure` for the bucket's trouble, the signal's reason when aborted, and what else
 * it names.
 */

/** Longest time of a call, its second attempt included. */
const callMs = 15_000;
/** A service may take long to put together what was uploaded. */
const completeMs = 120_000;
const pageParts = 1000;
/** Most addresses that one call signs, most keys that one deletes. */
const maxSigned = 100;
const maxDeleted = 1000;
const deletedAtOnce = 4;
/** Pages of uploads that one call reads. */
const maxPages = 10;
/** The longest that an address signed by S3 can be valid. */
const maxExpirySeconds = 7 * 24 * 60 * 60;

export interface StoredObject {
  bytes: number;
  /** Without quotes. */
  etag: string;
}

/** A part as the bucket has it. */
export interface StoredPart extends StoredObject {
  number: number;
}

/** What an upload is expected to be. */
export interface WantedUpload {
  bytes: number;
  parts: number;
  /** As {@link etagOf} makes it of the MD5s of the parts; absent where the bucket does not name its parts by MD5. */
  etag: string | undefined;
}

/** What is in the bucket is not what was expected of it. No waiting cures it. */
export class WrongObject extends Error {
  readonly code: 'upload_gone' | 'parts_differ' | 'object_differs' | 'object_too_large';

  constructor(code: WrongObject['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'WrongObject';
    this.code = code;
  }
}

/** Begins an upload in parts, in the storage class of the place. Resolves with its id. */
export async function beginUpload(bucket: Bucket, key: string, signal: AbortSignal): Promise<string> {
  const { CreateMultipartUploadCommand } = await import('@aws-sdk/client-s3');
  const command = new CreateMultipartUploadCommand({ ...objectOf(bucket, key), ...classOf(bucket) });
  const { UploadId } = await asked(bucket, 'upload', signal, (options) => bucket.client.send(command, options));
  if (UploadId === undefined) throw new BucketFailure(troubleOf(new Error('no id'), 'upload', bucket.place));
  return UploadId;
}

/**
 * Signs one address per number of a part; at most 100. Who has one may send this part, once or again, until it expires:
 * by PUT with `Content-Length`, and without any header `x-amz-*`. `Content-MD5` is not signed, and the bucket checks it.
 * Addresses are secrets. No request is made.
 */
export async function signParts(
  bucket: Bucket,
  upload: { key: string; id: string },
  numbers: readonly number[],
  expirySeconds: number,
  signal: AbortSignal,
): Promise<string[]> {
  if (numbers.length > maxSigned) throw new RangeError(`Cannot sign ${numbers.length} addresses, ${maxSigned} at most`);
  if (numbers.some((number) => !Number.isInteger(number) || number < 1 || number > maxParts))
    throw new RangeError(`The numbers of parts are 1 to ${maxParts}`);
  const { UploadPartCommand } = await import('@aws-sdk/client-s3');
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const addresses: string[] = [];
  for (const PartNumber of numbers) {
    signal.throwIfAborted();
    const part = { ...objectOf(bucket, upload.key), UploadId: upload.id, PartNumber };
    addresses.push(await getSignedUrl(bucket.client, new UploadPartCommand(part), expiry(expirySeconds)));
  }
  return addresses;
}

/** Signs an address to read an object from by GET, whole or by ranges. It is a secret. No request is made. */
export async function signRead(
  bucket: Bucket,
  key: string,
  expirySeconds: number,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  const { GetObjectCommand } = await import('@aws-sdk/client-s3');
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  return getSignedUrl(bucket.client, new GetObjectCommand(objectOf(bucket, key)), expiry(expirySeconds));
}

/**
 * Signs one address per key; at most 100. Who has one may write this object by PUT with `Content-Length`, again and again until
 * it expires, and without any header `x-amz-*`. Addresses are secrets. No request is made.
 */
export async function signWrites(
  bucket: Bucket,
  keys: readonly string[],
  expirySeconds: number,
  signal: AbortSignal,
): Promise<string[]> {
  if (keys.length > maxSigned) throw new RangeError(`Cannot sign ${keys.length} addresses, ${maxSigned} at most`);
  const { PutObjectCommand } = await import('@aws-sdk/client-s3');
  const { getSignedUrl } = await import('@aws-sdk/s3-request-presigner');
  const addresses: string[] = [];
  for (const key of keys) {
    signal.throwIfAborted();
    addresses.push(
      await getSignedUrl(bucket.client, new PutObjectCommand(objectOf(bucket, key)), expiry(expirySeconds)),
    );
  }
  return addresses;
}

/**
 * Keys below a folder, or of the whole bucket, in their order; at most 1000. Without the prefix of the place.
 *
 * @param after a key: those up to it are left out
 */
export async function listKeys(
  bucket: Bucket,
  below: string | undefined,
  after: string | undefined,
  signal: AbortSignal,
): Promise<{ keys: string[]; more: boolean }> {
  const { ListObjectsV2Command } = await import('@aws-sdk/client-s3');
  const { Bucket, Key: root } = objectOf(bucket, '');
  const Prefix = below === undefined ? root : `${root}${below}/`;
  const command = new ListObjectsV2Command({
    Bucket,
    Prefix,
    ...(after !== undefined && { StartAfter: `${root}${after}` }),
  });
  const page = await asked(bucket, 'list', signal, (options) => bucket.client.send(command, options));
  const keys = (page.Contents ?? []).flatMap(({ Key }) => (Key === undefined ? [] : [Key.slice(root.length)]));
  return { keys, more: page.IsTruncated === true };
}

/** The parts of an upload that the bucket has, by number; at most 10,000. @throws WrongObject `upload_gone` */
export async function listParts(
  bucket: Bucket,
  upload: { key: string; id: string },
  signal: AbortSignal,
): Promise<StoredPart[]> {
  const { ListPartsCommand } = await import('@aws-sdk/client-s3');
  const parts: StoredPart[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < Math.ceil(maxParts / pageParts); pages += 1) {
    const command = new ListPartsCommand({
      ...objectOf(bucket, upload.key),
      UploadId: upload.id,
      MaxParts: pageParts,
      ...(after !== undefined && { PartNumberMarker: after }),
    });
    const page: ListPartsCommandOutput = await asked(bucket, 'upload', signal, (options) =>
      unlessGone(bucket.client.send(command, options), upload.key),
    );
    for (const { PartNumber = 0, Size = 0, ETag = '' } of page.Parts ?? [])
      parts.push({ number: PartNumber, bytes: Size, etag: withoutQuotes(ETag) });
    after = page.NextPartNumberMarker;
    if (page.IsTruncated !== true || after === undefined) break;
  }
  return parts.toSorted((a, b) => a.number - b.number);
}

/**
 * Completes an upload with the first parts that the bucket lists, if they are those that are wanted. Parts with higher
 * numbers are of an attempt that was interrupted: they are left out, where the service takes less than all. An upload that was
 * completed already, and whose object is the wanted one, counts as completed. Resolves with the object as the bucket
 * shows it afterwards.
 *
 * @throws WrongObject `parts_differ`: nothing was completed; `upload_gone`: there is neither the upload nor its object;
 * `object_differs`: the object is not the wanted one
 */
export async function completeUpload(
  bucket: Bucket,
  upload: { key: string; id: string },
  wanted: WantedUpload,
  signal: AbortSignal,
): Promise<StoredObject> {
  const { CompleteMultipartUploadCommand } = await import('@aws-sdk/client-s3');
  try {
    const all = await listParts(bucket, upload, signal);
    const parts = all.slice(0, wanted.parts);
    requireWanted(parts, wanted, upload.key);
    const command = new CompleteMultipartUploadCommand({
      ...objectOf(bucket, upload.key),
      UploadId: upload.id,
      MultipartUpload: { Parts: parts.map(({ number, etag }): CompletedPart => ({ PartNumber: number, ETag: etag })) },
    });
    await asked(
      bucket,
      'upload',
      signal,
      (options) => unlessRefused(unlessGone(bucket.client.send(command, options), upload.key), upload.key, all, wanted),
      completeMs,
    );
  } catch (error) {
    // an earlier call may have completed it, or the first attempt of this one
    if (!(error instanceof WrongObject) || error.code !== 'upload_gone') throw error;
    const found = await statObject(bucket, upload.key, signal);
    if (found === undefined) throw error;
    requireSame(found, wanted, upload.key);
    return found;
  }
  const found = await statObject(bucket, upload.key, signal);
  if (found === undefined)
    throw new WrongObject('object_differs', `Object ${upload.key} is not in the bucket although it was completed`);
  // its parts were compared before; some products make its ETag in another way
  const isUsual = /^[0-9a-f]{32}-\d+$/.test(found.etag);
  requireSame(found, isUsual ? wanted : { ...wanted, etag: undefined }, upload.key);
  return found;
}

/** Ends an upload and removes its parts. One that is not there, or was completed, is fine. */
export async function abortUpload(
  bucket: Bucket,
  upload: { key: string; id: string },
  signal: AbortSignal,
): Promise<void> {
  const { AbortMultipartUploadCommand } = await import('@aws-sdk/client-s3');
  const command = new AbortMultipartUploadCommand({ ...objectOf(bucket, upload.key), UploadId: upload.id });
  await asked(bucket, 'upload', signal, (options) =>
    unlessAbsent(bucket.client.send(command, options), ['NoSuchUpload', 'NoSuchKey']),
  );
}

/** Size and ETag of an object; `undefined`: there is none. */
export async function statObject(bucket: Bucket, key: string, signal: AbortSignal): Promise<StoredObject | undefined> {
  const { HeadObjectCommand } = await import('@aws-sdk/client-s3');
  const command = new HeadObjectCommand(objectOf(bucket, key));
  const found = await asked(bucket, 'read', signal, (options) =>
    // the answer to HEAD has no body, and so no code of S3
    unlessAbsent(bucket.client.send(command, options), ['NoSuchKey', 'NotFound']),
  );
  if (found === undefined) return undefined;
  return { bytes: found.ContentLength ?? 0, etag: withoutQuotes(found.ETag ?? '') };
}

/** Writes a small object, in the storage class of the place. It replaces one of the same key. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array | string,
  signal: AbortSignal,
): Promise<void> {
  const { PutObjectCommand } = await import('@aws-sdk/client-s3');
  const command = new PutObjectCommand({ ...objectOf(bucket, key), ...classOf(bucket), Body: body });
  await asked(bucket, 'write', signal, (options) => bucket.client.send(command, options));
}

/** Reads a small object; `undefined`: there is none. At most 1 MiB. @throws WrongObject `object_too_large` */
export async function readObject(
  bucket: Bucket,
  key: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  const { GetObjectCommand } = await import('@aws-sdk/client-s3');
  const command = new GetObjectCommand(objectOf(bucket, key));
  return asked(bucket, 'read', signal, async (options) => {
    const found = await unlessAbsent(bucket.client.send(command, options), ['NoSuchKey']);
    if (found?.Body === undefined) return undefined;
    const stream = found.Body as AsyncIterable<Uint8Array> & { destroy(): void }; // a Readable in Node
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of (found.ContentLength ?? 0) > maxBytes ? [Buffer.alloc(maxBytes + 1)] : stream) {
        bytes += chunk.length;
        if (bytes > maxBytes)
          throw new WrongObject('object_too_large', `Object ${key} has more than the ${maxBytes} bytes expected of it`);
        chunks.push(chunk);
      }
    } finally {
      stream.destroy();
    }
    return Buffer.concat(chunks);
  });
}

/** Deletes objects, at most 1,000. Those that are not there are fine. */
export async function deleteObjects(bucket: Bucket, keys: readonly string[], signal: AbortSignal): Promise<void> {
  if (keys.length > maxDeleted) throw new RangeError(`Cannot delete ${keys.length} objects at once`);
  const { DeleteObjectCommand } = await import('@aws-sdk/client-s3');
  // one by one: products differ in the checksum that a request for several needs
  const left = keys.values();
  const remove = async (): Promise<void> => {
    for (const key of left) {
      const command = new DeleteObjectCommand(objectOf(bucket, key));
      await asked(bucket, 'delete', signal, (options) =>
        unlessAbsent(bucket.client.send(command, options), ['NoSuchKey']),
      );
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: deletedAtOnce }, remove));
  const failed = ended.find((it) => it.status === 'rejected');
  if (failed !== undefined) throw failed.reason as Error; // of `asked`
}

/**
 * Aborts uploads below a prefix of keys that were begun before an instant; at most `most`. Resolves with how many it
 * aborted, and whether there may be more.
 */
export async function abortOldUploads(
  bucket: Bucket,
  { below, before, most }: { below: string; before: Date; most: number },
  signal: AbortSignal,
): Promise<{ aborted: number; more: boolean }> {
  const { ListMultipartUploadsCommand } = await import('@aws-sdk/client-s3');
  const { Bucket, Key: Prefix } = objectOf(bucket, below);
  const root = objectOf(bucket, '').Key;
  let aborted = 0;
  let marker: { KeyMarker?: string; UploadIdMarker?: string } = {};
  for (let pages = 0; pages < maxPages; pages += 1) {
    const command = new ListMultipartUploadsCommand({ Bucket, Prefix, ...marker });
    const page = await asked(bucket, 'list', signal, (options) => bucket.client.send(command, options));
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if (Key === undefined || UploadId === undefined || Initiated === undefined || Initiated >= before) continue;
      if (aborted >= most) return { aborted, more: true };
      await abortUpload(bucket, { key: Key.slice(root.length), id: UploadId }, signal);
      aborted += 1;
    }
    if (page.IsTruncated !== true || page.NextKeyMarker === undefined) return { aborted, more: false };
    marker = {
      KeyMarker: page.NextKeyMarker,
      ...(page.NextUploadIdMarker !== undefined && { UploadIdMarker: page.NextUploadIdMarker }),
    };
  }
  return { aborted, more: true };
}

function requireWanted(parts: readonly StoredPart[], wanted: WantedUpload, key: string): void {
  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
  const differ = (found: string): WrongObject =>
    new WrongObject(
      'parts_differ',
      `The bucket has other parts of ${key} than were sent: ${found}. Nothing was completed: send it again`,
    );
  if (parts.length !== wanted.parts || parts.some(({ number }, at) => number !== at + 1))
    throw differ(`${parts.length} parts, and not 1 to ${wanted.parts}`);
  if (bytes !== wanted.bytes) throw differ(`${bytes} bytes, and not ${wanted.bytes}`);
  if (wanted.etag === undefined) return;
  const etag = etagOf(parts.map((part) => Buffer.from(part.etag, 'hex')));
  if (etag !== wanted.etag) throw differ(`their ETag is ${etag}, and not ${wanted.etag}`);
}

/** Ceph completes an upload with all of its parts only. */
async function unlessRefused<T>(
  work: Promise<T>,
  key: string,
  all: readonly StoredPart[],
  wanted: WantedUpload,
): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (all.length === wanted.parts || !(error instanceof Error) || error.name !== 'InvalidPart') throw error;
    throw new WrongObject(
      'parts_differ',
      `The bucket still has parts of ${key} from an attempt that was interrupted, and completes it with none of them left out: ${all.length} parts, and not ${wanted.parts}. Nothing was completed: send it again`,
      { cause: error },
    );
  }
}

function requireSame(found: StoredObject, wanted: WantedUpload, key: string): void {
  const isSame = found.bytes === wanted.bytes && (wanted.etag === undefined || found.etag === wanted.etag);
  if (isSame) return;
  const words = (it: { bytes: number; etag: string | undefined }): string =>
    `${it.bytes} bytes${it.etag === undefined ? '' : ` with ETag ${it.etag}`}`;
  throw new WrongObject(
    'object_differs',
    `Object ${key} of the bucket has ${words(found)}, and not ${words(wanted)}: it is of another upload, or was changed`,
  );
}

const withoutQuotes = (etag: string): string => etag.replace(/^"(.*)"$/, '$1');

function objectOf({ place: { bucket, prefix } }: Bucket, key: string): { Bucket: string; Key: string } {
  return { Bucket: bucket, Key: prefix === '' ? key : `${prefix}/${key}` };
}

function classOf({ place: { storageClass } }: Bucket): { StorageClass?: 'STANDARD' } {
  // other products have classes of their own
  return storageClass === undefined ? {} : { StorageClass: storageClass as 'STANDARD' };
}

const expiry = (seconds: number): { expiresIn: number } => ({ expiresIn: Math.min(seconds, maxExpirySeconds) });

/** @throws BucketFailure, WrongObject, the signal's reason */
async function asked<T>(
  { place }: Bucket,
  step: BucketStep,
  signal: AbortSignal,
  call: (options: { abortSignal: AbortSignal }) => Promise<T>,
  ms = callMs,
): Promise<T> {
  try {
    return await withinCall(call, ms, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof WrongObject) throw error;
    throw new BucketFailure(troubleOf(error, step, place), { cause: error });
  }
}

async function unlessAbsent<T>(work: Promise<T>, codes: readonly string[]): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Error && codes.includes(error.name)) return undefined;
    throw error;
  }
}

async function unlessGone<T>(work: Promise<T>, key: string): Promise<T> {
  // Ceph says NoSuchKey
  const answer = await unlessAbsent(work, ['NoSuchUpload', 'NoSuchKey']);
  if (answer !== undefined) return answer;
  throw new WrongObject('upload_gone', `The bucket has no such upload of ${key}: it was completed or aborted`);
}
