import { z } from 'zod';
import { fromEarlier } from '../../agent-protocol/earlier-service.ts';
import { tasksWith } from '../../agent-protocol/task-table.ts';
import {
  archive,
  ArchiveStand,
  Certificate,
  copiedVolume,
  GrantedCapability,
  mainService,
  phases,
  Progress,
  routes,
  servedFunction,
  service,
  volume,
} from '../../agent-protocol/workload.ts';
import { defineKind } from './define.ts';
import { Id, Sealed } from './fields.ts';

/** The object that has the configuration of an instance, see `configuration` in `define.ts`. */
const ConfigurationRef = z.object({
  kind: z.enum(['deployment', 'database', 'function_version']),
  id: Id,
  /** Which of the services of a deployment; absent: it has one. */
  service: z.string().optional(),
  /** Which of the revisions of a database. */
  revision: z.int().optional(),
  /** With which certificate of a database, see `encryptionPart`; absent: with none. */
  encryption: z.string().optional(),
});

export { GrantedCapability };

/** A service instance as a controller wants it. */
export const ServiceSpec = service(ConfigurationRef);
export type ServiceSpec = z.infer<typeof ServiceSpec>;

/** A function as its controller wants it. */
export const FunctionSpec = servedFunction(ConfigurationRef);
export type FunctionSpec = z.infer<typeof FunctionSpec>;

/** The types of tasks, with their secrets sealed. Earlier releases stored the arguments of builds in plain text. */
const tasks = tasksWith(z.union([Sealed, z.string()]), Id);
export const BuildSpec = tasks.build.spec;
export type BuildSpec = z.infer<typeof BuildSpec>;
/** What a task is to do. */
export type StoredTask = z.infer<(typeof tasks)[keyof typeof tasks]['spec']>;

export const AssignmentPhase = z.enum(phases);
export type AssignmentPhase = z.infer<typeof AssignmentPhase>;

const State = z.record(z.string(), z.unknown());

/** A workload instance bound to a server. */
export const assignment = defineKind({
  kind: 'assignment',
  version: 3,
  /** No request writes one, and a leader writes only what the replicas of earlier releases can read. */
  ignorable: true,
  desired: z.object({
    server_id: Id,
    /** What is of the server itself, such as its proxy, has the id of the server here and as its environment. */
    project_id: Id,
    environment_id: Id,
    /** The workload that it belongs to, for names, logs and image retention. */
    workload_kind: z.enum([
      'application',
      'volume',
      'run',
      'server',
      'database',
      'backup',
      'restore',
      'wal_archive',
      'function',
    ]),
    workload_id: Id,
    workload_name: z.string(),
    /** Which of the services of its workload it is an instance of. */
    service: z.string().default(mainService),
    /** The version of the workload that it is of, such as the id of a deployment. Instances of one version are alike. */
    version: z.string(),
    run: z.enum(['running', 'stopped']),
    spec: z.discriminatedUnion('type', [
      ServiceSpec,
      FunctionSpec,
      volume,
      copiedVolume,
      routes,
      archive,
      ...Object.values(tasks).map((task) => task.spec),
    ]),
    /** Covers exactly what requires a new container. Never covers ciphertext: a rotation of keys restarts nothing. */
    spec_hash: z.string(),
  }),
  observed: z.object({
    phase: AssignmentPhase,
    ready: z.boolean().default(false),
    /** Ready for `min_healthy_seconds` without a restart. */
    stable: z.boolean().default(false),
    /** It only runs on until its open connections have ended. */
    draining: z.boolean().optional(),
    container_id: z.string().optional(),
    image_digest: z.string().optional(),
    /** Restarts since the container was made: exact below 10, then in steps of 10, so that a crash loop stays quiet. */
    restarts: z.int().default(0),
    crash_loop: z.boolean().default(false),
    /** What an instance in a crash loop wrote last. */
    last_output: z.string().optional(),
    exit_code: z.int().optional(),
    /** How its process ended last, also while it runs again. */
    last_exit: z
      .object({ code: z.int().optional(), out_of_memory: z.boolean().optional(), lines: z.string().optional() })
      .optional(),
    /** Processes of its container that were killed for memory, counted as `restarts`. */
    memory_kills: z.int().optional(),
    /** Findings of the agent that last, which become conditions of the workload. */
    notes: z.array(z.object({ type: z.string(), reason: z.string(), message: z.string() })).optional(),
    started_at: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    /** Commit of a build that ended, also of one that failed after it had the files of the commit. */
    commit: z.string().optional(),
    commit_message: z.string().optional(),
    /** The Dockerfile that was generated for a build. */
    dockerfile: z.string().optional(),
    /** What a task of any other type came to, in the form of its type. */
    result: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
    /** How far a task is, only while it runs; or the copy of a volume. */
    progress: Progress.optional(),
    /** Of the hosts of routes. */
    certificates: z.array(Certificate).optional(),
    /** How far an archive is. */
    archive: ArchiveStand.optional(),
    /** Last event of the agent that was recorded: a repeated one counts once. */
    events_seen: z.object({ source: z.string(), seq: z.int() }).optional(),
  }),
  owners: (d) => [{ kind: 'server', id: d.server_id, blocks: false }],
  indexes: {
    server: (d) => d.server_id,
    version: (d) => d.version,
    workload: (d) => d.workload_id,
    project: (d) => d.project_id,
  },
  upgrade: { 1: withoutEnv, 2: withVersion },
  clone: { never: 'It follows from a deployment, and nothing of a copy is deployed' },
  finalizers: ['agent'],
  /** A volume, also one of a compose file, has its data removed first: the assignment then has `run: 'stopped'`. */
  keep: {
    untilDeleted: 'A controller deletes it: of a deployment there are as many as slots, and one build; of a volume one',
    outlivesDeletionOf: ['volume', 'application'],
  },
});

/**
 * Version 1 repeated the variables of the deployment in each of its instances. Nothing is lost: a deployment never
 * changes its configuration and stays as long as it has instances.
 */
function withoutEnv(old: Record<string, unknown>): Record<string, unknown> {
  const spec = State.parse(old['spec']);
  return spec['type'] === 'service' ? { ...old, spec: { ...spec, env: 'of_deployment' } } : old;
}

/** Version 2 could only be of a deployment, and described services in the form of {@link fromEarlier}. */
function withVersion(old: Record<string, unknown>): Record<string, unknown> {
  const { deployment_id: version, spec, ...same } = old;
  const { env: _, ...settings } = State.parse(spec);
  const config = { kind: 'deployment', id: version };
  return { ...same, version, spec: settings['type'] === 'service' ? fromEarlier({ ...settings, config }) : settings };
}
