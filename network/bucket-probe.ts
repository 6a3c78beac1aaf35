import type * as Sdk from '@aws-sdk/client-s3';
import type { S3Client } from '@aws-sdk/client-s3';
import { randomBytes } from 'node:crypto';
import { CallTimedOut, troubleOf } from './bucket-trouble.ts';
import type { BucketStep, Trouble } from './bucket-trouble.ts';
import { withinCall } from './bucket-call.ts';
import { openBucket } from './bucket.ts';
import type { BucketPlace } from './bucket.ts';

/** What came of a probe. */
export interface Probe {
  /** Absent: the bucket can be used for all that backups need. */
  trouble: Trouble | undefined;
  /** The clocks of the service and of this machine differ by more than a minute. */
  isClockOff: boolean;
}

/** Longest time of one call, its second attempt included, and of a whole probe. */
const callMs = 10_000;
const probeMs = 30_000;
/** What a probe left behind is removed within this time. */
const cleanUpMs = 3000;
const clockToleranceMs = 60_000;
/** An object of a probe that is as old was left behind; each probe removes so many. */
const leftMs = 60 * 60_000;
const maxLeft = 20;

/** A step found that the bucket keeps its word badly, although no call failed. */
class Found extends Error {
  readonly trouble: Trouble;

  constructor(code: 'reads_differently' | 'not_listed', message: string) {
    super(message);
    this.trouble = { code, message, isPassing: false };
  }
}

/**
 * Does with an object of its own what backups do with theirs: writes it, reads it back, lists it, deletes it, and
 * uploads one in parts. Takes 30 s at most, and leaves nothing behind unless the keys may not delete.
 *
 * @param id of the destination: what earlier probes of it left behind is removed, too
 * @throws the signal's reason
 */
export async function probeBucket(place: BucketPlace, id: string, signal: AbortSignal): Promise<Probe> {
  const over = AbortSignal.any([signal, AbortSignal.timeout(probeMs)]);
  let step: BucketStep = 'write';
  let isClockOff = false;
  try {
    using bucket = await openBucket(place);
    try {
      await using probe = await Probing.of(bucket.client, place, id, over);
      for (step of steps) await probe[step]();
    } finally {
      isClockOff = Math.abs(bucket.aheadMs ?? 0) > clockToleranceMs;
    }
    return { trouble: undefined, isClockOff };
  } catch (error) {
    signal.throwIfAborted();
    const cause = over.aborted ? new CallTimedOut() : error;
    return { trouble: cause instanceof Found ? cause.trouble : troubleOf(cause, step, place), isClockOff };
  }
}

const steps = ['write', 'read', 'list', 'delete', 'upload'] as const;

/** The steps of one probe, in their order. Disposing removes what they left. */
class Probing implements AsyncDisposable {
  readonly #sdk: typeof Sdk;
  readonly #client: S3Client;
  readonly #place: BucketPlace;
  /** Where probes of this destination have their objects. */
  readonly #folder: string;
  readonly #key: string;
  /** Keys of objects that earlier probes left. */
  #left: string[] = [];
  readonly #signal: AbortSignal;
  readonly #body = randomBytes(64).toString('hex');
  #isThere = false;
  #upload: string | undefined;

  private constructor(sdk: typeof Sdk, client: S3Client, place: BucketPlace, id: string, signal: AbortSignal) {
    this.#sdk = sdk;
    this.#client = client;
    this.#place = place;
    this.#folder = [place.prefix, '.setpoint-probe', id, ''].filter((it, at) => at > 0 || it !== '').join('/');
    // a service that was frozen may carry out a request of an earlier probe now
    this.#key = `${this.#folder}${randomBytes(8).toString('hex')}`;
    this.#signal = signal;
  }

  static async of(client: S3Client, place: BucketPlace, id: string, signal: AbortSignal): Promise<Probing> {
    return new Probing(await import('@aws-sdk/client-s3'), client, place, id, signal);
  }

