import { z } from 'zod';
import { RuntimeFailure, type ContainerRuntime, type LocalImage, type RegistryLogin } from '../runtime.ts';
import { imageParts, imageReference, registryOf, type ImageReference } from '../image-reference.ts';
import type { Engine } from './engine.ts';
import { fail, failureOf, isStatus, type Fallback } from './failure.ts';
import { jsonLines } from './json-lines.ts';
import { PullLayers, PullLine } from './pull-layers.ts';
import { EngineError } from './transport.ts';

const slowMs = 120_000;

/** The names of a listed image, with their tags. Some engines list one without a name as `<none>:<none>`. */
export const tagNames = z
  .array(z.string())
  .nullish()
  .transform((given) => (given ?? []).filter((name) => !name.startsWith('<none>')));

const Inspected = z.object({
  Id: z.string(),
  RepoDigests: z.array(z.string()).nullish(),
  Config: z
    .object({
      Labels: z.record(z.string(), z.string()).nullish(),
      OnBuild: z.array(z.string()).nullish(),
      Entrypoint: z.array(z.string()).nullish(),
      Cmd: z.array(z.string()).nullish(),
    })
    .nullish(),
});
const Listed = z.array(
  z.object({
    Id: z.string(),
    RepoTags: tagNames,
    Created: z.number(),
    Labels: z.record(z.string(), z.string()).nullable(),
  }),
);

type Verbs = Pick<ContainerRuntime, 'image' | 'pull' | 'images' | 'removeImage'>;

/** The image verbs of the runtime. */
export function images(engine: Engine): Verbs {
  return {
    image: async (reference, signal) => inspectImage(engine, imageReference(reference), signal),

    async pull(image, signal, seen) {
      const { reference: text, login } = typeof image === 'string' ? { reference: image, login: undefined } : image;
      const reference = imageReference(text);
      const fallback: Fallback = {
        code: 'image_pull_failed',
        attempted: `Cannot pull image ${reference}`,
        codes: ['image_not_found', 'no_space'],
      };
      const layers = new PullLayers();
      let served: string | undefined;
      try {
        for await (const line of jsonLines(await pulling(engine, reference, login, signal))) {
          const parsed = PullLine.parse(line);
          const { error, status } = parsed;
          served = /^Digest: (sha256:[0-9a-f]{64})$/.exec(status ?? '')?.[1] ?? served;
          if (error !== undefined) throw pullFailure(failureOf(error, true, fallback), reference, login);
          const progress = seen && layers.add(parsed);
          if (progress !== undefined) seen?.(progress);
        }
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        throw pullFailure(failureOf(error.reason, error.status >= 500, fallback, { cause: error }), reference, login);
      }
      const pulled = await inspectImage(engine, reference, signal, served);
      if (pulled) return pulled;
      throw new RuntimeFailure('image_pull_failed', `Image ${reference} was removed while it was pulled`, {
        retryable: true,
      });
    },

    async images(labels, signal) {
      const filters = JSON.stringify({ label: Object.entries(labels).map(([name, value]) => `${name}=${value}`) });
      const listed = Listed.parse(
        await engine.call({ method: 'GET', path: ['images', 'json'], query: { filters } }, signal),
      );
      return listed
        .toSorted((a, b) => b.Created - a.Created)
        .map(({ Id, RepoTags, Created, Labels }) => {
          return { id: Id, names: RepoTags, labels: Labels ?? {}, madeAt: Created * 1000 };
        });
    },

    async removeImage(id, signal) {
      try {
        const path = ['images', imageReference(id)];
        await engine.call({ method: 'DELETE', path, timeoutMs: slowMs }, signal);
      } catch (error) {
        // 409: a container, another image or another name still uses the image.
        if (!isStatus(error, 404, 409)) {
          fail(error, { code: 'runtime_unavailable', attempted: `Cannot remove image ${id}`, codes: [] });
        }
      }
    },
  };
}

/** Returns the image; `undefined` if the engine does not have it, or, with `served`, not with that digest. */
export async function inspectImage(
  engine: Engine,
  reference: ImageReference,
  signal: AbortSignal,
  served?: string,
): Promise<LocalImage | undefined> {
  try {
    const answer = await engine.call({ method: 'GET', path: ['images', reference, 'json'] }, signal);
    const { Id, RepoDigests, Config } = Inspected.parse(answer);
    const repository = imageParts(reference)?.repository;
    const digests = (RepoDigests ?? []).toSorted().filter((one) => served === undefined || one.endsWith(`@${served}`));
    if (served !== undefined && digests.length === 0) return undefined;
    const isOwn = (one: string): boolean => repository === undefined || one.startsWith(`${repository}@`);
    return {
      id: Id,
      digest: digests.find(isOwn) ?? Id,
      labels: Config?.Labels ?? {},
      onBuild: Config?.OnBuild ?? [],
      program: [...(Config?.Entrypoint ?? []), ...(Config?.Cmd ?? [])],
    };
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

/**
 * Replaces the registry's answer by the product's own message. The answer may come from a service that is no registry,
 * so that it goes only into the agent's log.
 */
function pullFailure(
  cause: RuntimeFailure,
  reference: ImageReference,
  login: RegistryLogin | undefined,
): RuntimeFailure {
  const { code, retryable } = cause;
  const message = `Cannot pull image ${reference}: ${pullReason(cause, registryOf(reference), login)}`;
  return new RuntimeFailure(code, message, { retryable, cause });
}

/** Why the pull failed, and what to do. */
function pullReason({ code, retryable }: RuntimeFailure, registry: string, login: RegistryLogin | undefined): string {
  if (code === 'image_not_found')
    return `registry ${registry} has no such image: compare its name and tag with those in the registry`;
  if (code === 'no_space')
    return "no space is left on the server's disk: free some there, or by `setpoint heal SERVER`";
  if (retryable)
    return `registry ${registry} does not answer as a registry: check that it runs and that the server reaches it; the log of the server's agent has the cause`;
  if (login === undefined)
    return `registry ${registry} refuses it: it does not exist, or needs credentials: give the application a registry_id`;
  return `registry ${registry} refuses the login of ${login.username}, or has no such image for it: test it by \`setpoint test registry NAME\``;
}

function pulling(
  engine: Engine,
  reference: ImageReference,
  login: RegistryLogin | undefined,
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const parts = imageParts(reference);
  if (!parts) {
    const message = `Image ${reference} is not on this server, and an image id cannot be pulled`;
    throw new RuntimeFailure('image_not_found', message, { retryable: false });
  }
  const query = { fromImage: parts.repository, tag: parts.digest ?? parts.tag ?? 'latest' };
  const headers = login === undefined ? undefined : { 'x-registry-auth': authOf(login) };
  return engine.open(
    { method: 'POST', path: ['images', 'create'], query, timeoutMs: slowMs, ...(headers && { headers }) },
    signal,
  );
}

/** The login in the form of the engine's API, which expects the padding that `base64url` leaves out. */
function authOf({ registry, username, password }: RegistryLogin): string {
  return Buffer.from(JSON.stringify({ username, password, serveraddress: registry }))
    .toString('base64')
    .replaceAll('+', '-')
    .replaceAll('/', '_');
}
