import { randomUUID } from 'node:crypto';
import { BucketTrouble } from '../../controllers/backup/bucket.ts';
import type { BackupBucket, StoredObject, Upload } from '../../controllers/backup/bucket.ts';
import type { AddressSigner } from '../../controllers/gateway/transfers.ts';
import type { BucketPlace } from '../../network/bucket.ts';

/** A bucket in memory, for what controllers do with one. */
export class MemoryBucket implements BackupBucket, AddressSigner {
  readonly objects = new Map<string, StoredObject & { text?: string }>();
  /** Keys of uploads that are open, by id. */
  readonly uploads = new Map<string, string>();
  /** What the completion of an upload meets, by its id. */
  readonly refused = new Map<string, NonNullable<MemoryBucket['trouble']>>();
  /** Of an object by that of its parts: the products differ. */
  etagOf: ((parts: string) => string) | undefined;
  /** Calls so far, of those that ask the bucket. */
  calls = 0;
  /** What every call meets; `undefined`: nothing. */
  trouble: { code: string; message: string; isPassing: boolean } | undefined;

  async begin(_: BucketPlace, key: string): Promise<string> {
    this.#meet();
    const id = randomUUID();
    this.uploads.set(id, key);
    return id;
  }

  async complete(
    _: BucketPlace,
    { key, id }: Upload,
    { bytes, etag = id }: { bytes: number; etag: string | undefined },
  ): Promise<StoredObject> {
    this.#meet();
    const refused = this.refused.get(id);
    if (refused !== undefined) throw new BucketTrouble(refused);
    if (!this.uploads.delete(id)) {
      const made = this.objects.get(key);
      if (made?.etag === etag) return made;
      throw new BucketTrouble({ code: 'unexpected', message: 'There is no such upload', isPassing: false });
    }
    const made = { bytes, etag: this.etagOf?.(etag) ?? etag };
    this.objects.set(key, made);
    this.#abortOthers(key);
    return made;
  }

  async abort(_: BucketPlace, { key }: Upload): Promise<void> {
    this.#meet();
    this.#abortOthers(key);
  }

  async sweep(): Promise<void> {
    this.#meet();
  }

  async stat(_: BucketPlace, key: string): Promise<StoredObject | undefined> {
    this.#meet();
    return this.objects.get(key);
  }

  async put(_: BucketPlace, key: string, text: string): Promise<void> {
    this.#meet();
    this.objects.set(key, { bytes: text.length, etag: key, text });
  }

  async list(_: BucketPlace, below: string, after: string | undefined): Promise<{ keys: string[]; more: boolean }> {
    this.#meet();
    const keys = [...this.objects.keys()].filter(
      (key) => key.startsWith(`${below}/`) && (after === undefined || key > after),
    );
    return { keys: keys.toSorted().slice(0, 1000), more: keys.length > 1000 };
  }

  async writes(_: BucketPlace, keys: readonly string[]): Promise<string[]> {
    return keys.map((key) => `https://s3.test/${key}?write`);
  }

  async remove(_: BucketPlace, keys: readonly string[]): Promise<void> {
    this.#meet();
    for (const key of keys) this.objects.delete(key);
  }

  async parts(_: BucketPlace, { key, id }: Upload, numbers: readonly number[]): Promise<string[]> {
    return numbers.map((number) => `https://s3.test/${key}?upload=${id}&part=${number}`);
  }

  async object(_: BucketPlace, key: string): Promise<string> {
    return `https://s3.test/${key}`;
  }

  /** As a bucket that speaks S3 is asked: those that a control plane began and did not note. */
  #abortOthers(key: string): void {
    for (const [id, its] of this.uploads) if (its === key) this.uploads.delete(id);
  }

  #meet(): void {
    this.calls += 1;
    if (this.trouble !== undefined) throw new BucketTrouble(this.trouble);
  }
}