  async write(): Promise<void> {
    const { PutObjectCommand } = this.#sdk;
    this.#isThere = true;
    await this.#call((options) =>
      this.#client.send(new PutObjectCommand({ ...this.#object, Body: this.#body, ...this.#class }), options),
    );
  }

  async read(): Promise<void> {
    const { GetObjectCommand } = this.#sdk;
    const text = await this.#call(async (options) => {
      const { Body } = await this.#client.send(new GetObjectCommand(this.#object), options);
      return Body?.transformToString();
    });
    if (text !== this.#body)
      throw new Found(
        'reads_differently',
        `Bucket ${this.#place.bucket} gives back other bytes than were written to it: ask the provider, and keep no backups there`,
      );
  }

  async list(): Promise<void> {
    const { ListObjectsV2Command, ListMultipartUploadsCommand } = this.#sdk;
    const { bucket: Bucket } = this.#place;
    const { Contents = [], IsTruncated = false } = await this.#call((options) =>
      this.#client.send(new ListObjectsV2Command({ Bucket, Prefix: this.#folder }), options),
    );
    // by this the uploads are found that a backup left unfinished
    await this.#call((options) =>
      this.#client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: this.#folder }), options),
    );
    const own = Contents.find(({ Key }) => Key === this.#key);
    if (own === undefined && !IsTruncated)
      throw new Found(
        'not_listed',
        `Bucket ${Bucket} does not list what was written to it: ask the provider, and keep no backups there`,
      );
    const old = (own?.LastModified?.getTime() ?? 0) - leftMs;
    this.#left = Contents.filter(({ LastModified }) => (LastModified?.getTime() ?? Infinity) < old)
      .flatMap(({ Key }) => Key ?? [])
      .slice(0, maxLeft);
  }

  async delete(): Promise<void> {
    await this.#call((options) => this.#remove(options));
    const { DeleteObjectCommand } = this.#sdk;
    const { bucket: Bucket } = this.#place;
    for (const Key of this.#left)
      await this.#call((options) => this.#client.send(new DeleteObjectCommand({ Bucket, Key }), options));
  }

  /** Uploads an object in one part, which is how a backup of any size is kept, and removes it. */
  async upload(): Promise<void> {
    const { CreateMultipartUploadCommand, UploadPartCommand, ListPartsCommand, CompleteMultipartUploadCommand } =
      this.#sdk;
    const begun = await this.#call((options) =>
      this.#client.send(new CreateMultipartUploadCommand({ ...this.#object, ...this.#class }), options),
    );
    this.#upload = begun.UploadId;
    const part = { ...this.#object, UploadId: this.#upload, PartNumber: 1 };
    const { ETag } = await this.#call((options) =>
      this.#client.send(new UploadPartCommand({ ...part, Body: this.#body }), options),
    );
    const { Parts = [] } = await this.#call((options) =>
      this.#client.send(new ListPartsCommand({ ...this.#object, UploadId: this.#upload }), options),
    );
    if (Parts.length !== 1 || Parts[0]?.ETag !== ETag)
      throw new Found(
        'not_listed',
        `Bucket ${this.#place.bucket} does not list the part that was uploaded to it: ask the provider, and keep no backups there`,
      );
    this.#isThere = true;
    await this.#call((options) =>
      this.#client.send(
        new CompleteMultipartUploadCommand({
          ...this.#object,
          UploadId: this.#upload,
          MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] },
        }),
        options,
      ),
    );
    this.#upload = undefined;
    await this.#call((options) => this.#remove(options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const options = { abortSignal: AbortSignal.timeout(cleanUpMs) };
    const { AbortMultipartUploadCommand } = this.#sdk;
    const upload = { ...this.#object, UploadId: this.#upload };
    await Promise.allSettled([
      this.#upload === undefined ? undefined : this.#client.send(new AbortMultipartUploadCommand(upload), options),
      this.#isThere ? this.#remove(options) : undefined,
    ]);
  }

  get #object(): { Bucket: string; Key: string } {
    return { Bucket: this.#place.bucket, Key: this.#key };
  }

  get #class(): { StorageClass?: 'STANDARD' } {
    const { storageClass } = this.#place;
    // other products have classes of their own
    return storageClass === undefined ? {} : { StorageClass: storageClass as 'STANDARD' };
  }

  async #remove(options: { abortSignal: AbortSignal }): Promise<void> {
    const { DeleteObjectCommand } = this.#sdk;
    await this.#client.send(new DeleteObjectCommand(this.#object), options);
    this.#isThere = false;
  }

  #call<T>(call: (options: { abortSignal: AbortSignal }) => Promise<T>): Promise<T> {
    return withinCall(call, callMs, this.#signal);
  }
}
