import { z } from 'zod';
import { WireConfiguration, WireItem, WireReport } from './assignment.ts';
import { GitCredential } from './git-credential.ts';
import { MetricsQuery, mostInstances, WorkloadLoad } from './metrics.ts';
import { LogFollow, LogQuery, LogsToKeep, ServerLogQuery } from './logs.ts';
import { HealableCheck, healableChecks } from './diagnosis.ts';
import { callLimits, ExecutionStatus, FunctionRequest } from './functions.ts';
import { RegistryAccess } from './registry-access.ts';
import { PortPolicy } from './port-policy.ts';
import { valuesLimits } from './survey.ts';
import { GenerateSettings, maxDockerfileChars } from './generated-dockerfile.ts';
import { tagLimits } from './tag-pattern.ts';
import { taskCapabilities } from './task-types.ts';
import { TrafficQuery } from './traffic.ts';

/** Protocol numbers that this build speaks, newest last. VERSIONS.md lists the changes of each number. */
export const protocols = [1] as const;
export const subprotocol = 'setpoint-agent.v1';

/** Capabilities beyond protocol 1 that an agent of this build sends in its hello. */
export const agentCapabilities: readonly string[] = [
  /** Items refer to configurations, which are sent once each. Without it every item has its own variables. */
  'configurations',
  /** `registry.access` brings what images of workloads are pulled with. */
  'registry.access',
  /** `images.keep` lists images that the agent keeps although no container uses them. */
  'images.keep',
  /** `logs.keep` says which logs stay whatever their age, and which are of workloads that were deleted. */
  'logs.keep',
  /** Types of tasks, and fields of them, beyond protocol 1. */
  ...taskCapabilities,
  /** A stream may carry bytes to the agent, too: `duplex` of `stream.open`. */
  'streams.duplex',
  /** `call.cancel` ends a call whose caller left. */
  'calls.cancel',
  /** Services have several networks, ports, mounts, files, probes of each kind and all limits: `workload.ts`. */
  'services',
  /** Services have a working directory and a first process. */
  'services.process',
  /** Services have capabilities that were granted to them: `granted_capabilities`. */
  'services.grants',
  /** Functions have `mounts`. */
  'functions.volumes',
  /** Items may be volumes. */
  'volumes',
  /** Items may be volumes that begin as copies of volumes that no agent made: `copied_volume`. */
  'volumes.copy',
  /** A service may be the proxy of its server, and items may be routes: `ingress` and `routes` in `workload.ts`. */
  'ingress',
  /** Keeps measurements of the server and its instances: `metrics.read` and the stream `metrics`. */
  'metrics',
  /** Counts the requests to applications: `traffic.read` and the stream `traffic`. */
  'traffic',
  /** The call `logs.server` merges the lines of all workloads, and the agent keeps its own lines with them. */
  'logs.server',
  /** The stream `shell`: a terminal of the server itself. */
  'terminals.server',
  /** The stream `tunnel`: a connection to an instance. */
  'streams.tunnel',
  /** The calls `diagnose` and `heal`. */
  'diagnose',
  /** The call `survey`. */
  'survey',
  /** The call `survey.values`. */
  'survey.values',
  /** The calls `instance.command` and `volume.usage`. */
  'instances.query',
  /** The call `repository.read` finds the manifests in folders. */
  'repository.manifests',
  /** The call `git.tag`. */
  'git.tags',
];

/**
 * The capability of an agent that replaces itself by a later release when its settings ask for it. Only one that was
 * installed from a release and runs under its supervisor has it, so that an agent without it need not be of an earlier
 * release.
 */
export const updateCapability = 'update';

/** Capabilities that only an agent has that runs as an installed release. */
export const installedCapabilities: readonly string[] = [
  /** The call `uninstall`: the agent removes itself from its machine. */
  'uninstall',
];

/** Capabilities that an agent can be started without, by its operator. */
export const forbiddable = { serverTerminals: 'terminals.server' } as const;

