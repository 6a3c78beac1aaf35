import { crc32 } from 'node:zlib';

/** Values that a series has at most. */
export const mostValues = 8;

/** What a slot of a ring holds: over `count` samples, `NaN` for a value that is not known. */
export interface Slot {
  count: number;
  means: readonly number[];
  maxima: readonly number[];
}

/** Shape of a ring. `hasMaxima` is false where a slot is one sample. */
export interface RingForm {
  stepMs: number;
  slots: number;
  hasMaxima: boolean;
}

/** Check, number of the step, count; then the values as 32-bit floats, which have seven digits. */
const headBytes = 12;

export function slotBytes({ hasMaxima }: RingForm): number {
  return headBytes + 4 * mostValues * (hasMaxima ? 2 : 1);
}

/** The number of the step in which an instant lies, in milliseconds since 1970. */
export function stepOf({ stepMs }: RingForm, at: number): number {
  return Math.floor(at / stepMs);
}

/** Where the slot of a step begins in its ring. */
export function offsetOf(form: RingForm, step: number): number {
  return (step % form.slots) * slotBytes(form);
}

/** The bytes of the slot of a step. */
export function encodeSlot(form: RingForm, step: number, { count, means, maxima }: Slot): Buffer {
  const slot = Buffer.alloc(slotBytes(form));
  slot.writeUInt32LE(step, 4);
  slot.writeUInt32LE(count, 8);
  for (let n = 0; n < mostValues; n++) {
    slot.writeFloatLE(means[n] ?? Number.NaN, headBytes + 4 * n);
    if (form.hasMaxima) slot.writeFloatLE(maxima[n] ?? Number.NaN, headBytes + 4 * (mostValues + n));
  }
  slot.writeUInt32LE(check(slot), 0);
  return slot;
}

/**
 * Slots by wall time: the slot of a step is its number modulo the number of slots, and holds that number. So a slot of
 * another round, a gap and a slot that a crash left half written (by its checksum) are all the same: nothing.
 */
export class Ring {
  readonly form: RingForm;
  readonly bytes: Buffer;

  /** `bytes` is what a file has of the ring; without it the ring is empty. */
  constructor(form: RingForm, bytes?: Buffer) {
    this.form = form;
    this.bytes = bytes ?? Buffer.alloc(form.slots * slotBytes(form));
  }

  /** Puts the slot of a step in the place of what was there. */
  put(step: number, slot: Slot): void {
    encodeSlot(this.form, step, slot).copy(this.bytes, offsetOf(this.form, step));
  }

  /** Returns `undefined` if there is nothing of that step. */
  get(step: number): Slot | undefined {
    const slot = this.#slot(offsetOf(this.form, step));
    if (slot.readUInt32LE(4) !== step || slot.readUInt32LE(0) !== check(slot)) return undefined;
    const means = Array.from({ length: mostValues }, (_, n) => slot.readFloatLE(headBytes + 4 * n));
    const maxima = this.form.hasMaxima
      ? Array.from({ length: mostValues }, (_, n) => slot.readFloatLE(headBytes + 4 * (mostValues + n)))
      : means;
    return { count: slot.readUInt32LE(8), means, maxima };
  }

  /** Empties every slot of a later step than that one. Returns whether there was any. */
  forgetAfter(step: number): boolean {
    let found = false;
    for (let n = 0; n < this.form.slots; n++) {
      const slot = this.#slot(n * slotBytes(this.form));
      if (slot.readUInt32LE(4) <= step) continue;
      slot.fill(0);
      found = true;
    }
    return found;
  }

  /** How many slots hold something that is not what was written: a crash cut the write, or the disk is damaged. */
  get damaged(): number {
    let count = 0;
    for (let n = 0; n < this.form.slots; n++) {
      const slot = this.#slot(n * slotBytes(this.form));
      if (slot.readUInt32LE(0) !== check(slot) && slot.some((byte) => byte !== 0)) count += 1;
    }
    return count;
  }

  /** The last step of which there is anything; `undefined` if the ring is empty. */
  get last(): number | undefined {
    let last: number | undefined;
    for (let n = 0; n < this.form.slots; n++) {
      const step = this.#slot(n * slotBytes(this.form)).readUInt32LE(4);
      if ((last === undefined || step > last) && this.get(step) !== undefined) last = step;
    }
    return last;
  }

  #slot(at: number): Buffer {
    return this.bytes.subarray(at, at + slotBytes(this.form));
  }
}

function check(slot: Buffer): number {
  return crc32(slot.subarray(4));
}

/** Sums up slots that follow each other. Returns `undefined` if there are none. */
export function together(slots: Iterable<Slot>): Slot | undefined {
  const sums = Array.from({ length: mostValues }, () => 0);
  const weights = Array.from({ length: mostValues }, () => 0);
  const maxima = Array.from({ length: mostValues }, () => Number.NaN);
  let count = 0;
  for (const slot of slots) {
    count += slot.count;
    for (let n = 0; n < mostValues; n++) {
      const mean = slot.means[n] ?? Number.NaN;
      const most = slot.maxima[n] ?? Number.NaN;
      if (Number.isNaN(mean)) continue;
      sums[n] = (sums[n] ?? 0) + mean * slot.count;
      weights[n] = (weights[n] ?? 0) + slot.count;
      const before = maxima[n] ?? Number.NaN;
      if (Number.isNaN(before) || most > before) maxima[n] = most;
    }
  }
  if (count === 0) return undefined;
  const means = sums.map((sum, n) => {
    const weight = weights[n] ?? 0;
    return weight === 0 ? Number.NaN : sum / weight;
  });
  return { count, means, maxima };
}

/**
 * Adds up what two series have at the same time. The maximum is at most the sum of their maxima, which need not have been
 * at one moment.
 */
export function added(a: Slot, b: Slot): Slot {
  return {
    count: Math.max(a.count, b.count),
    means: a.means.map((value, n) => plus(value, b.means[n])),
    maxima: a.maxima.map((value, n) => plus(value, b.maxima[n])),
  };
}

/** What is not known of one series does not hide what is known of another one. */
function plus(a: number, b = Number.NaN): number {
  if (Number.isNaN(a)) return b;
  return Number.isNaN(b) ? a : a + b;
}
