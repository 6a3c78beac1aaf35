import { z } from 'zod';

/** The service of a workload that has only one. */
export const mainService = 'main';

/** The port of a service that has only one. Agents of earlier releases can be sent no port of another name. */
export const mainPort = 'main';

/** A number of a TCP port. */
const PortNumber = z.int().min(1).max(65535);

/** A port that the process of an instance listens on. */
const ServicePort = z.object({
  /** Unique within the service: routes refer to it. */
  name: z.string(),
  port: PortNumber,
  /** Port of the server that leads to this port of the ready instances. */
  publish: PortNumber.optional(),
});
type ServicePort = z.infer<typeof ServicePort>;

/** A network that an instance is in. Instances reach each other by alias within one network. */
const ServiceNetwork = z.object({ name: z.string(), aliases: z.array(z.string()) });
type ServiceNetwork = z.infer<typeof ServiceNetwork>;

/** What is mounted into an instance. `path` is absolute, and unique within the service. */
export const Mount = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('volume'),
    /** Name of the volume at the engine. */
    volume: z.string(),
    path: z.string(),
    /** At most one instance has a volume mounted for writing. */
    read_only: z.boolean().default(false),
    /** The engine fills an empty volume with what the image has at `path`, which images with data of their own expect. */
    copy: z.boolean().default(true),
  }),
  z.object({ type: z.literal('tmpfs'), path: z.string(), size_bytes: z.int(), mode: z.int().default(0o1777) }),
]);
export type Mount = z.infer<typeof Mount>;

/** A file of an instance. Its content is in the configuration, under the same path. */
export const ServiceFile = z.object({
  path: z.string(),
  mode: z.int().default(0o444),
  /** Ids of its owner in the container. */
  uid: z.int().default(0),
  gid: z.int().default(0),
});
export type ServiceFile = z.infer<typeof ServiceFile>;

const probeTiming = {
  /** Time between two probes of a ready instance. */
  interval_seconds: z.int().min(1).default(10),
  /** Time after which an unanswered probe has failed. */
  timeout_seconds: z.int().min(1).default(5),
  /** Failures in a row after which a ready instance is not ready. */
  failures: z.int().min(1).default(3),
  /** Successes in a row after which an instance is ready. */
  successes: z.int().min(1).default(1),
  /** Time from the start of the process within which failures are not reported. */
  start_seconds: z.int().min(0).default(30),
};

/** How the agent asks whether an instance is ready. `port`: where its process listens. */
export const Probe = z.discriminatedUnion('type', [
  /** GET of `path`: 2xx and 3xx mean ready. */
  z.object({ type: z.literal('http'), port: PortNumber, path: z.string(), ...probeTiming }),
  /** A connection that is accepted means ready. */
  z.object({ type: z.literal('tcp'), port: PortNumber, ...probeTiming }),
  /** A command in the container: exit code 0 means ready. */
  z.object({ type: z.literal('command'), command: z.array(z.string()).min(1), ...probeTiming }),
  /** The health check of the image, which the engine carries out with the image's own times. */
  z.object({ type: z.literal('image'), ...probeTiming }),
]);
export type Probe = z.infer<typeof Probe>;

/** Limits of an instance. An absent one has the default of the agent. */
export const Limits = z.object({
  memory_bytes: z.int().optional(),
  /** Billionths of a processor. */
  nano_cpus: z.int().optional(),
  /** Processes and threads. */
  processes: z.int().optional(),
  /** Bytes that it may write outside of its volumes. */
  storage_bytes: z.int().optional(),
  /** The kernel ends processes with a high score first when memory is short. */
  oom_score_adj: z.int().min(0).max(1000).optional(),
  /** Size of `/dev/shm`. */
  shm_bytes: z.int().optional(),
});
export type Limits = z.infer<typeof Limits>;

/**
 * Capabilities of the kernel that an instance has unless it drops them. It can have no other. They are the default of
 * container engines without NET_RAW, by which an instance could impersonate others in its network, and MKNOD, by which
 * it could reach the disks.
 */
