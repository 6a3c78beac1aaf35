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
export const VolumeMount = z.object({
  type: z.literal('volume'),
  /** Name of the volume at the engine. */
  volume: z.string(),
  path: z.string(),
  /** At most one assignment has a volume mounted for writing. */
  read_only: z.boolean().default(false),
  /** The engine fills an empty volume with what the image has at `path`, which images with data of their own expect. */
  copy: z.boolean().default(true),
});

export type VolumeMount = z.infer<typeof VolumeMount>;

export const Mount = z.discriminatedUnion('type', [
  VolumeMount,
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
  /** GET of `path`: `status` means ready, or 2xx and 3xx. `host` is the header of that name, by default the address. */
  z.object({
    type: z.literal('http'),
    port: PortNumber,
    path: z.string(),
    host: z.string().optional(),
    status: z.int().optional(),
    ...probeTiming,
  }),
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
  /** Limits of its processes (`ulimit`), by name, such as `nofile`. */
  ulimits: z.record(z.string(), z.object({ soft: z.int(), hard: z.int() })).optional(),
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

/**
 * Capabilities of the kernel that no instance has by itself, and that may be granted to those of one application.
 * `NET_RAW`: raw packets, as `ping` sends them. `IPC_LOCK`: memory that is never swapped. `SYS_NICE`: the priority of its
 * own processes. Others would let an instance leave its container, or reach what is not of its workload.
 */
export const GrantedCapability = z.enum(['IPC_LOCK', 'NET_RAW', 'SYS_NICE']);
export type GrantedCapability = z.infer<typeof GrantedCapability>;

export const RestartPolicy = z.enum(['always', 'on-failure', 'no']);
export type RestartPolicy = z.infer<typeof RestartPolicy>;

/** The name of the network of the machine itself, which only the proxy of a server may be in. */
export const hostNetwork = 'host';

/** What makes a service the proxy of its server, which leads host names to instances. */
export const Ingress = z.object({
  http_port: PortNumber,
  https_port: PortNumber,
  /** Where certificates come from; absent: the usual public authority. */
  acme: z
    .object({
      /** URL of the directory of the authority. */
      directory: z.string().optional(),
      email: z.string().optional(),
      /** Certificates of the authority's own server, in PEM; absent: those that the image trusts. */
      ca: z.string().optional(),
    })
    .default({}),
  /** Networks and addresses of proxies before it, whose `X-Forwarded-*` is passed on; an older agent drops all of them. */
  trusted_proxies: z.array(z.string()).optional(),
});
export type Ingress = z.infer<typeof Ingress>;

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
    /** Absent: the instance is ready once it has run for `min_healthy_seconds`. */
    probe: Probe.optional(),
    /** Without a probe: the health check of the image decides whether the instance is ready, if its image has one. */
    image_check: z.boolean().default(false),
    /** Time for which an instance must be ready before it is stable. */
    min_healthy_seconds: z.int().min(0).default(10),
    /** Most time that open connections have to end once no port leads to the instance any more, before it is stopped. */
    drain_seconds: z.int().min(0).default(0),
    limits: Limits.default({}),
    /** Where its process begins; absent: where the image says. */
    working_dir: z.string().optional(),
    /** A first process passes signals on to the process and reaps what it leaves. */
    init: z.boolean().optional(),
    /** User in the container, as `USER[:GROUP]` in names or numbers; absent: the image's own. */
    user: z.string().optional(),
    read_only_root: z.boolean().default(false),
    /** What is dropped from its capabilities, and then what it has all the same. */
    capabilities: z
      .object({ drop: z.array(z.union([Capability, z.literal('ALL')])), add: z.array(Capability) })
      .default({ drop: [], add: [] }),
    /** What it has beyond all of them, also if it drops `ALL`. */
    granted_capabilities: z.array(GrantedCapability).max(GrantedCapability.options.length).optional(),
    restart_policy: RestartPolicy,
    /** A new value restarts the instance once. */
    restart_token: z.string().optional(),
    /** Signal that asks the process to end, such as `SIGINT`; absent: the image's own. */
    stop_signal: z.string().optional(),
    /** Time that the process has to end before it is killed. */
    grace_seconds: z.int().default(10),
    /** Only of the proxy of a server: an agent refuses it for every other workload. */
    ingress: Ingress.optional(),
  });

/**
 * A function: the agent makes instances of its image when somebody calls it, and ends them when nobody does. `config` as
 * of a service.
 */
