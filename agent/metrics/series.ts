import { open, readFile } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { meanMs, meansForMs, sampledForMs, sampleMs } from '../../agent-protocol/metrics.ts';
import { encodeSlot, mostValues, offsetOf, Ring, slotBytes, stepOf, together } from './ring.ts';
import type { RingForm, Slot } from './ring.ts';

/** An hour of samples. */
export const sampleForm: RingForm = { stepMs: sampleMs, slots: sampledForMs / sampleMs, hasMaxima: false };
/** A week of means and maxima. */
export const meanForm: RingForm = { stepMs: meanMs, slots: meansForMs / meanMs, hasMaxima: true };

/** The two rings of a series. */
export interface Rings {
  samples: Ring;
  means: Ring;
  /** The step of the last sample. */
  last: number | undefined;
}

const headerBytes = 64;
const samplesBytes = sampleForm.slots * slotBytes(sampleForm);
const meansBytes = meanForm.slots * slotBytes(meanForm);
const meansAt = headerBytes + samplesBytes;
/** Size of each file, which never changes. */
export const seriesBytes = meansAt + meansBytes;

/** Mark, version 1, and the shape of the rings, closed by a checksum. */
const header = ((): Buffer => {
  const bytes = Buffer.alloc(headerBytes);
  bytes.write('SPMR');
  const numbers = [1, mostValues, sampleForm.stepMs, sampleForm.slots, meanForm.stepMs, meanForm.slots];
  for (const [n, number] of numbers.entries()) bytes.writeUInt32LE(number, 4 + 4 * n);
  bytes.writeUInt32LE(crc32(bytes.subarray(0, headerBytes - 4)), headerBytes - 4);
  return bytes;
})();

/** Reads the file of a series. Returns `undefined` if there is none, or it is damaged or of another version. */
export async function readSeries(path: string): Promise<Rings | undefined> {
  return ringsOf(await readFile(path).catch(() => Buffer.alloc(0)));
}

function ringsOf(bytes: Buffer): Rings | undefined {
  if (bytes.length !== seriesBytes || !bytes.subarray(0, headerBytes).equals(header)) return undefined;
  const samples = new Ring(sampleForm, Buffer.from(bytes.subarray(headerBytes, meansAt)));
  return { samples, means: new Ring(meanForm, bytes.subarray(meansAt)), last: samples.last };
}

/** The mean of a step of 5 minutes: of its samples where they are kept, else what was stored of them. */
export function meanOf({ samples, means, last }: Rings, step: number): Slot | undefined {
  const stored = means.get(step);
  if (last === undefined || step < meanStepOf(last) - sampledForMs / meanMs) return stored;
  const computed = meanOfSamples(samples, step);
  return computed !== undefined && computed.count > (stored?.count ?? 0) ? computed : stored;
}

function meanOfSamples(samples: Ring, step: number): Slot | undefined {
  const first = stepOf(sampleForm, step * meanMs);
  const steps = Array.from({ length: meanMs / sampleMs }, (_, n) => first + n);
  return together(steps.map((it) => samples.get(it)).filter((it) => it !== undefined));
}

/**
 * The values of a server or an instance, in one file of a fixed size. The samples of the last hour are also in memory,
 * so that they are kept while the disk refuses writes. Writes are not synced: a crash of the agent loses nothing, a
 * power cut the last seconds. One call of {@link Series.add} runs at a time.
 */
export class Series implements AsyncDisposable {
  readonly #path: string;
  readonly #samples: Ring;
  /** How many samples the stored means of the last hour are of, by step. */
  readonly #stored: Map<number, number>;
  #file: FileHandle | undefined;
  /** The step of the last sample. */
  #last: number | undefined;
  /** Samples are in memory that the file lacks. */
  #isBehind = false;