/** A position in the store's history, as the agent keeps it beside its desired set. */
export const Position = z.object({ incarnation: z.string(), revision: z.int() });
export type Position = z.infer<typeof Position>;

export const Load = z.object({
  cpu_percent: z.number(),
  cores: z.int(),
  load1: z.number(),
  memory_used_bytes: z.number(),
  memory_total_bytes: z.number(),
  disk_used_bytes: z.number(),
  disk_total_bytes: z.number(),
  network_rx_bps: z.number(),
  network_tx_bps: z.number(),
  /** Images that the agent removed since it started because its disk was almost full, and what that freed. */
  images_removed: z.int().min(0).optional().catch(undefined),
  images_freed_bytes: z.number().min(0).optional().catch(undefined),
  /** Absent: the agent does not send them with its beats. */
  workloads: z.array(WorkloadLoad).max(mostInstances).optional().catch(undefined),
});
export type Load = z.infer<typeof Load>;

/** `message`: what is wrong and what to do; the same text for the same cause, without times. */
const Fault = z.object({ reason: z.string().regex(/^[A-Z][A-Za-z0-9]{0,63}$/), message: z.string().max(500) });

/** What the agent knows about its container engine. */
export const EngineState = z.object({
  /** Absent until the engine has answered once. */
  version: z.string().max(64).optional(),
  /**
   * The engine cannot be used: it never answered, or has been silent for longer than a restart takes.
   */
  trouble: Fault.optional(),
  /** What is wrong around the engine although it answers. Agents of earlier releases tell none. */
  warnings: z.array(Fault).max(16).optional(),
});
export type EngineState = z.infer<typeof EngineState>;

/** An update that the control plane asks for. `requested_at` tells one request for a version from the next one. */
const AgentUpdate = z.object({ version: z.string(), requested_at: z.string() });

/** Why an agent did not carry out the update that was asked for, or went back from it, and what to do. */
export const UpdateFailure = z.object({
  version: z.string().max(64),
  requested_at: z.string().max(64),
  reason: z.string().regex(/^[A-Z][A-Za-z0-9]{0,63}$/),
  message: z.string().max(500),
});
export type UpdateFailure = z.infer<typeof UpdateFailure>;

/** Agent → control plane, the first frame. `join_token` only until the first welcome: it registers `public_key`. */
export const Hello = z.object({
  type: z.literal('hello'),
  protocols: z.array(z.int()).min(1).max(16),
  agent_version: z.string().max(64),
  server_id: z.string().max(64),
  /** Ed25519, raw 32 bytes, base64url. */
  public_key: z.string().max(64),
  join_token: z.string().max(256).optional(),
  boot_id: z.string().max(64),
  machine_id: z.string().max(64),
  /** Random id of the agent process. Two agents with one identity differ in it even where they share machine and boot. */
  process_id: z.string().max(64).optional(),
  runtime: z.string().max(32),
  runtime_version: z.string().max(64),
  capabilities: z.array(z.string().max(64)).max(64),
  store: Position.nullable(),
  engine: EngineState.optional(),
  update: UpdateFailure.optional().catch(undefined),
  /** Capabilities that the operator of the machine switched off; {@link forbiddable} has those that can be. */
  forbids: z.array(z.string().max(64)).max(16).optional(),
  /** Asks the control plane to prove itself in its welcome, by the key with the hash `key_hash` if that is given. */
  control: z.object({ nonce: z.string().max(64), key_hash: z.string().max(64).optional() }).optional(),
});

/** Control plane → agent: 32 random bytes, base64url. */
const Challenge = z.object({ type: z.literal('challenge'), nonce: z.string() });
/** Agent → control plane: Ed25519 over `setpoint-agent.v1\0<server_id>\0<nonce>`, base64url. */
const Proof = z.object({ type: z.literal('proof'), signature: z.string().max(128) });

/** Registries that images may come from: `HOST`, `HOST:PORT` or `*.HOST`. Absent: every public registry is allowed. */
const Registries = z.array(z.string().max(300)).max(1000);

