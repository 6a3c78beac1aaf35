import { z } from 'zod';
import { fromEarlier } from './earlier-service.ts';
import { maxDockerfileChars } from './generated-dockerfile.ts';
import type { TaskRow } from './task-table.ts';
import type { TaskKnown, TaskResult } from './task-types.ts';
import { taskTypes } from './task-types.ts';
import {
  archive,
  ArchiveStand,
  Certificate,
  copiedVolume,
  mainService,
  phases,
  Progress,
  routes,
  servedFunction,
  service,
  volume,
} from './workload.ts';

/**
 * The variables and the contents of files that all instances of a version run with. A configuration is sent once,
 * before the first item that refers to it, and never changes. The agent keeps it as long as an item of its set refers
 * to it. Secrets are in plain text here, and nowhere else on the wire but in the arguments of a build.
 */
export const WireConfiguration = z.object({
  id: z.string(),
  env: z.record(z.string(), z.string()),
  /** Content of each file in base64, by path. */
  files: z.record(z.string(), z.base64()).optional(),
});
export type WireConfiguration = z.infer<typeof WireConfiguration>;

/** How a service instance runs. `config` is the id of its configuration. */
export const WireService = service(z.string()).extend({
  /**
   * Its configuration. It comes with the item only from control planes and for agents that do not know configurations
   * of their own; otherwise the agent adds what `config` refers to. An instance without it cannot be made.
   */
  configuration: WireConfiguration.omit({ id: true }).optional(),
});
export type WireService = z.infer<typeof WireService>;

/** A function; its configuration is as that of a service. */
export const WireFunction = servedFunction(z.string()).extend({
  configuration: WireConfiguration.omit({ id: true }).optional(),
});
export type WireFunction = z.infer<typeof WireFunction>;

export const WireVolume = volume;
export type WireVolume = z.infer<typeof WireVolume>;

export const WireCopiedVolume = copiedVolume;
export type WireCopiedVolume = z.infer<typeof WireCopiedVolume>;

export const WireRoutes = routes;
export type WireRoutes = z.infer<typeof WireRoutes>;

export const WireArchive = archive;
export type WireArchive = z.infer<typeof WireArchive>;

/** Fields of every item of a desired set. */
const itemHead = {
  id: z.string(),
  generation: z.int(),
  /** Hash of exactly the settings whose change requires a new container. */
  spec_hash: z.string(),
  tenant: z.string(),
  project_id: z.string(),
  environment_id: z.string(),
  workload_kind: z.string(),
  workload_id: z.string(),
  workload_name: z.string(),
};

/** Which of the services of its workload an item is an instance of. Earlier releases do not name it. */
const serviceName = z.string().default(mainService);

/**
 * One item of a server's desired set, on the wire and on the agent's disk. Equal `generation` and `spec_hash`: nothing
 * changed. The agent keeps it unchanged, so that a later release finds in it what this release does not know.
 */
export const WireItem = z.looseObject({ ...itemHead, run: z.string(), spec: z.looseObject({ type: z.string() }) });
export type WireItem = z.infer<typeof WireItem>;

/** An item that this release understands. */
export const WireAssignment = z.object({
  ...itemHead,
  service: serviceName,
  run: z.enum(['running', 'stopped']),
  spec: z.discriminatedUnion('type', [
    WireService,
    WireFunction,
    WireVolume,
    WireCopiedVolume,
    WireRoutes,
    WireArchive,
    ...Object.values(taskTypes).map(({ spec }) => spec),
  ]),
});
export type WireAssignment = z.infer<typeof WireAssignment>;

const understood = new WeakMap<WireItem, WireAssignment | 'unknown'>();

/** Returns the item as this release reads it; `undefined` if it has something that this release does not know. */
export function understand(item: WireItem): WireAssignment | undefined {
  let known = understood.get(item);
  if (known === undefined) understood.set(item, (known = WireAssignment.safeParse(present(item)).data ?? 'unknown'));
  return known === 'unknown' ? undefined : known;
}