  private constructor(path: string, rings: Rings | undefined, file: FileHandle | undefined) {
    this.#path = path;
    this.#file = file;
    this.#samples = rings?.samples ?? new Ring(sampleForm);
    this.#last = rings?.last;
    this.#stored = new Map();
    if (rings !== undefined && this.#last !== undefined)
      for (const step of meansUpTo(this.#last)) this.#stored.set(step, rings.means.get(step)?.count ?? 0);
  }

  /**
   * Opens the series with what its file has. `damage`: what of the file is not used. A file that cannot be read begins
   * anew with the next sample.
   */
  static async open(path: string): Promise<{ series: Series; damage: string | undefined }> {
    let file: FileHandle | undefined;
    try {
      file = await open(path, 'r+');
      const rings = ringsOf(await file.readFile());
      const damaged = rings === undefined ? 0 : rings.samples.damaged + rings.means.damaged;
      if (rings !== undefined) {
        const damage = damaged === 0 ? undefined : `${damaged} of its values`;
        return { series: new Series(path, rings, file), damage };
      }
      await file.close();
      return { series: new Series(path, undefined, undefined), damage: 'the whole file' };
    } catch (error) {
      await file?.close();
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
      return { series: new Series(path, undefined, undefined), damage: isMissing ? undefined : 'the whole file' };
    }
  }

  /**
   * Adds a sample at a wall time. After the clock went back, what lies in the future is forgotten. The sample is kept in
   * memory also if this throws. @throws Error if the file cannot be written
   */
  async add(at: number, values: readonly number[]): Promise<void> {
    const step = stepOf(sampleForm, at);
    const before = this.#last;
    this.#last = step;
    const slot = { count: 1, means: values, maxima: values };
    try {
      if (before !== undefined && step < before) await this.#forgetAfter(step);
      const file = this.#file ?? (await this.#create());
      // The sample may take the place of one whose mean is not stored yet.
      if (this.#isBehind || before === undefined || meanStepOf(step) !== meanStepOf(before))
        await this.#storeMeans(file, new Set([...meansUpTo(before ?? step), ...meansUpTo(step)]), meanStepOf(step));
      this.#samples.put(step, slot);
      if (this.#isBehind) await writeAll(file, this.#samples.bytes, headerBytes);
      else await writeAll(file, encodeSlot(sampleForm, step, slot), headerBytes + offsetOf(sampleForm, step));
      this.#isBehind = false;
    } catch (cause) {
      this.#samples.put(step, slot);
      this.#isBehind = true;
      throw new Error(`Cannot write ${this.#path}`, { cause });
    }
  }

  /** What is kept. */
  async read(): Promise<Rings> {
    const stored = Buffer.alloc(meansBytes);
    // What cannot be read is a gap.
    await this.#file?.read(stored, 0, meansBytes, meansAt).catch(() => undefined);
    return { samples: this.#samples, means: new Ring(meanForm, stored), last: this.#last };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  async #create(): Promise<FileHandle> {
    const file = await open(this.#path, 'w+', 0o600);
    try {
      await file.truncate(seriesBytes);
      await writeAll(file, this.#samples.bytes, headerBytes);
      await writeAll(file, header, 0);
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#stored.clear();
    this.#file = file;
    return file;
  }

  async #forgetAfter(step: number): Promise<void> {
    this.#isBehind = this.#samples.forgetAfter(step) || this.#isBehind;
    const bucket = meanStepOf(step);
    for (const one of this.#stored.keys()) if (one >= bucket) this.#stored.delete(one);
    const { means } = await this.read();
    if (means.forgetAfter(bucket - 1) && this.#file !== undefined) await writeAll(this.#file, means.bytes, meansAt);
  }

  /** Stores the means of the steps before `present` of which there are more samples than when they were stored. */
  async #storeMeans(file: FileHandle, steps: ReadonlySet<number>, present: number): Promise<void> {
    for (const step of steps) {
      const mean = step < present ? meanOfSamples(this.#samples, step) : undefined;
      if (mean === undefined || mean.count <= (this.#stored.get(step) ?? 0)) continue;
      await writeAll(file, encodeSlot(meanForm, step, mean), meansAt + offsetOf(meanForm, step));
      this.#stored.set(step, mean.count);
    }
    for (const step of this.#stored.keys()) if (!steps.has(step)) this.#stored.delete(step);
  }
}

/** The step of 5 minutes in which a sample lies. */
function meanStepOf(sample: number): number {
  return stepOf(meanForm, sample * sampleMs);
}

/** The steps of 5 minutes whose samples may be kept together with that one, up to its own. */
function meansUpTo(sample: number): number[] {
  const last = meanStepOf(sample);
  const before = sampledForMs / meanMs;
  return Array.from({ length: before + 1 }, (_, n) => last - before + n);
}

/** @throws Error if not all can be written, as on a full disk */
async function writeAll(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
    if (bytesWritten === 0) throw new Error('The disk takes no more');
    done += bytesWritten;
  }
}
