import { z } from 'zod';

/** Bounds of an answer to `survey`: what is beyond them is left out, and the answer says that it is not complete. */
export const surveyLimits = {
  containers: 500,
  volumes: 500,
  /** Items of each list of one container, but for its variables. */
  list: 100,
  variables: 500,
  chars: 1000,
  /** Characters of a command, as an application can have one. */
  commandChars: 4096,
  /** Bytes of the answer as JSON: it fits into one frame. */
  bytes: 768 * 1024,
} as const;

/** The agent answers within this time, whatever hangs on its machine. */
export const surveyTiming = { surveyMs: 15_000, measureMs: 4_000, valuesMs: 10_000 } as const;

/** Bounds of a call of `survey.values`. */
export const valuesLimits = {
  containers: 32,
  /** Bytes of the answer as JSON: it fits into one frame. */
  bytes: 768 * 1024,
} as const;

/** Stands where a word of a command looks like a secret: the word stays on the server. */
export const withheld = '********';

const Text = z.string().max(surveyLimits.chars);
const listOf = <T extends z.ZodType>(item: T) => z.array(item).max(surveyLimits.list);
const PortNumber = z.int().min(0).max(65_535);

/** A container that no agent made. It has the names of its variables and never their values. */
export const SurveyedContainer = z.object({
  id: z.string().max(128),
  name: Text,
  /** A word of the engine: `running`, `exited`. */
  state: z.string().max(64),
  exit_code: z.int(),
  /** RFC 3339; empty if it never ran. */
  started_at: z.string().max(64),
  image: z.object({
    /** As the container was made with. */
    name: Text,
    id: z.string().max(128),
    /** Digests by which registries know it, `REPOSITORY@sha256:…`. */
    digests: listOf(Text),
    /** The engine has it. */
    is_here: z.boolean(),
    /** The operator of the machine lets every project use the image of this name without a registry. */
    is_shared: z.boolean(),
  }),
  /** Labels that say who made it, and by which name. */
  labels: z.record(Text, Text),
  /** Absent: that of the image. Words that look like secrets are withheld. */
  command: listOf(z.string().max(surveyLimits.commandChars)).optional(),
  /** Names of the variables that it does not have from its image. */
  env: z.array(Text).max(surveyLimits.variables),
  /** Ports of the server that lead to it; `server_port` is 0 where the engine chooses one at each start. */
  ports: listOf(
    z.object({ port: PortNumber, protocol: z.string().max(16), server_port: PortNumber, address: z.string().max(64) }),
  ),
  /** TCP ports that its image or its user names. */
  exposed: listOf(PortNumber),
  mounts: listOf(
    z.object({
      /** `volume`, `bind`, `tmpfs`; a text, as engines have others. */
      type: z.string().max(32),
      /** Name of the volume, or path on the server. */
      source: Text,
      path: Text,
      read_only: z.boolean(),
    }),
  ),
  networks: listOf(Text),
  /** Its health check; `port` and `path` if that is a request to itself. */
  health: z.object({ port: PortNumber.optional(), path: Text.optional() }).optional(),
  /** `no`, `always`, `unless-stopped`, `on-failure`. */
  restart: z.string().max(32),
  /** 0: no limit. */
  memory_bytes: z.int(),
  nano_cpus: z.int(),
  /** Further settings, by stable names, with what they are set to. Agents of later releases may send others. */
  settings: listOf(z.object({ name: z.string().max(64), value: Text })),
});
export type SurveyedContainer = z.infer<typeof SurveyedContainer>;

/** A volume that no agent made. */
export const SurveyedVolume = z.object({
  name: Text,
  driver: Text,
  /** The engine gave it its name. */
  is_anonymous: z.boolean(),
  /** The compose project that made it. */
  project: Text.optional(),
  /** Absent: it was not measured, or not in time. */
  bytes: z.int().optional(),
});
export type SurveyedVolume = z.infer<typeof SurveyedVolume>;

/** Answer to `survey`. Running containers come first. */
export const Survey = z.object({
  containers: z.array(SurveyedContainer).max(surveyLimits.containers),
  volumes: z.array(SurveyedVolume).max(surveyLimits.volumes),
  /** There is more, or something could not be read. */
  truncated: z.boolean(),
});
export type Survey = z.infer<typeof Survey>;

/** Answer to `survey.values`. It lacks containers that are gone, and those that an agent made. Never logged. */
export const SurveyedValues = z.object({
  containers: z
    .array(
      z.object({
        id: z.string().max(128),
        /** Values of the variables that it does not have from its image; absent if the answer has no room for them. */
        env: z.record(z.string(), z.string()).optional(),
      }),
    )
    .max(valuesLimits.containers),
});
export type SurveyedValues = z.infer<typeof SurveyedValues>;
