import { z } from 'zod';
import { defined } from '../defined.ts';
import type { DeepReadonly } from '../deep-readonly.ts';
import type { SealedValue, WordsName } from './define.ts';
import { Id, Port, Sealed } from './fields.ts';
import { Ulimits } from './ulimits.ts';

/** Most bytes of a compose file. Its record, and that of each deployment, is below the limit of the store. */
export const maxComposeBytes = 256 * 1024;

/** What a dependency must have come to before the service that needs it is started. */
export const DependencyCondition = z.enum(['service_started', 'service_healthy', 'service_completed_successfully']);
export type DependencyCondition = z.infer<typeof DependencyCondition>;

/** Where a path of a service gets what is mounted there. `volume` is a name of the compose file. */
export const ComposedMount = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('volume'),
    volume: z.string(),
    path: z.string(),
    read_only: z.boolean(),
    copy: z.boolean(),
  }),
  z.object({ type: z.literal('tmpfs'), path: z.string(), size_bytes: z.int(), mode: z.int() }),
]);
export type ComposedMount = z.infer<typeof ComposedMount>;

/** How a service tells that it is ready: its own command, or that of its image. */
const composedHealthcheck = <Words extends z.ZodType>(words: Words) =>
  z.object({
    /** Absent: the health check of the image, with the image's own times. */
    command: words.optional(),
    /** No check at all, also none of the image. Earlier releases take it for that of the image. */
    none: z.literal(true).optional(),
    interval_seconds: z.int(),
    timeout_seconds: z.int(),
    failures: z.int(),
    start_seconds: z.int(),
  });
export const ComposedHealthcheck = composedHealthcheck(z.array(z.string()).min(1));
export type ComposedHealthcheck = z.infer<typeof ComposedHealthcheck>;

/** A file that a service is given. `content` in the form of the place where it lies. */
const composedFile = <Value extends z.ZodType>(value: Value) =>
  z.object({
    path: z.string(),
    mode: z.int(),
    uid: z.int(),
    gid: z.int(),
    content: value.optional(),
    /** Absent: it is text. */
    encoding: z.literal('base64').optional(),
    /** Path in the repository of the compose file, where the content is not in the compose file itself. */
    repository_path: z.string().optional(),
  });

/** An image that is built from the repository of the compose file. */
const composedBuild = <Value extends z.ZodType>(value: Value) =>
  z.object({
    context: z.string(),
    dockerfile_path: z.string(),
    dockerfile: z.string().optional(),
    args: z.record(z.string(), value),
    target: z.string().optional(),
  });

/**
 * One service of a compose file: only what the allow-list has. `value`: how values of variables, arguments and files
 * lie, and `words`: how commands do. Both are plain where a file was just read, and sealed in the store.
 */
const composedService = <Value extends z.ZodType, Words extends z.ZodType>(value: Value, words: Words) =>
  z.object({
    name: z.string(),
    /** Absent where it is built. */
    image: z.string().optional(),
    build: composedBuild(value).optional(),
    entrypoint: words.optional(),
    command: words.optional(),
    env: z.record(z.string(), value),
    /** Files of the repository with further variables, which `env` precedes. */
    env_files: z.array(z.object({ path: z.string(), required: z.boolean(), raw: z.literal(true).optional() })),
    /** Ports that its process listens on; `publish`: port of the server that leads there. */
    ports: z.array(z.object({ port: Port, publish: Port.optional() })),
    mounts: z.array(ComposedMount),
    files: z.array(composedFile(value)),
    depends_on: z.array(z.object({ service: z.string(), condition: DependencyCondition })),
    /** Absent: that of the image, or for the service that requests are for that of the application. */
    healthcheck: composedHealthcheck(words).optional(),
    restart_policy: z.enum(['always', 'on-failure', 'no']),
    replicas: z.int(),
    limits: z.object({
      memory_bytes: z.int().optional(),
      nano_cpus: z.int().optional(),
      processes: z.int().optional(),
      shm_bytes: z.int().optional(),
      ulimits: Ulimits.optional(),
    }),
    networks: z.array(z.object({ name: z.string(), aliases: z.array(z.string()) })),
    user: z.string().optional(),
    working_dir: z.string().optional(),
    stop_signal: z.string().optional(),
    grace_seconds: z.int(),
    read_only_root: z.boolean(),
    init: z.boolean(),
    capabilities: z.object({ drop: z.array(z.string()), add: z.array(z.string()) }),
  });

/** A service as a compose file declares it, with its values as they are. */
export const PlainComposedService = composedService(z.string(), z.array(z.string()));
export type PlainComposedService = z.infer<typeof PlainComposedService>;

/** Whether an instance of the service may write to a volume: then there is one, and it ends before its successor starts. */
export function isWriting({ mounts }: DeepReadonly<Pick<PlainComposedService, 'mounts'>>): boolean {
  return mounts.some((mount) => mount.type === 'volume' && !mount.read_only);
}

/** The words of a command as JSON, sealed. Earlier releases stored them in plain text, and such records stay as they are. */
const StoredWords = z.union([Sealed, z.array(z.string())]);

/** A service of a deployment. Its values are sealed for the application, see {@link composedPath}. */
export const StoredComposedService = composedService(Sealed, StoredWords).extend({
  /**
   * Names the settings: the deployment that brought them. Later deployments that change nothing of the service have the
   * same one, so that its instances go on.
   */
  version: Id,
  /** Present: the image is this one, whatever its tag names by now. */
  image_digest: z.string().optional(),
});
export type StoredComposedService = z.infer<typeof StoredComposedService>;

/** The place of the values of a service among the fields of its application: `<path>.env.<name>`. */
export function composedPath(service: string): string {
  return `services.${service}`;
}

type Stored = DeepReadonly<StoredComposedService>;

/** The words of a command that an earlier release stored in plain text; `undefined`: there is none, or it is sealed. */
export function plainWords(words: Stored['command']): string[] | undefined {
  return words !== undefined && isPlain(words) ? [...words] : undefined;
}

/** The sealed commands of a service, by the names that they have in its configuration. */
export function sealedWords({ command, entrypoint, healthcheck }: Stored): Partial<Record<WordsName, SealedValue>> {
  const sealed = (words: Stored['command']) => (words === undefined || isPlain(words) ? undefined : words);
  return defined({ command: sealed(command), entrypoint: sealed(entrypoint), probe: sealed(healthcheck?.command) });
}

function isPlain(words: NonNullable<Stored['command']>): words is readonly string[] {
  return Array.isArray(words);
}

/** Whether an image is to be made for a service of a deployment. */
export function isToBuild({ build, image_digest }: Stored): boolean {
  return build !== undefined && image_digest === undefined;
}

/** The role of the task that builds a service, among those of its deployment. */
export function buildRole(service: string): string {
  return `build/${service}`;
}
