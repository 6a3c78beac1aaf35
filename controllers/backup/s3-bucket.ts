import {
  abortOldUploads,
  abortUpload,
  beginUpload,
  completeUpload,
  deleteObjects,
  listKeys,
  putObject,
  signParts,
  signRead,
  signWrites,
  statObject,
  WrongObject,
} from '../../network/bucket-objects.ts';
import { BucketFailure, troubleOf } from '../../network/bucket-trouble.ts';
import { NotAllowed, openBucket } from '../../network/bucket.ts';
import type { Bucket, BucketPlace } from '../../network/bucket.ts';
import type { AddressSigner } from '../gateway/transfers.ts';
import { BucketTrouble } from './bucket.ts';
import type { BackupBucket } from './bucket.ts';

/** An address is used at once, or asked for again. */
const validSeconds = 3600;
/** Uploads that one call aborts at most. */
const mostSwept = 100;
/** The clock of a bucket may be ahead of this one. */
const aheadMs = 60 * 60_000;
const never = new AbortController().signal;

/** Buckets of products that speak S3. */
export const s3Bucket: BackupBucket & AddressSigner = {
  // aborts none: a leader that is none any more would abort the one that its successor has begun
  begin: (place, key, signal) => within(place, (bucket) => beginUpload(bucket, key, signal)),
  complete: (place, upload, wanted, signal) =>
    within(place, async (bucket) => {
      const made = await completeUpload(bucket, upload, wanted, signal);
      await abortOthers(bucket, upload.key, signal);
      return made;
    }),
  abort: (place, upload, signal) =>
    within(place, async (bucket) => {
      await abortUpload(bucket, upload, signal);
      await abortOthers(bucket, upload.key, signal);
    }),
  sweep: (place, below, before, signal) =>
    within(place, async (bucket) => void (await abortOldUploads(bucket, { below, before, most: mostSwept }, signal))),
  stat: (place, key, signal) => within(place, (bucket) => statObject(bucket, key, signal)),
  put: (place, key, text, signal) => within(place, (bucket) => putObject(bucket, key, text, signal)),
  list: (place, below, after, signal) => within(place, (bucket) => listKeys(bucket, below, after, signal)),
  writes: (place, keys) => within(place, (bucket) => signWrites(bucket, keys, validSeconds, never)),
  remove: (place, keys, signal) => within(place, (bucket) => deleteObjects(bucket, keys, signal)),
  parts: (place, upload, numbers) => within(place, (bucket) => signParts(bucket, upload, numbers, validSeconds, never)),
  object: (place, key) => within(place, (bucket) => signRead(bucket, key, validSeconds, never)),
};

/** Aborts the uploads of a key: a control plane that ended before it noted the id of one left it. */
async function abortOthers(bucket: Bucket, key: string, signal: AbortSignal): Promise<void> {
  await abortOldUploads(bucket, { below: key, before: new Date(Date.now() + aheadMs), most: mostSwept }, signal);
}

async function within<T>(place: BucketPlace, work: (bucket: Bucket) => Promise<T>): Promise<T> {
  try {
    using bucket = await openBucket(place);
    return await work(bucket);
  } catch (error) {
    if (error instanceof BucketFailure) throw new BucketTrouble(error.trouble, { cause: error });
    if (error instanceof NotAllowed) throw new BucketTrouble(troubleOf(error, 'write', place), { cause: error });
    if (error instanceof WrongObject)
      throw new BucketTrouble({ code: error.code, message: error.message, isPassing: false }, { cause: error });
    throw error;
  }
}
