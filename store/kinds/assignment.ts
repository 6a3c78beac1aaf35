import { z } from 'zod';
import { defineKind } from './define.ts';
import { BuildArgs, Id, Port } from './fields.ts';

/** A service instance as a controller wants it. Its environment is in the configuration of its deployment. */
export const ServiceSpec = z.object({
  type: z.literal('service'),
  /** Index of the slot within its deployment, from 0. */
  slot: z.int(),
  image: z.string(),
  /** Image id or repository digest that must run; absent until the first pull resolved it. */
  image_digest: z.string().optional(),
  command: z.array(z.string()).optional(),
  /**
   * The variables are those of the deployment. Version 1 refuses this value: a replica of that version leaves the
   * record alone instead of starting an instance without its variables.
   */
  env: z.literal('of_deployment').default('of_deployment'),
  /** Port that the process listens on inside. */
  port: Port.optional(),
  /** Port of the server that leads to `port` of the ready instances. */
  publish_port: Port.optional(),
  health: z.object({ path: z.string() }).optional(),
  memory_bytes: z.int().optional(),
  nano_cpus: z.int().optional(),
  restart_policy: z.enum(['always', 'on-failure', 'no']),
  restart_token: z.string().optional(),
  grace_seconds: z.int().default(10),
  network: z.string(),
  /** DNS name in the network. */
  alias: z.string(),
});
export type ServiceSpec = z.infer<typeof ServiceSpec>;

/** A build that runs once per attempt on the server. */
export const BuildSpec = z.object({
  type: z.literal('build'),
  repository_url: z.string(),
  branch: z.string(),
  /** Full id of the commit to build; absent: the head of the branch. */
  commit: z.string().optional(),
  dockerfile_path: z.string(),
  build_context: z.string(),
  build_args: BuildArgs,
  /** Tag that the built image gets. */
  image: z.string(),
  deadline_seconds: z.int(),
  attempt: z.int().default(1),
});
export type BuildSpec = z.infer<typeof BuildSpec>;

export const AssignmentPhase = z.enum([
  'pending',
  'preparing',
  'starting',
  'running',
  'stopping',
  'stopped',
  'succeeded',
  'failed',
  'lost',
]);
export type AssignmentPhase = z.infer<typeof AssignmentPhase>;

const State = z.record(z.string(), z.unknown());

/** A workload instance bound to a server. */
export const assignment = defineKind({
  kind: 'assignment',
  version: 2,
  desired: z.object({
    server_id: Id,
    project_id: Id,
    environment_id: Id,
    /** The workload that it belongs to, for names, logs and image retention. */
    workload_kind: z.enum(['application']),
    workload_id: Id,
    workload_name: z.string(),
    deployment_id: Id,
    run: z.enum(['running', 'stopped']),
    spec: z.discriminatedUnion('type', [ServiceSpec, BuildSpec]),
    /** Covers exactly what requires a new container. Never covers ciphertext: a rotation of keys restarts nothing. */
    spec_hash: z.string(),
  }),
  observed: z.object({
    phase: AssignmentPhase,
    ready: z.boolean().default(false),
    /** Ready for 10 s without a restart. */
    stable: z.boolean().default(false),
    container_id: z.string().optional(),
    image_digest: z.string().optional(),
    /** Restarts since the container was made: exact below 10, then in steps of 10, so that a crash loop stays quiet. */
    restarts: z.int().default(0),
    crash_loop: z.boolean().default(false),
    exit_code: z.int().optional(),
    started_at: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
    /** Commit of a build that ended, also of one that failed after it had the files of the commit. */
    commit: z.string().optional(),
    commit_message: z.string().optional(),
    /** Last event of the agent that was recorded: a repeated one counts once. */
    events_seen: z.object({ source: z.string(), seq: z.int() }).optional(),
  }),
  owners: (d) => [
    { kind: 'deployment', id: d.deployment_id, blocks: true },
    { kind: 'server', id: d.server_id, blocks: false },
  ],
  indexes: {
    server: (d) => d.server_id,
    deployment: (d) => d.deployment_id,
    workload: (d) => d.workload_id,
    project: (d) => d.project_id,
  },
  upgrade: { 1: withoutEnv },
  clone: { never: 'It follows from a deployment, and nothing of a copy is deployed' },
  finalizers: ['agent'],
  keep: { untilDeleted: 'A controller deletes it: of a deployment there are as many as slots, and one build' },
});

/**
 * Version 1 repeated the variables of the deployment in each of its instances. Nothing is lost: a deployment never
 * changes its configuration and stays as long as it has instances.
 */
function withoutEnv(old: Record<string, unknown>): Record<string, unknown> {
  const spec = State.parse(old['spec']);
  return spec['type'] === 'service' ? { ...old, spec: { ...spec, env: 'of_deployment' } } : old;
}