/**
 * Returns the item in the present form, also if it came from an earlier release. One of these that is to run without its
 * variables stays as it is, and is therefore not understood: it must not be started without them.
 */
function present(item: WireItem): unknown {
  const { env, config } = item.spec;
  const spec = fromEarlier(item.spec);
  if (spec === item.spec || (env === undefined && config === undefined && item.run === 'running')) return item;
  return { ...item, spec: env === undefined ? spec : { ...spec, configuration: { env } } };
}

export const WirePhase = z.enum(phases);
export type WirePhase = z.infer<typeof WirePhase>;

function isPhase(phase: string): boolean {
  return WirePhase.safeParse(phase).success;
}

/** What a task came to, in the form of its type: `task-table.ts`. */
const Result = z
  .record(z.string().max(64), z.union([z.string().max(2000), z.number(), z.boolean()]))
  .refine((result) => Object.keys(result).length <= 32);

/** Leaves out what this release cannot read of progress, a result, certificates and an archive. */
function withoutUnreadable({
  progress,
  result,
  certificates,
  archive: stand,
  ...report
}: {
  [field: string]: unknown;
}): {
  [field: string]: unknown;
} {
  const known = {
    progress: Progress.safeParse(progress).data,
    result: Result.safeParse(result).data,
    certificates: z.array(Certificate).max(64).safeParse(certificates).data,
    archive: ArchiveStand.safeParse(stand).data,
  };
  return {
    ...report,
    ...(known.progress !== undefined && { progress: known.progress }),
    ...(known.result !== undefined && { result: known.result }),
    ...(known.certificates !== undefined && { certificates: known.certificates }),
    ...(known.archive !== undefined && { archive: known.archive }),
  };
}

/** A text from an agent, cut to `length` characters: a long text must not fill the store or end the session. */
const Cut = (length: number) => z.string().transform((text) => text.slice(0, length));

/** An action or observation of the agent, for example that it restored a container that was removed by hand. */
export const WireEvent = z.object({
  /** Grows by one with each event of an assignment within one {@link WireEvents.source}. */
  seq: z.int(),
  type: z.enum(['normal', 'warning']).catch('normal'),
  /** CamelCase, stable: events aggregate by it. */
  reason: Cut(64),
  /** A cause always has the same text: it holds no times, counters or container ids. */
  message: Cut(500),
  /** The runtime differed from the desired state, and the agent corrected it. */
  drift: z.boolean(),
});
export type WireEvent = z.infer<typeof WireEvent>;

/**
 * The latest events of an assignment, oldest first. Every report of the assignment carries them until one of these
 * reports is acknowledged. The oldest may be dropped to stay within the bound. The control plane remembers the last
 * `seq` per assignment, so that a repeated event counts once.
 */
export const WireEvents = z.object({
  /** Random id of the agent process: `seq` starts anew with each process. */
  source: Cut(64),
  items: z.array(WireEvent).transform((items) => items.slice(-16)),
});
export type WireEvents = z.infer<typeof WireEvents>;

/**
 * A finding about an instance that lasts: what its health check saw last, who listens in it, data that is not kept. A
 * control plane shows it as a condition of the workload until a report comes without it.
 */
export const WireNote = z.object({
  /** CamelCase, one of a kind in a report. */
  type: Cut(64),
  reason: Cut(64),
  /** The same text for the same cause: it holds no times, counters or container ids. */
  message: Cut(1000),
});
export type WireNote = z.infer<typeof WireNote>;

/** How a process ended last. */
export const WireLastExit = z.object({
  /** Absent: it was not seen. */
  code: z.int().optional(),
  out_of_memory: z.boolean().optional(),
  /** The last lines that it wrote. */
  lines: Cut(2000).optional(),
});
export type WireLastExit = z.infer<typeof WireLastExit>;