export const Welcome = z.object({
  type: z.literal('welcome'),
  protocol: z.int(),
  session: z.string(),
  epoch: z.int(),
  beat_ms: z.int(),
  lease_ms: z.int(),
  log_retention_days: z.int(),
  ports: PortPolicy.optional(),
  /** Present if the hello asked for it; see `control-proof.ts`. Keys are Ed25519, raw, base64url. */
  proof: z.object({ key: z.string(), newest: z.string(), signature: z.string() }).optional(),
  registries: Registries.optional(),
  update: AgentUpdate.optional(),
});

/** A code that this release does not know is read as `busy`: the agent connects again after `retry_after_ms`. */
const RefuseCode = z.enum(['unknown', 'retired', 'superseded', 'upgrade', 'busy', 'unauthorized']).catch('busy');
type RefuseCode = z.infer<typeof RefuseCode>;
const Refuse = z.object({
  type: z.literal('refuse'),
  code: RefuseCode,
  message: z.string(),
  retry_after_ms: z.int(),
});

/** Control plane → agent: the settings of the server after a change. */
const Settings = z.object({
  type: z.literal('settings'),
  log_retention_days: z.int(),
  ports: PortPolicy.optional(),
  registries: Registries.optional(),
  /** To an agent that can update itself: the version that it is to run, if that is a later one. */
  update: AgentUpdate.optional(),
});

/**
 * Control plane → agent: digests of images, by the workload that may return to them. Each message replaces the lists of
 * the workloads that it names; an empty list removes a workload. The first message of a session has `whole`: it
 * replaces the lists of all workloads.
 */
const ImagesKeep = z.object({
  type: z.literal('images.keep'),
  whole: z.boolean(),
  images: z.record(z.string(), z.array(z.string())),
});

/**
 * Control plane → agent: what the images of workloads are pulled with, by workload; `null`: nothing any more. It comes
 * before the first snapshot and with each change. `whole`: all others have none.
 */
const RegistryAccessMessage = z.object({
  type: z.literal('registry.access'),
  whole: z.boolean(),
  workloads: z.record(z.string(), RegistryAccess.nullable()),
});

/** Control plane → agent: before the first snapshot, and with each change. */
const LogsKeep = LogsToKeep.extend({ type: z.literal('logs.keep') });

/** Agent → control plane: the chain of deltas does not continue the agent's desired set, or the set was not stored. */
const NeedSnapshot = z.object({ type: z.literal('need_snapshot'), why: z.string().max(200) });

const SnapshotBegin = z.object({
  type: z.literal('snapshot.begin'),
  incarnation: z.string(),
  revision: z.int(),
  count: z.int(),
  /** SHA-256 (hex) over the lines `<id> <generation> <spec_hash>\n` sorted by id. */
  digest: z.string(),
  /**
   * Assignments that the agent keeps exactly as it has them although the snapshot holds no item for them: their secrets
   * cannot be opened now, the replica cannot read them, or their removal awaits a confirmation after the store was
   * restored from a backup.
   */
  keep: z.array(z.string()).default([]),
});
const SnapshotPart = z.object({
  type: z.literal('snapshot.part'),
  items: z.array(WireItem),
  configurations: z.array(WireConfiguration).optional(),
});
const SnapshotEnd = z.object({ type: z.literal('snapshot.end'), revision: z.int() });

/**
 * Continues the chain: the agent answers `need_snapshot` unless `from` is its revision. It answers every id in `drop`
 * with a report that has `gone`, also if it never had the assignment. A change that is too large for one frame is sent
 * as several deltas, of which all but the first have the same `from` and `to`.
 */
const Delta = z.object({
  type: z.literal('delta'),
  from: z.int(),
  to: z.int(),
  put: z.array(WireItem),
  drop: z.array(z.string()),
  configurations: z.array(WireConfiguration).optional(),
});

/** Agent → control plane: the set of this revision is on disk. It does not mean that the set is converged. */
const Applied = z.object({ type: z.literal('applied'), revision: z.int() });

/**
 * Agent → control plane: a complete report after every welcome, then the latest state of changed assignments. One
 * report is in flight; in the long run they are at least 250 ms apart.
 */
