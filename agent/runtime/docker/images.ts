import { z } from 'zod';
import { RuntimeFailure, type ContainerRuntime, type ImageInfo } from '../runtime.ts';
import { imageParts, imageReference, type ImageReference } from '../image-reference.ts';
import type { Engine } from './engine.ts';
import { fail, failureOf, isStatus, type Fallback } from './failure.ts';
import { jsonLines } from './json-lines.ts';

const slowMs = 120_000;

const Inspected = z.object({ Id: z.string(), RepoDigests: z.array(z.string()).nullish() });
const Listed = z.array(
  z.object({ Id: z.string(), Created: z.number(), Labels: z.record(z.string(), z.string()).nullable() }),
);
const Progress = z.object({ error: z.string().optional() });

type Verbs = Pick<ContainerRuntime, 'image' | 'pull' | 'images' | 'removeImage'>;

/** The image verbs of the runtime. */
export function images(engine: Engine): Verbs {
  return {
    image: async (reference, signal) => inspectImage(engine, imageReference(reference), signal),

    async pull(text, signal) {
      const reference = imageReference(text);
      const fallback: Fallback = {
        code: 'image_pull_failed',
        attempted: `Cannot pull image ${reference}`,
        codes: ['image_not_found', 'no_space'],
      };
      try {
        for await (const line of jsonLines(await pulling(engine, reference, signal))) {
          const { error } = Progress.parse(line);
          if (error !== undefined) throw failureOf(error, true, fallback);
        }
      } catch (error) {
        fail(error, fallback);
      }
      const pulled = await inspectImage(engine, reference, signal);
      if (pulled) return pulled;
      throw new RuntimeFailure('image_not_found', `Image ${reference} was removed while it was pulled`, {
        retryable: true,
      });
    },

    async images(labels, signal) {
      const filters = JSON.stringify({ label: Object.entries(labels).map(([name, value]) => `${name}=${value}`) });
      const listed = Listed.parse(
        await engine.call({ method: 'GET', path: ['images', 'json'], query: { filters } }, signal),
      );
      return listed.toSorted((a, b) => b.Created - a.Created).map((one) => ({ id: one.Id, labels: one.Labels ?? {} }));
    },

    async removeImage(id, signal) {
      try {
        const path = ['images', imageReference(id)];
        await engine.call({ method: 'DELETE', path, timeoutMs: slowMs }, signal);
      } catch (error) {
        // 409: a container, another image or another name uses it.
        if (!isStatus(error, 404, 409)) {
          fail(error, { code: 'runtime_unavailable', attempted: `Cannot remove image ${id}`, codes: [] });
        }
      }
    },
  };
}

/** `undefined`: not here. */
export async function inspectImage(
  engine: Engine,
  reference: ImageReference,
  signal: AbortSignal,
): Promise<ImageInfo | undefined> {
  try {
    const answer = await engine.call({ method: 'GET', path: ['images', reference, 'json'] }, signal);
    const { Id, RepoDigests } = Inspected.parse(answer);
    const repository = imageParts(reference)?.repository;
    const digests = (RepoDigests ?? []).toSorted();
    const own = digests.find((one) => repository !== undefined && one.startsWith(`${repository}@`));
    return { id: Id, digest: own ?? digests[0] ?? Id };
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

function pulling(engine: Engine, reference: ImageReference, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
  const parts = imageParts(reference);
  if (!parts) {
    const message = `Image ${reference} is not on this server, and an image id cannot be pulled`;
    throw new RuntimeFailure('image_not_found', message, { retryable: false });
  }
  const query = { fromImage: parts.repository, tag: parts.digest ?? parts.tag ?? 'latest' };
  return engine.open({ method: 'POST', path: ['images', 'create'], query, timeoutMs: slowMs }, signal);
}
