import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open, readFile, stat } from 'node:fs/promises';
import { writeAtomically } from './atomic-file.ts';

const magic = Buffer.from('SPJ1');
const fileIdBytes = 16;
const headerBytes = magic.length + fileIdBytes;
const nonceBytes = 12;
const tagBytes = 16;
const frameOverhead = 4 + nonceBytes + tagBytes;
/** No record comes near this length; a larger one means damage. */
const maximalRecord = 256 * 1024 * 1024;

/** Derives the key of one file at rest from a secret of the agent. A different `purpose` gives an unrelated key. */
export function deriveKey(secret: Uint8Array, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `setpoint agent ${purpose}`, 32));
}

/**
 * A file of records, encrypted and authenticated (AES-256-GCM), to which single records are appended durably.
 *
 * After a crash it has every record whose `append` resolved, and possibly the last one whose `append` did not: an
 * incomplete end is cut off. A file that is damaged elsewhere, or was written with another key, has no records at all,
 * and must be rewritten before anything is appended.
 */
export class Journal {
  readonly #path: string;
  readonly #key: Buffer;
  #file: FileHandle | undefined;
  #fileId: Buffer;
  #bytes: number;
  #count: number;
  #closed = false;
  #last: Promise<void> = Promise.resolve();

  private constructor(path: string, key: Buffer, content: Content | undefined) {
    this.#path = path;
    this.#key = key;
    this.#fileId = content?.fileId ?? Buffer.alloc(0);
    this.#bytes = content?.bytes ?? 0;
    this.#count = content?.records.length ?? 0;
  }

  /** `records` is undefined if there is no usable file. */
  static async open(path: string, key: Buffer): Promise<{ journal: Journal; records: Buffer[] | undefined }> {
    const raw = await readFile(path).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // errors of readFile have a code
      throw new Error(`Cannot read file ${path}`, { cause: error });
    });
    const content = raw === undefined ? undefined : decode(raw, key);
    const journal = new Journal(path, key, content);
    if (content !== undefined) {
      journal.#file = await open(path, 'r+');
      await journal.#file.truncate(content.bytes);
    }
    return { journal, records: content?.records };
  }

  /** Size of the file in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * True if nothing can be appended before a rewrite: there was no usable file, or an error left it unknown what is in
   * the file.
   */
  get needsRewrite(): boolean {
    return this.#file === undefined && !this.#closed;
  }

  /**
   * Resolves when the record is on disk. After an error the file is as before, or must be rewritten. Calls take effect
   * in their order.
   */
  append(record: Uint8Array): Promise<void> {
    return this.#exclusively(async () => {
      if (this.#closed) throw new Error(`Cannot append to ${this.#path} after it was closed`);
      if (this.#file === undefined) throw new Error(`Cannot append to ${this.#path} before it was written as a whole`);
      const frame = encodeFrame(this.#key, this.#fileId, this.#count, record);
      try {
        await this.#file.write(frame, 0, frame.length, this.#bytes);
        await this.#file.datasync();
      } catch (cause) {
        await this.#file.truncate(this.#bytes).catch(() => this.#abandon());
        throw new Error(`Cannot append to ${this.#path}`, { cause });
      }
      this.#bytes += frame.length;
      this.#count += 1;
    });
  }

  /**
   * Replaces all records, atomically and durably. After an error the file has either the old records or the new ones;
   * unless it surely has the old ones, it must be rewritten before anything is appended.
   */
  rewrite(records: readonly Uint8Array[]): Promise<void> {
    return this.#exclusively(async () => {
      if (this.#closed) throw new Error(`Cannot write ${this.#path} after it was closed`);
      const fileId = randomBytes(fileIdBytes);
      const frames = records.map((record, index) => encodeFrame(this.#key, fileId, index, record));
      const content = Buffer.concat([magic, fileId, ...frames]);
      try {
        await writeAtomically(this.#path, content);
      } catch (error) {
        if (!(await this.#isInPlace())) await this.#abandon();
        throw error;
      }
      await this.#abandon();
      this.#file = await open(this.#path, 'r+');
      this.#fileId = fileId;
      this.#bytes = content.length;
      this.#count = records.length;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#exclusively(() => {
      this.#closed = true;
      return this.#abandon();
    });
  }

  /** True if the open file is still the one that the path names, so that what is appended to it is not lost. */
  async #isInPlace(): Promise<boolean> {
    try {
      const [named, opened] = await Promise.all([stat(this.#path), this.#file?.stat()]);
      return named.ino === opened?.ino;
    } catch {
      return false;
    }
  }

  async #abandon(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  #exclusively(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

interface Content {
  fileId: Buffer;
  records: Buffer[];
  /** Length of the file up to its last complete record. */
  bytes: number;
}

/** The position of a record is authenticated with it, so that records cannot be reordered or moved between files. */
function additionalData(fileId: Buffer, index: number): Buffer {
  const data = Buffer.alloc(fileIdBytes + 4);
  fileId.copy(data);
  data.writeUInt32BE(index, fileIdBytes);
  return data;
}

function encodeFrame(key: Buffer, fileId: Buffer, index: number, record: Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(additionalData(fileId, index));
  const body = Buffer.concat([cipher.update(record), cipher.final()]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, nonce, cipher.getAuthTag(), body]);
}

function decode(raw: Buffer, key: Buffer): Content | undefined {
  if (raw.length < headerBytes || !raw.subarray(0, magic.length).equals(magic)) return undefined;
  const fileId = raw.subarray(magic.length, headerBytes);
  const records: Buffer[] = [];
  let offset = headerBytes;
  while (offset + frameOverhead <= raw.length) {
    const length = raw.readUInt32BE(offset);
    const end = offset + frameOverhead + length;
    if (length > maximalRecord) return isTorn(raw, offset) ? { fileId, records, bytes: offset } : undefined;
    if (end > raw.length) break;
    const record = decodeFrame(key, fileId, records.length, raw.subarray(offset, end));
    if (record === undefined) {
      if (end < raw.length && !isTorn(raw, offset)) return undefined;
      break;
    }
    records.push(record);
    offset = end;
  }
  return { fileId, records, bytes: offset };
}

function decodeFrame(key: Buffer, fileId: Buffer, index: number, frame: Buffer): Buffer | undefined {
  const tagAt = 4 + nonceBytes;
  const decipher = createDecipheriv('aes-256-gcm', key, frame.subarray(4, tagAt));
  decipher.setAAD(additionalData(fileId, index)).setAuthTag(frame.subarray(tagAt, tagAt + tagBytes));
  try {
    return Buffer.concat([decipher.update(frame.subarray(frameOverhead)), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** True if only zeros follow: the file system grew the file before a crash, but did not write the content. */
function isTorn(raw: Buffer, offset: number): boolean {
  return raw.subarray(offset).every((byte) => byte === 0);
}