const Report = z.object({
  type: z.literal('report'),
  seq: z.int(),
  /** Part of the complete report that follows the welcome. */
  full: z.boolean(),
  /** The complete report goes on in the next one. */
  more: z.boolean().optional(),
  items: z.array(WireReport).max(1000),
});
/** A code that this release does not know is read as `unavailable`: the report is sent again. */
const RejectCode = z.enum(['not_assigned', 'stale_generation', 'unavailable']).catch('unavailable');
const ReportAck = z.object({
  type: z.literal('report_ack'),
  seq: z.int(),
  rejected: z.array(z.object({ id: z.string(), why: RejectCode })),
});

/** Agent → control plane, every `beat_ms`. The first one follows the welcome at once. */
const Beat = z.object({
  type: z.literal('beat'),
  n: z.int(),
  load: Load,
  engine: EngineState.optional(),
  /** Absent while the update that was asked for, if any, has not failed. */
  update: UpdateFailure.optional().catch(undefined),
  /** Time from the last beat that was acknowledged to its acknowledgement, in milliseconds. */
  round_trip_ms: z.number().min(0).optional().catch(undefined),
});
const BeatAck = z.object({ type: z.literal('beat_ack'), n: z.int() });

/** Limits of one read of a repository: number of files, bytes of each, bytes of all. */
export const repositoryLimits = { files: 100, fileBytes: 256 * 1024, bytes: 512 * 1024 } as const;

/** Types of databases that dumps are imported into, by the words of `databases/engines.ts`. */
const importedEngines = ['postgres', 'mysql', 'mariadb', 'redis'] as const;
export type ImportedEngine = (typeof importedEngines)[number];

