import { z } from 'zod';
import { answerOf } from '../../agent-protocol/answer.ts';
import {
  instanceValues,
  mostInstances,
  mostPoints,
  MetricsPage,
  sampledForMs,
  sampleMs,
  serverValues,
} from '../../agent-protocol/metrics.ts';
import type { InstanceValue, Measured, MetricsQuery, ServerValue } from '../../agent-protocol/metrics.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { Clock } from '../../time/clock.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField } from '../ground/api-error.ts';
import { requireAgent } from './agent-capability.ts';
import { instantOf, InstantText } from './instant.ts';

const timeoutMs = 15_000;

/** Query of every endpoint that reads metrics. */
export const MetricsRange = z.object({
  since: InstantText.default('1h'),
  until: InstantText.optional(),
  step: z.string().max(10).default('5s').meta({
    description: 'From 5s to 1h: seconds, or 30s, 5m, 1h. What is kept for that time may be coarser: see step_seconds',
  }),
});
export type MetricsRange = z.infer<typeof MetricsRange>;

const Value = z.number().nullable();
const Share = z.object({ used_bytes: Value, total_bytes: Value, percent: Value });
const Network = z
  .object({ rx_bps: Value, tx_bps: Value })
  .meta({ description: 'Bytes per second, of all interfaces to the outside' });

/** Fields of every answer with metrics. */
const range = {
  since: z.iso.datetime(),
  until: z.iso.datetime(),
  step_seconds: z.int().meta({ description: 'At least the step that was asked for' }),
};

const pointTime = z.iso.datetime().meta({ description: 'When its step begins, by the clock of the server' });

const ServerPoint = z
  .object({
    timestamp: pointTime,
    cpu: z.object({ percent: Value, load1: Value }),
    memory: Share,
    disk: Share,
    network: Network.optional(),
    max: z.object({
      cpu_percent: Value,
      memory_used_bytes: Value,
      disk_used_bytes: Value,
      network_rx_bps: Value.optional(),
      network_tx_bps: Value.optional(),
    }),
  })
  .meta({ id: 'ServerMetricsPoint', description: 'Means of one step and, in max, the largest samples in it' });
type ServerPoint = z.infer<typeof ServerPoint>;

const instanceFields = {
  cpu: z.object({ percent: Value.meta({ description: '100 is one processor' }) }),
  memory: z.object({ used_bytes: Value, limit_bytes: Value }),
  network: Network,
  disk: z.object({ read_bps: Value, write_bps: Value }),
};

const WorkloadUsage = z
  .object({ workload_id: z.string(), instances: z.int(), ...instanceFields })
  .meta({ id: 'WorkloadUsage' });
type WorkloadUsage = z.infer<typeof WorkloadUsage>;

export const ServerMetrics = z
  .object({
    server_id: z.string(),
    ...range,
    points: z.array(ServerPoint).max(mostPoints).meta({ description: 'A time that nothing is known of has no point' }),
    workloads: z
      .array(WorkloadUsage)
      .max(mostInstances)
      .optional()
      .meta({ description: 'What runs there now, by the last sample; only for admins' }),
  })
  .meta({ id: 'ServerMetrics' });
type ServerMetrics = z.infer<typeof ServerMetrics>;

const WorkloadPoint = z
  .object({
    timestamp: pointTime,
    ...instanceFields,
    max: z.object({
      cpu_percent: Value,
      memory_used_bytes: Value,
      network_rx_bps: Value,
      network_tx_bps: Value,
      disk_read_bps: Value,
      disk_write_bps: Value,
    }),
  })
  .meta({
    id: 'WorkloadMetricsPoint',
    description: 'Means of one step, the sum of its instances; max: the sum of the largest samples of each',
  });
type WorkloadPoint = z.infer<typeof WorkloadPoint>;

/** The history of a workload. */
const history = { ...range, points: z.array(WorkloadPoint).max(mostPoints) };
export const WorkloadMetrics = z.object(history).meta({ id: 'WorkloadMetrics' });
type WorkloadMetrics = z.infer<typeof WorkloadMetrics>;

export const ApplicationMetrics = z
  .object({ application_id: z.string(), server_id: z.string(), ...history })
  .meta({ id: 'ApplicationMetrics' });

/** @throws ApiError UNAVAILABLE if the agent is away, CONFLICT if it is of a release that keeps no metrics */
export function requireMetrics(agent: LiveAgent | undefined): void {
  requireAgent(agent, 'metrics', { lack: 'keeps no metrics' });
}

/** @throws ApiError; CallError if the agent does not answer */
export async function readServerMetrics(
  ctx: RequestContext,
  serverId: string,
  asked: MetricsRange,
  isMasked: boolean,
): Promise<ServerMetrics> {
  const page = await readPage(ctx, serverId, asked, {});
  return {
    server_id: serverId,
    ...rangeOf(page),
    points: page.rows.map((row) => serverPoint(row, isMasked)),
    ...(!isMasked && page.latest !== undefined && { workloads: usageOf(page.latest) }),
  };
}

/** The sum of all instances, or one of them. @throws as {@link readServerMetrics} */
export async function readWorkloadMetrics(
  ctx: RequestContext,
  { id, server }: { id: string; server: string },
  asked: MetricsRange & { instance_id?: string | undefined },
): Promise<WorkloadMetrics> {
  const { instance_id } = asked;
  const page = await readPage(ctx, server, asked, {
    workload_id: id,
    ...(instance_id !== undefined && { instance_id }),
  });
  return { ...rangeOf(page), points: page.rows.map(workloadPoint) };
}

