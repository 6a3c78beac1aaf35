import { z } from 'zod';
import { retention } from '../retention.ts';
import { RunState } from './application.ts';
import { Declarations, ofDeclarations } from './declarations.ts';
import { defineKind } from './define.ts';
import type { Kept } from './define.ts';
import { Id, Name, Port, Resolved, Sealed, Timestamp } from './fields.ts';
import { InstanceId, instanceOwner, outlivesInstance } from './instance-child.ts';
import { internalId } from './internal-id.ts';
import { Mounts } from './mounts.ts';

export const FunctionRuntime = z.enum(['node20', 'python3', 'go', 'bun', 'deno']);
export type FunctionRuntime = z.infer<typeof FunctionRuntime>;

export const FunctionPhase = z.enum(['running', 'stopped', 'deploying', 'failed', 'error', 'deleting']);
export type FunctionPhase = z.infer<typeof FunctionPhase>;

export const FunctionVersionPhase = z.enum(['building', 'ready', 'failed']);
export type FunctionVersionPhase = z.infer<typeof FunctionVersionPhase>;

/** What calls a function: requests, or its schedule. */
const Trigger = z.discriminatedUnion('type', [
  z.object({ type: z.literal('http') }),
  z.object({ type: z.literal('cron'), schedule: z.string(), timezone: z.string() }),
]);

/** Variables, sealed for `config.env` of the function. */
const Config = z.object({
  env: z.record(z.string(), Sealed).default({}),
  /** The references in them; absent: their values are used as they are. */
  references: z.array(z.string()).optional(),
});

/** What a version is made of. It never changes in a version. */
const sourceFields = {
  runtime: FunctionRuntime,
  code: z.string(),
  /** JSON in the form of the runtime; absent: none. */
  dependencies: z.string().optional(),
  config: Config,
};

/**
 * Source text that runs when it is called. Code, dependencies and variables are what the next version is made of; the
 * other settings hold at once.
 */
export const functionKind = defineKind({
  kind: 'function',
  version: 1,
  ignorable: ofDeclarations,
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    template_instance_id: InstanceId,
    declarations: Declarations,
    name: Name,
    /** Slug of the name and 6 hex digits, never changed by a rename. */
    internal_id: z.string(),
    ...sourceFields,
    trigger: Trigger,
    /** Port of the server that leads to it, where the server opens ports. */
    exposed_port: Port.optional(),
    memory_limit: z.string().optional(),
    cpu_limit: z.string().optional(),
    timeout_seconds: z.int().min(1).max(900),
    min_instances: z.int().min(0).max(20),
    max_instances: z.int().min(1).max(20),
    /** Absent: that of its runtime. */
    concurrency: z.int().min(1).max(1000).optional(),
    /** All its instances share them, also those that they may write to. */
    mounts: Mounts,
    run: RunState,
    /** The version that is to serve; absent: it was never deployed. */
    version_id: Id.optional(),
    /** Grows with each request that lets a version serve: one that did not start is tried again. */
    attempt: z.int().default(0),
    next_version_number: z.int().default(1),
  }),
  observed: z.object({
    phase: FunctionPhase,
    /** The version that serves, or would if it was started. */
    active_version_id: Id.optional(),
    /** The version that is to serve, which was built and does not start: its server serves the active one. */
    refused: z.object({ attempt: z.int(), spec_hash: z.string(), message: z.string() }).optional(),
    /** It was stopped, and nothing has served since. */
    at_rest: z.literal(true).optional(),
    /** Instants of its schedule up to this one are dealt with. */
    handled_until: Timestamp.optional(),
    next_run_at: Timestamp.optional(),
    last_run_at: Timestamp.optional(),
    /** The call that its schedule asked for last. `ended`: what became of it is known. */
    firing: z.object({ at: Timestamp, missed: z.array(Timestamp), ended: z.literal(true).optional() }).optional(),
    /** The last of the instants that nothing was called for, which the next call records. */
    missed: z.array(Timestamp).optional(),
    /** Its schedule calls nothing, as it is stopped or has no version: nothing is caught up after that. */
    is_idle: z.literal(true).optional(),
    /** Time zone and expression of the schedule that its instants were looked for by. */
    rule: z.string().optional(),
    /** Users were notified that it is in error. */
    notified: z.literal(true).optional(),
  }),
  unique: (d) => [{ scope: d.environment_id, name: d.name }],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }, ...instanceOwner(d)],
  populates: { environment: 'environment', server: 'server', project: 'project', volume: 'volume' },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    server: (d) => d.server_id,
    volume: (d) => d.mounts.map(({ volume_id }) => volume_id),
    internal_id: (d) => d.internal_id,
    template_instance: (d) => d.template_instance_id,
  },
  clone: {
    references: ['environment_id', 'server_id', 'mounts.*.volume_id'],
    reset: (draft, copyId) => {
      draft.internal_id = internalId(draft.name, copyId.slice(0, 6));
      draft.run = 'stopped';
      for (const mount of draft.mounts) delete mount.data_id;
      draft.attempt = 0;
      draft.next_version_number = 1;
      delete draft.exposed_port;
      delete draft.version_id;
      delete draft.template_instance_id;
      delete draft.declarations;
    },
  },
  finalizers: ['function'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment', ...outlivesInstance },
});

/** A function as it was built once. */
export const functionVersion = defineKind({
  kind: 'function_version',
  version: 1,
  desired: z.object({
    function_id: Id,
    project_id: Id,
    server_id: Id,
    number: z.int(),
    ...sourceFields,
    /** The image that it is built upon, in place of that of its runtime. */
    base_image: z.string().optional(),
    /** The built version that it is, with what its variables refer to now; absent: it is built. */
    reuse: z.object({ number: z.int(), image: z.string(), image_digest: z.string() }).optional(),
    requested_by: Id.optional(),
    requested_at: Timestamp,
  }),
  observed: z.object({
    phase: FunctionVersionPhase,
    /** What each reference of its variables stands for, from its beginning on. */
    references: z.record(z.string(), Resolved).optional(),
    image: z.string().optional(),
    image_digest: z.string().optional(),
    finished_at: z.string().optional(),
    /** When its image was found to be lost last, and was to be built again. */
    lost_at: Timestamp.optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [{ kind: 'function', id: d.function_id, blocks: true }],
  indexes: { function: (d) => d.function_id, project: (d) => d.project_id, server: (d) => d.server_id },
  configuration: (d, o) => ({
    of: { kind: 'function', id: d.function_id, path: 'config' },
    env: d.config.env,
    ...(d.config.references !== undefined && { references: o?.references ?? {} }),
  }),
  clone: { never: 'It is the history of a function; the copy of that begins without one' },
  finalizers: ['function_version'],
  keep: {
    newest: {
      count: retention.versionsPerFunction,
      under: 'function',
      number: ({ desired }) => desired.number,
      hasEnded: ({ observed }) => hasVersionEnded(observed?.phase),
      // the one that is to serve, and the one that does
      unless:
        (of: Kept<z.output<typeof functionKind.desired>, z.output<typeof functionKind.observed>>) =>
        ({ meta }) =>
          [of.desired.version_id, of.observed?.active_version_id].includes(meta.id),
    },
  },
});

/**
 * Whether nothing is being built of a version in this phase; `undefined` is the phase of one that was not observed yet. One that is
 * ready is built again where its image is lost.
 */
export function hasVersionEnded(phase: FunctionVersionPhase | undefined): boolean {
  return phase === 'ready' || phase === 'failed';
}