/** Calls of the control plane: method and parameters. Every call has a deadline; none changes desired state. */
export const CallParams = z.discriminatedUnion('method', [
  z.object({ method: z.literal('ping') }),
  z.object({ method: z.literal('logs.read'), query: LogQuery }),
  z.object({ method: z.literal('logs.server'), query: ServerLogQuery }),
  z.object({ method: z.literal('logs.storage') }),
  z.object({ method: z.literal('metrics.read'), query: MetricsQuery }),
  z.object({ method: z.literal('traffic.read'), query: TrafficQuery }),
  /** Asks for the commit at the head of a branch, and for the files changed since `since` where they can be known. */
  z.object({
    method: z.literal('git.head'),
    repository_url: z.string(),
    branch: z.string(),
    /** Full id of a commit. */
    since: z.string().optional(),
    /** Full id of a commit: the answer says whether the head follows it. Agents of earlier releases ignore it. */
    after: z.string().optional(),
    /** For agents with the capability `git.credentials`: what the repository is read with. */
    credential: GitCredential.optional(),
    /** Id of the object that `credential` is opened from, by the replica that sends the call to the agent. */
    git_credential_id: z.string().optional(),
  }),
  /** Asks for the newest tag of a pattern, by its version: `tag-pattern.ts`. {@link GitTag} */
  z.object({
    method: z.literal('git.tag'),
    repository_url: z.string(),
    tag_pattern: z.string().max(tagLimits.patternChars),
    /** As of `git.head`. */
    credential: GitCredential.optional(),
    git_credential_id: z.string().optional(),
  }),
  /** Asks for the Dockerfile that a build of the head of a branch would generate. Builds nothing. */
  z.object({
    method: z.literal('dockerfile.generate'),
    /** Agents of earlier releases ignore it. */
    project_id: z.string().optional(),
    repository_url: z.string(),
    branch: z.string(),
    build_context: z.string(),
    /** As of a build. */
    submodules: z.boolean().optional(),
    /** Names of the build arguments. */
    build_args: z.array(z.string()),
    /** Ids of the build secrets. Agents of earlier releases ignore them. */
    build_secret_ids: z.array(z.string()).optional(),
    generate: GenerateSettings,
    /** As of `git.head`. */
    credential: GitCredential.optional(),
    git_credential_id: z.string().optional(),
  }),
  /**
   * Asks for files of a repository: at `commit`, or at the head of the branch. What it does is written to the log of the
   * instance. Changes nothing.
   */
  z.object({
    method: z.literal('repository.read'),
    repository_url: z.string(),
    branch: z.string(),
    /** Full id of a commit. */
    commit: z.string().optional(),
    paths: z.array(z.string().max(255)).min(1).max(repositoryLimits.files),
    /** Paths that are folders stand for the YAML and JSON files in them, at any depth; each file has its path. */
    manifests: z.boolean().optional(),
    /** Whose build it is for, or whose sync. */
    project_id: z.string(),
    /** Absent: what it does is written to no log. */
    workload: z.string().optional(),
    instance: z.string().optional(),
    /** As of `git.head`. */
    credential: GitCredential.optional(),
    git_credential_id: z.string().optional(),
  }),
  /** Adds lines to the log of a build: what the control plane found in what it read for that. */
  z.object({
    method: z.literal('build.note'),
    workload: z.string(),
    instance: z.string(),
    lines: z.array(z.string().max(2000)).max(200),
  }),
  /** Examines the machine: `diagnosis.ts`. Changes nothing. */
  z.object({ method: z.literal('diagnose') }),
  /** Heals what these checks find; absent: all that can be healed. May be repeated. */
  z.object({ method: z.literal('heal'), checks: z.array(HealableCheck).max(healableChecks.length).optional() }),
  /** Asks what is on the machine that no agent made: `survey.ts`. Changes nothing. */
  z.object({ method: z.literal('survey') }),
  /**
   * Asks for the values of the variables of these containers, which no agent made, by id. Refused with `forbidden` unless the
   * control plane proved itself. Changes nothing.
   */
  z.object({
    method: z.literal('survey.values'),
    containers: z.array(z.string().max(128)).min(1).max(valuesLimits.containers),
  }),
  /**
   * Runs a command in the container of an instance, without input, and answers with its end: a look at a database by its own
   * client, say. The command reads secrets in its container; there is none in its arguments. {@link CommandResult}
   */
  z.object({
    method: z.literal('instance.command'),
    assignment: z.string(),
    command: z.array(z.string().max(4096)).min(1).max(64),
    timeout_ms: z.int().min(1).max(30_000),
  }),
  /**
   * Asks whether a file below the folder for imports is a dump of which the engine can be expected to read all, by its head.
   * Answers `invalid_path` or `invalid_dump`. Changes nothing. {@link ImportFile}
   */
  z.object({ method: z.literal('import.look'), path: z.string().max(1024), engine: z.enum(importedEngines) }),
  /**
   * Calls a function once, in the way of every other call of it, and answers with what it answered, cut to
   * `callLimits.answerBytes`. {@link FunctionAnswer}
   */
  z.object({
    method: z.literal('function.call'),
    function_id: z.string().max(64),
    request: FunctionRequest,
  }),
  /** Asks for the newest executions of a function, older than `before` if that is given. {@link Executions} */
  z.object({
    method: z.literal('function.executions'),
    function_id: z.string().max(64),
    limit: z.int().min(1).max(callLimits.executions),
    /** The id of an execution. */
    before: z.string().max(64).optional(),
    status: z.array(ExecutionStatus).max(ExecutionStatus.options.length).optional(),
  }),
  /** Asks how many bytes the content of a volume takes, by its name at the engine. {@link VolumeUsage} */
  z.object({ method: z.literal('volume.usage'), volume: z.string().max(255) }),
  /**
   * Its server is being deleted: the agent removes itself from the machine once the control plane has let it go. Refused
   * with `busy` while it still has something to remove for its set, and with `forbidden` unless the control plane proved
   * itself. May be repeated.
   */
  z.object({ method: z.literal('uninstall') }),
]);
export type CallParams = z.infer<typeof CallParams>;