async function readPage(
  ctx: RequestContext,
  serverId: string,
  asked: MetricsRange,
  of: Pick<MetricsQuery, 'workload_id' | 'instance_id'>,
): Promise<MetricsPage> {
  const query = { ...of, ...timesOf(asked, ctx.clock) };
  requireMetrics(ctx.view.agent(serverId));
  const options = { timeoutMs, signal: ctx.signal() };
  const answer = await ctx.agents.call(ctx.tenant, serverId, { method: 'metrics.read', query }, options);
  return answerOf(MetricsPage, answer);
}

export function timesOf(
  { since, until, step }: MetricsRange,
  clock: Clock,
): Pick<MetricsQuery, 'since' | 'until' | 'step_ms'> {
  const from = instantOf('since', since, clock);
  const to = until === undefined ? clock.now().getTime() : instantOf('until', until, clock);
  if (from < 0) throw badField('since', 'invalid', `since must not be before 1970: got ${since}`);
  if (from >= to) throw badField('since', 'invalid', `since must be before until: got ${since}`);
  return { since: from, until: to, step_ms: stepOf(step) };
}

const unitMs = { s: 1000, m: 60_000, h: 3_600_000 } as const;

function stepOf(text: string): number {
  const [, amount, unit = 's'] = /^(\d{1,4})([smh]?)$/.exec(text) ?? [];
  const ms = Number(amount) * unitMs[(unit || 's') as keyof typeof unitMs]; // the pattern allows only these
  if (!(ms >= sampleMs && ms <= sampledForMs))
    throw badField('step', 'invalid', `step must be from 5s to 1h, such as 30s or 5m: got ${text}`);
  return ms;
}

function rangeOf({ since, until, step_ms }: MetricsPage): Pick<ServerMetrics, 'since' | 'until' | 'step_seconds'> {
  return { since: textOf(since), until: textOf(until), step_seconds: step_ms / 1000 };
}

const textOf = (ms: number): string => new Date(ms).toISOString();

type Row = MetricsPage['rows'][number];

/** The means, then the maxima of a row, by the names of its values. */
function named<V extends string>([, ...values]: Row, names: readonly V[]): [Measured<V>, Measured<V>] {
  const of = (offset: number): Measured<V> => {
    const found: Partial<Record<V, number>> = {};
    for (const [n, name] of names.entries()) {
      const value = values[offset + n];
      if (value !== null && value !== undefined) found[name] = value;
    }
    return found;
  };
  return [of(0), of(names.length)];
}

function serverPoint(row: Row, isMasked: boolean): ServerPoint {
  const [mean, max] = named<ServerValue>(row, serverValues);
  return {
    timestamp: textOf(row[0]),
    cpu: { percent: mean.cpu_percent ?? null, load1: mean.load1 ?? null },
    memory: shareOf(mean.memory_used_bytes, mean.memory_total_bytes),
    disk: shareOf(mean.disk_used_bytes, mean.disk_total_bytes),
    ...(!isMasked && { network: networkOf(mean) }),
    max: {
      cpu_percent: max.cpu_percent ?? null,
      memory_used_bytes: max.memory_used_bytes ?? null,
      disk_used_bytes: max.disk_used_bytes ?? null,
      ...(!isMasked && {
        network_rx_bps: max.network_rx_bps ?? null,
        network_tx_bps: max.network_tx_bps ?? null,
      }),
    },
  };
}

export function shareOf(used: number | undefined, total: number | undefined): z.infer<typeof Share> {
  const isKnown = used !== undefined && total !== undefined && total > 0;
  return {
    used_bytes: used ?? null,
    total_bytes: total ?? null,
    percent: isKnown ? Math.round((used / total) * 1000) / 10 : null,
  };
}

export function networkOf(values: Measured<'network_rx_bps' | 'network_tx_bps'>): z.infer<typeof Network> {
  return { rx_bps: values.network_rx_bps ?? null, tx_bps: values.network_tx_bps ?? null };
}

function instanceFieldsOf(values: Measured<InstanceValue>): Omit<WorkloadUsage, 'workload_id' | 'instances'> {
  return {
    cpu: { percent: values.cpu_percent ?? null },
    memory: { used_bytes: values.memory_used_bytes ?? null, limit_bytes: values.memory_limit_bytes ?? null },
    network: networkOf(values),
    disk: { read_bps: values.disk_read_bps ?? null, write_bps: values.disk_write_bps ?? null },
  };
}

function workloadPoint(row: Row): WorkloadPoint {
  const [mean, max] = named<InstanceValue>(row, instanceValues);
  return {
    timestamp: textOf(row[0]),
    ...instanceFieldsOf(mean),
    max: {
      cpu_percent: max.cpu_percent ?? null,
      memory_used_bytes: max.memory_used_bytes ?? null,
      network_rx_bps: max.network_rx_bps ?? null,
      network_tx_bps: max.network_tx_bps ?? null,
      disk_read_bps: max.disk_read_bps ?? null,
      disk_write_bps: max.disk_write_bps ?? null,
    },
  };
}

function usageOf(latest: NonNullable<MetricsPage['latest']>): WorkloadUsage[] {
  const byWorkload = Map.groupBy(latest, (it) => it.workload_id);
  return [...byWorkload].map(([workload_id, instances]) => {
    const total: Partial<Record<InstanceValue, number>> = {};
    for (const { values } of instances)
      for (const name of instanceValues) {
        const value = values[name];
        if (value !== undefined) total[name] = Math.round(((total[name] ?? 0) + value) * 100) / 100;
      }
    return { workload_id, instances: instances.length, ...instanceFieldsOf(total) };
  });
}
