import type { Clock } from '../../time/clock.ts';
import { byteSize } from '../runtime/byte-size.ts';
import type { LocalImage, PullProgress } from '../runtime/runtime.ts';

/** Time between two lines about a pull that goes on. */
const everyMs = 5_000;

/** What the pulls of one image for one workload that run at the same time have in common. */
interface Together {
  pulls: number;
  /** The pull that writes lines. */
  writer: PullLog | undefined;
  /** When the last line was written, in milliseconds of the monotonic clock. */
  lastAt: number;
}

/** Lines about one pull: its begin, its progress every 5 s, its end. It is disposed when the pull has ended in any way. */
export interface PullLog extends Disposable {
  seen(progress: PullProgress): void;
  pulled(image: LocalImage): void;
}

/**
 * Writes about pulls. Of pulls of one image for one workload that run at the same time, as those of its replicas, one
 * writes; another one goes on if that fails.
 */
export class PullLogs {
  readonly #clock: Clock;
  readonly #running = new Map<string, Together>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(workload: string, image: { reference: string; registry: string }, line: (text: string) => void): PullLog {
    const clock = this.#clock;
    const begunAt = clock.monotonic();
    const key = `${workload} ${image.reference}`;
    const together = this.#running.get(key) ?? { pulls: 0, writer: undefined, lastAt: begunAt };
    this.#running.set(key, together);
    together.pulls += 1;
    let last: PullProgress | undefined;
    let bytesAtLine = 0;
    const log: PullLog = {
      seen: (progress) => {
        last = progress;
        const now = clock.monotonic();
        const passedMs = now - together.lastAt;
        if (passedMs < everyMs) return;
        together.writer ??= log;
        if (together.writer !== log) return;
        line(progressLine(image.reference, progress, perSecond(progress.bytes - bytesAtLine, passedMs)));
        together.lastAt = now;
        bytesAtLine = progress.bytes;
      },
      pulled: ({ digest }) => {
        if (together.writer === log) line(endLine(image.reference, digest, last, clock.monotonic() - begunAt));
      },
      [Symbol.dispose]: () => {
        if (together.writer === log) together.writer = undefined;
        together.pulls -= 1;
        if (together.pulls === 0) this.#running.delete(key);
      },
    };
    if (together.pulls === 1) {
      together.writer = log;
      line(`Pulling image ${image.reference} from registry ${image.registry}`);
    }
    return log;
  }
}

function progressLine(
  reference: string,
  { layers, layersDone, bytes, totalBytes }: PullProgress,
  rate: string,
): string {
  const size = totalBytes === undefined ? byteSize(bytes) : `${byteSize(bytes)} of ${byteSize(totalBytes)}`;
  return `Pulling image ${reference}: ${layersDone} of ${layers} layers, ${size}, ${rate}`;
}

function endLine(reference: string, digest: string, progress: PullProgress | undefined, tookMs: number): string {
  const end = `Pulled image ${reference} as ${digest.slice(digest.indexOf('@') + 1)}`;
  if (progress === undefined || progress.layersPresent === progress.layers) return `${end}: the server had all of it`;
  const { layers, bytes, totalBytes } = progress;
  const count = `${layers} ${layers === 1 ? 'layer' : 'layers'}`;
  const seconds = `in ${(tookMs / 1000).toFixed(1)}s`;
  if (totalBytes === undefined) return `${end}: ${count} ${seconds}`;
  return `${end}: ${count}, ${byteSize(bytes)} ${seconds}, ${perSecond(bytes, tookMs)}`;
}

function perSecond(bytes: number, ms: number): string {
  return `${byteSize((bytes * 1000) / Math.max(1, ms))}/s`;
}
