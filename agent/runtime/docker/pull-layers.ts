import { z } from 'zod';
import type { PullProgress } from '../runtime.ts';

/** One line of the engine's answer to a pull. */
export const PullLine = z.object({
  error: z.string().optional(),
  status: z.string().optional(),
  id: z.string().optional(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).nullish(),
});
type PullLine = z.infer<typeof PullLine>;

interface Layer {
  bytes: number;
  /** The engine may leave it out, also to the end: it tells the newest of what it did, and no more. */
  total: number | undefined;
  isDone: boolean;
  isPresent: boolean;
}

/** Most layers that are counted: images have far fewer. */
const maxLayers = 1000;

type Stage = 'waiting' | 'downloading' | 'downloaded' | 'pulled' | 'present';

/** What the engine says of a layer. */
const stages: ReadonlyMap<string, Stage> = new Map([
  ['Pulling fs layer', 'waiting'],
  ['Waiting', 'waiting'],
  ['Downloading', 'downloading'],
  ['Verifying Checksum', 'downloaded'],
  ['Download complete', 'downloaded'],
  ['Extracting', 'downloaded'],
  ['Pull complete', 'pulled'],
  ['Already exists', 'present'],
]);

/** Adds up what the engine reports of the layers of one pull. */
export class PullLayers {
  readonly #layers = new Map<string, Layer>();

  /** Returns how far the pull is; `undefined` if the line is not about a layer. */
  add({ id, status, progressDetail }: PullLine): PullProgress | undefined {
    const stage = stages.get(status ?? '');
    if (id === undefined || stage === undefined) return undefined;
    const before = this.#layers.get(id) ?? { bytes: 0, total: undefined };
    const total = stage === 'present' ? 0 : (before.total ?? progressDetail?.total);
    const downloaded = stage === 'downloading' ? progressDetail?.current : stage === 'waiting' ? undefined : total;
    if (this.#layers.has(id) || this.#layers.size < maxLayers)
      this.#layers.set(id, {
        bytes: downloaded ?? before.bytes,
        total,
        isDone: stage === 'pulled' || stage === 'present',
        isPresent: stage === 'present',
      });
    return this.#sum();
  }

  #sum(): PullProgress {
    const layers = [...this.#layers.values()];
    return {
      layers: layers.length,
      layersDone: layers.filter(({ isDone }) => isDone).length,
      layersPresent: layers.filter(({ isPresent }) => isPresent).length,
      bytes: layers.reduce((sum, { bytes }) => sum + bytes, 0),
      totalBytes: layers.reduce<number | undefined>(
        (sum, { total }) => (sum === undefined || total === undefined ? undefined : sum + total),
        0,
      ),
    };
  }
}