export const Capability = z.enum([
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'NET_BIND_SERVICE',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
]);
export type Capability = z.infer<typeof Capability>;

export const RestartPolicy = z.enum(['always', 'on-failure', 'no']);
export type RestartPolicy = z.infer<typeof RestartPolicy>;

/**
 * How one instance of a service runs, in the store and on the wire. It has no secrets: these are in the configuration,
 * which all instances of a version share. `config` refers to it, in the form of the store or of the wire.
 */
export const service = <Reference extends z.ZodType>(config: Reference) =>
  z.object({
    type: z.literal('service'),
    /** Index of the slot within its version, from 0. */
    slot: z.int(),
    image: z.string(),
    /** Image id or repository digest that must run; absent until the first pull resolved it. */
    image_digest: z.string().optional(),
    /** Replaces the entrypoint of the image. */
    entrypoint: z.array(z.string()).optional(),
    command: z.array(z.string()).optional(),
    config: config.optional(),
    /** Probes and published ports use the first one. */
    networks: z.tuple([ServiceNetwork], ServiceNetwork),
    ports: z.array(ServicePort).default([]),
    mounts: z.array(Mount).default([]),
    files: z.array(ServiceFile).default([]),
    /** Absent: the instance is ready once it has run for 10 s. */
    probe: Probe.optional(),
    limits: Limits.default({}),
    /** User in the container, as `USER[:GROUP]` in names or numbers; absent: the image's own. */
    user: z.string().optional(),
    read_only_root: z.boolean().default(false),
    /** What is dropped from its capabilities, and then what it has all the same. */
    capabilities: z
      .object({ drop: z.array(z.union([Capability, z.literal('ALL')])), add: z.array(Capability) })
      .default({ drop: [], add: [] }),
    restart_policy: RestartPolicy,
    /** A new value restarts the instance once. */
    restart_token: z.string().optional(),
    /** Signal that asks the process to end, such as `SIGINT`; absent: the image's own. */
    stop_signal: z.string().optional(),
    /** Time that the process has to end before it is killed. */
    grace_seconds: z.int().default(10),
  });

/**
 * A volume of the server. `run: 'stopped'` removes it with its data. An item that is only dropped leaves the volume as
 * it is, so that no loss of records can remove data.
 */
export const volume = z.object({
  type: z.literal('volume'),
  /** Name of the volume at the engine. */
  volume: z.string(),
});

/**
 * A volume that begins as a copy of a volume of the server that no agent made. It is there once all of that is copied.
 * The type is not `volume`, so that an agent or a replica of an earlier release never makes an empty volume of it.
 */
export const copiedVolume = z.object({
  type: z.literal('copied_volume'),
  /** Name of the volume at the engine. */
  volume: z.string(),
  copy_from: z.object({
    /** Name of the original at the engine. */
    docker_volume: z.string(),
    /** Containers that mounted it when the volume was created. */
    containers: z.array(z.string()),
  }),
});

/** A word in a task's progress. There is no list of all words: other releases, and later types of tasks, have others. */
const ProgressWord = z.string().regex(/^[a-z][a-z0-9_]{0,31}$/);

/** How far a running task is. */
export const Progress = z.object({
  /** What it does now, such as `cloning`. */
  step: ProgressWord,
  /** How much of the step is done, and how much it is in all, in `unit`. */
  done: z.int().min(0).optional(),
  total: z.int().min(0).optional(),
  /** Such as `steps` or `bytes`. */
  unit: ProgressWord.optional(),
});
export type Progress = z.infer<typeof Progress>;

/** State of an assignment. A task ends as `succeeded`, `failed` or `lost`. */
export const phases = [
  'pending',
  'preparing',
  'starting',
  'running',
  'stopping',
  'stopped',
  'succeeded',
  'failed',
  'lost',
] as const;
