import { surveyLimits, surveyTiming, valuesLimits } from '../../agent-protocol/survey.ts';
import type { Survey, SurveyedContainer, SurveyedValues, SurveyedVolume } from '../../agent-protocol/survey.ts';
import type { Clock } from '../../time/clock.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import type { ImageStore } from '../engine/image-store.ts';
import { deadline } from '../runtime/deadline.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { ContainerRuntime, Foreign } from '../runtime/runtime.ts';

/** Volumes that are measured: a walk of all their files takes long. */
const mostMeasured = 50;

export interface SurveyorDeps {
  runtime: Pick<ContainerRuntime, 'foreign' | 'foreignValues' | 'volumeUsage'>;
  images: Pick<ImageStore, 'isShared'>;
  clock: Clock;
}

/**
 * Lists what is on the machine that no agent made. It changes nothing. Surveys that are asked for at the same time are one.
 */
export class Surveyor {
  readonly #deps: SurveyorDeps;
  #surveying: Promise<Survey> | undefined;

  constructor(deps: SurveyorDeps) {
    this.#deps = deps;
  }

  /** @throws RuntimeFailure if the engine does not answer within `surveyTiming.surveyMs`; the signal's reason */
  survey(signal: AbortSignal): Promise<Survey> {
    this.#surveying ??= this.#survey().finally(() => (this.#surveying = undefined));
    return unlessAborted(this.#surveying, signal);
  }

  async #survey(): Promise<Survey> {
    const { runtime, images, clock } = this.#deps;
    const never = new AbortController().signal;
    const found = await inTime(clock, surveyTiming.surveyMs, never, (signal) => runtime.foreign(signal));
    const containers = found.containers.map((one) => {
      return { ...one, image: { ...one.image, is_shared: images.isShared(one.image.name) } };
    });
    const volumes = await this.#measured(found.volumes, containers);
    return fitting({ containers, volumes, truncated: found.truncated });
  }

  /**
   * The values of the variables of these containers, by id. Containers that are gone or that an agent made are left out, and
   * the values of those that the answer has no room for. @throws RuntimeFailure if the engine does not answer within
   * `surveyTiming.valuesMs`; the signal's reason
   */
  async values(ids: readonly string[], signal: AbortSignal): Promise<SurveyedValues> {
    const { runtime, clock } = this.#deps;
    const found = await inTime(clock, surveyTiming.valuesMs, signal, (limited) => runtime.foreignValues(ids, limited));
    let room: number = valuesLimits.bytes;
    const containers = found.map(({ id, env }) => {
      const bytes = Buffer.byteLength(JSON.stringify({ id, env })) + 1;
      if (bytes > room) return { id };
      room -= bytes;
      return { id, env };
    });
    return { containers };
  }

  /** Measures volumes one after another while there is time, those that a container mounts first. */
  async #measured(volumes: Foreign['volumes'], containers: readonly SurveyedContainer[]): Promise<SurveyedVolume[]> {
    const { runtime, clock } = this.#deps;
    const never = new AbortController().signal;
    using limit = deadline(clock, surveyTiming.measureMs, 'Measuring volumes', never);
    const used = new Set(containers.flatMap(({ mounts }) => mounts.map(({ source }) => source)));
    const order = volumes.toSorted((a, b) => Number(used.has(b.name)) - Number(used.has(a.name)));
    const measured: SurveyedVolume[] = [];
    for (const [at, one] of order.entries()) {
      const isLate = at >= mostMeasured || limit.signal.aborted;
      // a volume that cannot be measured is shown without its size
      const measuring = isLate ? undefined : runtime.volumeUsage(one.name, limit.signal);
      const bytes = measuring && (await unlessAborted(measuring, limit.signal).catch(() => undefined));
      measured.push({ ...one, ...(bytes !== undefined && { bytes }) });
    }
    return measured;
  }
}

/** @throws RuntimeFailure if the engine does not answer in time; the signal's reason */
async function inTime<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  using limit = deadline(clock, ms, 'The survey', signal);
  try {
    return await unlessAborted(ask(limit.signal), limit.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!limit.signal.aborted) throw error;
    const message = `The container engine did not answer within ${ms / 1000} s: look again, and examine the server if it stays so`;
    throw new RuntimeFailure('runtime_unavailable', message, { retryable: true, cause: error });
  }
}

/** The survey, with as many containers and volumes as there is room for in a frame. */
function fitting({ containers, volumes, truncated }: Survey): Survey {
  let room = surveyLimits.bytes;
  const fits = (one: object): boolean => (room -= Buffer.byteLength(JSON.stringify(one)) + 1) >= 0;
  const kept = { containers: containers.filter(fits), volumes: volumes.filter(fits) };
  const isWhole = kept.containers.length === containers.length && kept.volumes.length === volumes.length;
  return { ...kept, truncated: truncated || !isWhole };
}
