import type { Clock } from '../../../time/clock.ts';
import type { OutputChunk, OutputOptions } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { fail, isStatus } from './failure.ts';
import { frames } from './frames.ts';
import { inspectContainer } from './inspection.ts';
import { LiveOutput } from './live-output.ts';
import { record } from './record.ts';
import { beforeLive, type RecordedChunk } from './seam.ts';

/** Live output begins within this number of recorded chunks after the request to attach. */
const maxSeamChunks = 10_000;
/** The record, the live output and its end reach the agent within this time of each other. */
const settleMs = 200;

/** Attaches at once, before the caller reads, so that output right after the start of the container is not missed. */
export function output(
  engine: Engine,
  clock: Clock,
  id: string,
  options: OutputOptions,
  signal: AbortSignal,
): AsyncIterable<OutputChunk> {
  const stop = new AbortController();
  const before = new Date(clock.now().getTime() - 1).toISOString();
  const query = { stream: true, stdout: true, stderr: true };
  const call = { method: 'POST', path: ['containers', id, 'attach'], query } as const;
  const opening = engine.open(call, AbortSignal.any([signal, stop.signal]));
  opening.then(options.attached, () => undefined); // `read` throws the failure
  return read();

  async function* read(): AsyncGenerator<OutputChunk> {
    const source = await opening.catch((error: unknown) => {
      if (isStatus(error, 404)) return undefined;
      return fail(error, { code: 'runtime_unavailable', attempted: 'Cannot follow the output', codes: [] });
    });
    if (!source) return;
    try {
      const live = new LiveOutput(frames(source), clock);
      // Without a record the process is yet to start, however long that takes.
      if (options.since === undefined) return yield* live.drain(false);
      yield* recordUntil(live, options.since);
      options.recorded?.();
      const ended = !(await mayWrite(engine, id, signal));
      // If the attachment came after the end of the process, the live stream would wait for the next start.
      if (ended) await live.settle(settleMs);
      yield* live.drain(ended);
    } finally {
      stop.abort(new Error('The reader of the output went away'));
    }
  }

  async function* recordUntil(live: LiveOutput, since: string): AsyncGenerator<OutputChunk> {
    const young: RecordedChunk[] = [];
    for await (const chunk of record(engine, id, since, signal)) {
      if (chunk.at < before) yield chunk;
      else if (young.push(chunk) === maxSeamChunks) break;
    }
    if (young.length > 0) await live.settle(settleMs);
    yield* beforeLive(young, live.held);
  }
}

async function mayWrite(engine: Engine, id: string, signal: AbortSignal): Promise<boolean> {
  const state = (await inspectContainer(engine, id, signal))?.state;
  return state !== undefined && state !== 'exited' && state !== 'dead';
}