export const servedFunction = <Reference extends z.ZodType>(config: Reference) =>
  z.object({
    type: z.literal('function'),
    image: z.string(),
    image_digest: z.string(),
    config: config.optional(),
    /** The version of the function that the image is of. */
    version_id: z.string(),
    network: ServiceNetwork,
    /** Port of the server at which it is called; absent: only the control plane calls it. */
    port: PortNumber.optional(),
    timeout_seconds: z.int().min(1),
    /** An instance must answer before it serves, also where nothing served before. */
    warm: z.literal(true).optional(),
    /** Calls that one instance answers at a time. */
    concurrency: z.int().min(1),
    min_instances: z.int().min(0),
    max_instances: z.int().min(1),
    /** For agents with the capability `functions.volumes`: volumes that all its instances share. Absent: none. */
    mounts: z.array(VolumeMount).optional(),
    limits: Limits.pick({ memory_bytes: true, nano_cpus: true }),
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

/**
 * The log of writes of a database, which goes to a bucket segment by segment. What the engine puts into its volume is
 * removed from there once the bucket has it, and never before.
 */
export const archive = z.object({
  type: z.literal('archive'),
  /** The type of the engine, by the words of `databases/engines.ts`. */
  engine: z.string(),
  version: z.string(),
  /** The assignment in whose container the database serves. */
  instance: z.string(),
  /** Name of the volume at the engine. */
  volume: z.string(),
  /** Certificates in PEM of the authority of the bucket; absent: those that the server trusts. */
  ca: z.string().optional(),
});

/** How far the log of writes of a database is in its bucket. */
export const ArchiveStand = z.object({
  /** Of the cluster whose log it is, in decimal. Absent: nothing was sent yet. */
  system_identifier: z
    .string()
    .regex(/^[0-9]{1,20}$/)
    .optional(),
  /** The last segment in the bucket; all that were handed over before it are there, too. */
  last_segment: z
    .string()
    .regex(/^[0-9A-F]{24}$/)
    .optional(),
  /** When the bucket took it. */
  sent_at: z.iso.datetime().optional(),
  /** What was committed until then is in the bucket, and something later. */
  until: z.iso.datetime().optional(),
  /** The segment that shows it. */
  until_segment: z
    .string()
    .regex(/^[0-9A-F]{24}$/)
    .optional(),
  /** Segments on the server that are not in the bucket. */
  waiting: z.int().min(0),
  /** How much they take of what the disk could hold of them, in steps of 5. */
  fill_percent: z.int().min(0).max(100),
});
export type ArchiveStand = z.infer<typeof ArchiveStand>;

const headerChanges = {
  set: z.record(z.string(), z.string()).default({}),
  remove: z.array(z.string()).default([]),
};

/** Leads requests for a host, and a path below which they are, to the ready instances of a service. */
export const Route = z.object({
  /** Lower-case, in ASCII, without a port. */
  host: z.string(),
  /** Begins with a slash, and ends with none unless it is all. */
  path: z.string().default('/'),
  /** Which service of the workload. */
  service: z.string().default(mainService),
  /** Where its instances listen; absent: at the first port of each. */
  port: PortNumber.optional(),
  /** `on`: a certificate of the authority; `internal`: one that no browser trusts; `off`: no encryption. */
  tls: z.enum(['on', 'off', 'internal']).default('on'),
  /** Requests are answered with this address instead. */
  redirect_to: z.string().optional(),
  /** Who may come: hashes in the form of argon2id. Empty: everybody. */
  basic_auth: z.array(z.object({ username: z.string(), password_hash: z.string() })).default([]),
  /** Changes of the headers of answers. */
  headers: z.object(headerChanges).default({ set: {}, remove: [] }),
  max_body_bytes: z.int().optional(),
  /** Until the first byte of an answer. */
  timeout_seconds: z.int().optional(),
});
export type Route = z.infer<typeof Route>;

/** The routes of one workload, which the proxy of its server carries out. */
export const routes = z.object({ type: z.literal('routes'), routes: z.array(Route).max(64) });

/** A certificate that the proxy shows for a host, or why it has none. */
export const Certificate = z.object({
  host: z.string().max(253),
  issuer: z.string().max(200).optional(),
  expires_at: z.string().max(64).optional(),
  /** It should have been renewed by now. */
  ends_soon: z.boolean().optional(),
  /** Why it was not renewed when that was tried last. */
  renewal_error: z.string().max(500).optional(),
  error: z.string().max(500).optional(),
});
export type Certificate = z.infer<typeof Certificate>;

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
  /** How much of the step is done in a second, since it began. */
  per_second: z.int().min(0).optional(),
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