/** Result of `instance.command`. */
export const CommandResult = z.object({
  /** Absent: the command did not end in time. */
  exit_code: z.int().optional(),
  /** The last 4 KiB of what it wrote. */
  output: z.string().max(16_384),
});
export type CommandResult = z.infer<typeof CommandResult>;

/** Result of `volume.usage`: absent if there is no such volume. */
export const VolumeUsage = z.object({ bytes: z.number().min(0).optional() });
export type VolumeUsage = z.infer<typeof VolumeUsage>;

/** Result of `import.look`. */
export const ImportFile = z.object({ size_bytes: z.number().min(0) });
export type ImportFile = z.infer<typeof ImportFile>;

/** Limits of the list of changed files: number of files, bytes of each name, characters of all names. */
export const changedFilesLimits = { files: 1000, nameBytes: 4096, chars: 64 * 1024 } as const;

/** Result of `git.head`. */
export const GitHead = z.object({
  commit: z.string().max(64),
  /** Names of the files that differ between `since` and `commit`; absent if they are not known. */
  changed_files: z
    .array(z.string().max(changedFilesLimits.nameBytes))
    .max(changedFilesLimits.files)
    .refine((names) => names.reduce((sum, name) => sum + name.length, 0) <= changedFilesLimits.chars)
    .optional(),
  /** More files have changed than are listed. */
  truncated: z.boolean().optional(),
  /** Whether `after` is in the history of `commit`; absent if that is not known. */
  follows: z.boolean().optional(),
});
export type GitHead = z.infer<typeof GitHead>;

/** Result of `git.tag`. */
export const GitTag = z.object({
  /** Absent: no tag of the pattern has a version that may be chosen. */
  newest: z.object({ tag: z.string().max(tagLimits.nameChars), commit: z.string().max(64) }).optional(),
  /** How many tags are of the pattern, with and without a version. */
  matching: z.int().min(0),
});
export type GitTag = z.infer<typeof GitTag>;

/** Result of `dockerfile.generate`. */
export const Generated = z.object({
  /** Commit that it was generated for. */
  commit: z.string().max(64),
  language: z.string().max(64),
  /** What was found and what follows from it, a sentence each. */
  reasons: z.array(z.string().max(2000)).max(64),
  dockerfile: z.string().max(maxDockerfileChars),
  /** What stays out of the build context, in the language of `.dockerignore`. */
  ignore: z.array(z.string().max(256)).max(64),
});
export type Generated = z.infer<typeof Generated>;

/** Where a file is, if manifests were asked for. */
const ManifestPath = z.string().max(255).optional();

/** Result of `repository.read`. */
export const RepositoryFiles = z.object({
  commit: z.string().max(64),
  commit_message: z.string().max(2000),
  /** In the order of the paths: the content in base64, or why there is none. */
  files: z
    .array(
      z.union([
        z.object({ path: ManifestPath, content: z.base64().max(repositoryLimits.fileBytes * 2) }),
        z.object({ path: ManifestPath, lack: z.enum(['missing', 'not_file', 'too_large']) }),
      ]),
    )
    .max(repositoryLimits.files),
});
export type RepositoryFiles = z.infer<typeof RepositoryFiles>;

const Call = z.object({
  type: z.literal('call'),
  id: z.int(),
  timeout_ms: z.int(),
  /** {@link CallParams}. The agent answers a method that it does not know with the error `unsupported`. */
  params: z.looseObject({ method: z.string() }),
});
/** Control plane → agent: the caller left. The agent ends its work and sends no result. */
const CallCancel = z.object({ type: z.literal('call.cancel'), id: z.int() });
const Result = z.object({
  type: z.literal('result'),
  id: z.int(),
  ok: z.unknown().optional(),
  error: z.object({ code: z.string().max(64), message: z.string().max(2000) }).optional(),
});

/** Most parts of an object whose addresses are asked for at once, and the largest number of a part. */
export const partLimits = { atOnce: 64, number: 10_000 } as const;

/** Names of files of the log of a database, as PostgreSQL makes them. They are parts of keys. */
const ArchivedFiles = z
  .array(z.string().regex(/^[0-9A-F]{8}(?:[0-9A-F]{16}(?:\.[0-9A-F]{8}\.backup|\.partial)?|\.history)$/))
  .min(1)
  .max(partLimits.atOnce);

