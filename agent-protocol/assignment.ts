import { z } from 'zod';

/** The wire form of a service instance: secrets are plain here, and only here. */
export const WireService = z.object({
  type: z.literal('service'),
  slot: z.int(),
  image: z.string(),
  /** Image id or repository digest that must run; absent: resolve `image` once and report the digest. */
  image_digest: z.string().optional(),
  command: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()),
  port: z.int().optional(),
  publish_port: z.int().optional(),
  health: z.object({ path: z.string() }).optional(),
  memory_bytes: z.int().optional(),
  nano_cpus: z.int().optional(),
  restart_policy: z.enum(['always', 'on-failure', 'no']),
  restart_token: z.string().optional(),
  grace_seconds: z.int(),
  network: z.string(),
  alias: z.string(),
});
export type WireService = z.infer<typeof WireService>;

export const WireBuild = z.object({
  type: z.literal('build'),
  repository_url: z.string(),
  branch: z.string(),
  dockerfile_path: z.string(),
  build_context: z.string(),
  build_args: z.record(z.string(), z.string()),
  image: z.string(),
  deadline_seconds: z.int(),
  attempt: z.int(),
});
export type WireBuild = z.infer<typeof WireBuild>;

/** One item of a server's desired set. Equal `generation` and `hash`: nothing changed. */
export const WireAssignment = z.object({
  id: z.string(),
  generation: z.int(),
  /** Covers exactly what requires a new container. */
  spec_hash: z.string(),
  tenant: z.string(),
  project_id: z.string(),
  environment_id: z.string(),
  workload_kind: z.string(),
  workload_id: z.string(),
  workload_name: z.string(),
  deployment_id: z.string(),
  run: z.enum(['running', 'stopped']),
  spec: z.discriminatedUnion('type', [WireService, WireBuild]),
});
export type WireAssignment = z.infer<typeof WireAssignment>;

export const WirePhase = z.enum([
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
export type WirePhase = z.infer<typeof WirePhase>;

/** Something that the agent did or noticed on its own: a container that was removed by hand and came back. */
export const WireEvent = z.object({
  /** Grows by one per event of one assignment within one {@link WireEvents.source}. */
  seq: z.int(),
  type: z.enum(['normal', 'warning']),
  /** CamelCase, stable: events aggregate by it. */
  reason: z.string().max(64),
  /** Stable, without times, counters and container ids. */
  message: z.string().max(500),
  /** The runtime differed from the desired state, and the agent corrected it. */
  drift: z.boolean(),
});
export type WireEvent = z.infer<typeof WireEvent>;

/**
 * The latest events of an assignment, oldest first. They ride on every report of it until a report that had them was
 * acknowledged (older ones may be dropped to stay within the bound); the control plane remembers the last `seq` per
 * assignment, so that a repeated one counts once.
 */
export const WireEvents = z.object({
  /** Random, made when the agent process starts: `seq` starts anew with it. */
  source: z.string().max(64),
  items: z.array(WireEvent).max(16),
});
export type WireEvents = z.infer<typeof WireEvents>;

/**
 * What the agent last saw of one assignment. `generation` is that of the item it acts on. A report of an item that is
 * no longer desired and whose container is gone says `gone: true`; it is repeated until acknowledged.
 */
export const WireReport = z.object({
  id: z.string(),
  generation: z.int(),
  phase: WirePhase,
  /** Passes its health check, or runs for 10 s where it has none. */
  ready: z.boolean(),
  /** Ready for 10 s without a restart (without a health check: running for 10 s). */
  stable: z.boolean(),
  container_id: z.string().optional(),
  image_digest: z.string().optional(),
  /** Restarts since the container was made: exact below 10, then in steps of 10. */
  restarts: z.int(),
  /** Restarting with a delay since it keeps exiting. */
  crash_loop: z.boolean(),
  exit_code: z.int().optional(),
  started_at: z.string().optional(),
  /** `code` is one of {@link failureCodes}; `message` is stable, without times and counters. */
  error: z.object({ code: z.string(), message: z.string() }).optional(),
  commit: z.string().optional(),
  commit_message: z.string().optional(),
  gone: z.boolean().optional(),
  /** The engine has not answered since the agent started: the report says that the agent has the item, and no more. */
  unknown: z.boolean().optional(),
  events: WireEvents.optional(),
});
export type WireReport = z.infer<typeof WireReport>;

/** Why an assignment failed or is not ready. */
export const failureCodes = [
  'image_not_found',
  'image_pull_failed',
  'repository_unreachable',
  'branch_not_found',
  'dockerfile_not_found',
  'path_outside_repository',
  'build_failed',
  'build_timeout',
  'invalid_source',
  'exited',
  'unhealthy',
  'port_taken',
  'out_of_memory',
  'no_space',
  'name_taken',
  'create_failed',
  'runtime_unavailable',
  'secret_unavailable',
] as const;
export type FailureCode = (typeof failureCodes)[number];