/** Fields of a report in which a task says what it came to. */
const resultFields = {
  image_digest: Cut(256).optional(),
  /** Commit of a build that ended, also of a build that failed after its checkout. */
  commit: Cut(64).optional(),
  commit_message: Cut(2000).optional(),
  /** The Dockerfile that was generated for a build, also for one that failed after it. */
  dockerfile: Cut(maxDockerfileChars).optional(),
  /** Result of a task of any other type that ended. */
  result: Result.optional(),
};
const ResultFields = z.object(resultFields);

/** The fields of a report that say what a task came to. @throws ZodError if it is too large for a report */
export function reportOf(row: TaskRow, it: TaskResult | TaskKnown): z.infer<typeof ResultFields> {
  if (row.resultIn === 'fields') return ResultFields.parse(it);
  const result = Object.fromEntries(Object.entries(it).filter(([, value]) => value !== undefined));
  return ResultFields.parse(Object.keys(result).length === 0 ? {} : { result });
}

const ReportFields = z.object({
  /** No id is longer than 64 characters: a cut one matches no assignment and is rejected as `not_assigned`. */
  id: Cut(64),
  generation: z.int(),
  phase: WirePhase,
  /** It passes its health check, or, without a health check, has been running for `min_healthy_seconds`. */
  ready: z.boolean(),
  /** It has been ready for `min_healthy_seconds` without a restart. */
  stable: z.boolean(),
  container_id: Cut(128).optional(),
  /** Restarts since the container was made: exact below 10, then in steps of 10. */
  restarts: z.int(),
  /** The container keeps exiting and is restarted with a delay. */
  crash_loop: z.boolean(),
  /** No port leads to it any more, and it runs on only until its open connections have ended. */
  draining: z.boolean().optional(),
  /** What it wrote before the first exit of a crash loop: its last 50 lines, cut. */
  last_output: Cut(6000).optional(),
  exit_code: z.int().optional(),
  /** Also while it runs again. */
  last_exit: WireLastExit.optional(),
  /** Processes of its container that were killed for memory, the first one or another: counted as `restarts`. */
  memory_kills: z.int().optional(),
  notes: z
    .array(WireNote)
    .transform((notes) => notes.slice(0, 8))
    .optional(),
  started_at: Cut(64).optional(),
  /** `code` is one of `failureCodes`; `message` is the same for the same cause: no times, no counters. */
  error: z.object({ code: Cut(64), message: Cut(2000) }).optional(),
  ...resultFields,
  /** How far a running task or the copy of a volume is. It changes at most once per second. */
  progress: Progress.optional(),
  /** Of the hosts of routes. */
  certificates: z.array(Certificate).max(64).optional(),
  /** Of an archive. */
  archive: ArchiveStand.optional(),
  gone: z.boolean().optional(),
  /** The engine has not answered since the agent started: the report only confirms that the agent has the item. */
  unknown: z.boolean().optional(),
  events: WireEvents.optional(),
});

/**
 * The last state of one assignment that the agent saw. `generation` is the generation of the item that the agent acts
 * on. A report has `gone: true` once the item is no longer desired and its container is gone; the agent repeats it
 * until it is acknowledged. A report with a phase that this release does not know is read as `unknown`, one with progress
 * or a result that it cannot read as one without.
 */
export const WireReport = z
  .looseObject({ phase: z.string() })
  .transform((report) => (isPhase(report.phase) ? report : { ...report, phase: 'pending', unknown: true }))
  .transform(withoutUnreadable)
  .pipe(ReportFields);
export type WireReport = z.infer<typeof WireReport>;

/** The part of a report that is the same for every assignment of which nothing runs. */
export function blankReport({ id, generation }: Pick<WireReport, 'id' | 'generation'>): Omit<WireReport, 'phase'> {
  return { id, generation, ready: false, stable: false, restarts: 0, crash_loop: false };
}