/**
 * What an agent asks of the control plane for a task that it carries out: where the bytes go that the control plane never
 * sees. Every question has a deadline; none changes anything. An address is a secret while it is valid.
 */
export const AskParams = z.discriminatedUnion('about', [
  /** Where parts of the object that the task makes are sent, by their numbers. {@link Addresses}, in their order */
  z.object({
    about: z.literal('upload.parts'),
    assignment: z.string().max(64),
    parts: z.array(z.int().min(1).max(partLimits.number)).min(1).max(partLimits.atOnce),
  }),
  /** Where the object that the task reads is fetched. {@link Addresses}, of which there is one */
  z.object({ about: z.literal('download'), assignment: z.string().max(64) }),
  /** Where files of an archive are sent, by their names. {@link Addresses}, in their order */
  z.object({ about: z.literal('archive.send'), assignment: z.string().max(64), files: ArchivedFiles }),
  /** Where files of the archive that the task recovers from are fetched. {@link Addresses}, in their order */
  z.object({ about: z.literal('archive.fetch'), assignment: z.string().max(64), files: ArchivedFiles }),
]);
export type AskParams = z.infer<typeof AskParams>;

/** Addresses that are signed: whoever has one may send to it or fetch from it until it expires. */
export const Addresses = z.object({ addresses: z.array(z.string().max(4096)).min(1).max(partLimits.atOnce) });
export type Addresses = z.infer<typeof Addresses>;

/** Agent → control plane: {@link AskParams}. A question that it does not know is answered with `unsupported`. */
const Ask = z.object({ type: z.literal('ask'), id: z.int(), params: z.looseObject({ about: z.string() }) });
const Answer = z.object({
  type: z.literal('answer'),
  id: z.int(),
  ok: z.unknown().optional(),
  error: z.object({ code: z.string().max(64), message: z.string().max(2000) }).optional(),
});

const LogStreamParams = z.object({ kind: z.literal('logs'), follow: LogFollow });
export type LogStreamParams = z.infer<typeof LogStreamParams>;

/** A program without arguments. */
export const terminalShell = /^[\w./+-]+$/;

/** Columns or rows of a terminal. */
const Cells = z.int().min(1).max(1000);

/** A program on a terminal in the container of an assignment: its `command`, else its `shell`, else a shell it has. */
const ExecParams = z.object({
  kind: z.literal('exec'),
  assignment: z.string().max(64),
  command: z.tuple([z.string().min(1).max(4096)], z.string().max(64 * 1024)).optional(),
  shell: z.string().min(1).max(4096).optional(),
  cols: Cells,
  rows: Cells,
});
export type ExecParams = z.infer<typeof ExecParams>;

const MetricsStreamParams = z.object({ kind: z.literal('metrics') });
const TrafficStreamParams = z.object({ kind: z.literal('traffic'), workload: z.string().max(64) });
/** A login shell of the agent's user on a terminal of the server: `shell`, else that of the user. */
const ShellParams = z.object({
  kind: z.literal('shell'),
  shell: z.string().min(1).max(200).regex(terminalShell).optional(),
  cols: Cells,
  rows: Cells,
});
export type ShellParams = z.infer<typeof ShellParams>;

/** What runs on a terminal, and where. */
export type TerminalParams = ExecParams | ShellParams;

/** A connection over TCP to the main port of the instance of an assignment. */
const TunnelParams = z.object({ kind: z.literal('tunnel'), assignment: z.string().max(64) });
export type TunnelParams = z.infer<typeof TunnelParams>;

/**
 * A dump that a user sends, as it comes: the input of the stream. The agent keeps it under the id until the task that reads
 * it has ended. The stream has no output, and its end means that all is on the disk.
 */
const ImportStreamParams = z.object({
  kind: z.literal('import'),
  id: z.uuid(),
  engine: z.enum(importedEngines),
  /** As far as the client says. */
  size_bytes: z.number().min(0).optional(),
});
export type ImportStreamParams = z.infer<typeof ImportStreamParams>;

/**
 * Streams that the control plane opens on the agent. A log stream has one `LogChunk` as JSON per line: `log-stream.ts`.
 * The stream of a terminal is duplex: `terminal-stream.ts`. So is a tunnel, of bytes as they are. The stream `metrics` has the newest sample of the server as
 * a line, every 5 s: `metrics.ts`. The stream `traffic` has the newest window of a workload as a line, every 5 s:
 * `traffic.ts`.
 */
export const StreamParams = z.discriminatedUnion('kind', [
  LogStreamParams,
  ExecParams,
  ShellParams,
  TunnelParams,
  ImportStreamParams,
  MetricsStreamParams,
  TrafficStreamParams,
]);
export type StreamParams = z.infer<typeof StreamParams>;

const StreamOpen = z.object({
  type: z.literal('stream.open'),
  stream: z.int(),
  /** {@link StreamParams}. The agent resets a stream of a kind that it does not know with `unsupported`. */
  params: z.looseObject({ kind: z.string() }),
  /** Bytes that the agent may send before it needs more credit. */
  credit: z.int(),
  /** The control plane sends bytes, too: the input of the stream. The agent must have `streams.duplex`. */
  duplex: z.boolean().optional(),
});
/** `credit`: bytes of input that the control plane may send; only of a duplex stream. */
const StreamAccept = z.object({
  type: z.literal('stream.accept'),
  stream: z.int(),
  credit: z.int().min(0).optional(),
});
/** The sender of the message took so many bytes: that many more may be sent to it. */
const StreamCredit = z.object({ type: z.literal('stream.credit'), stream: z.int(), bytes: z.int() });
/**
 * The control plane sends it when it left the stream, in both directions. From the agent: both directions of a duplex stream
 * are over, and the agent read its input to the end or reads no more of it. (A frame with the flag `end` ends only the
 * direction of its sender.)
 */
const StreamEnd = z.object({ type: z.literal('stream.end'), stream: z.int() });
const StreamReset = z.object({
  type: z.literal('stream.reset'),
  stream: z.int(),
  code: z.string().max(64),
  message: z.string().max(500),
  /**
   * `input`: only the input of a duplex stream is over. From the control plane: its source failed. From the agent: it
   * reads no more of it.
   */
  only: z.string().max(16).optional(),
});
/** Every 30 s each side sends the ids of its live streams. The receiver answers an unknown id with `stream.reset`. */
const StreamLive = z.object({ type: z.literal('stream.live'), streams: z.array(z.int()).max(64) });

const Goodbye = z.object({
  type: z.literal('goodbye'),
  reason: z.string().max(200),
  retry_after_ms: z.int().optional(),
});

/**
 * The receiver does not know the message type: optional features are gated by capabilities, so this is a bug report.
 */
const Unsupported = z.object({ type: z.literal('unsupported'), what: z.string().max(100) });

export const AgentMessage = z.discriminatedUnion('type', [
  Hello,
  Proof,
  NeedSnapshot,
  Applied,
  Report,
  Beat,
  Result,
  Ask,
  StreamAccept,
  StreamCredit,
  StreamEnd,
  StreamReset,
  StreamLive,
  Goodbye,
  Unsupported,
]);
export type AgentMessage = z.infer<typeof AgentMessage>;

export const ControlMessage = z.discriminatedUnion('type', [
  Challenge,
  Welcome,
  Refuse,
  Settings,
  ImagesKeep,
  LogsKeep,
  RegistryAccessMessage,
  SnapshotBegin,
  SnapshotPart,
  SnapshotEnd,
  Delta,
  ReportAck,
  BeatAck,
  Call,
  CallCancel,
  Answer,
  StreamOpen,
  StreamCredit,
  StreamEnd,
  StreamReset,
  StreamLive,
  Goodbye,
  Unsupported,
]);
export type ControlMessage = z.infer<typeof ControlMessage>;
