import { z } from 'zod';
import { answerOf } from '../../agent-protocol/answer.ts';
import {
  latencyError,
  mostTrafficInstances,
  mostTrafficPoints,
  statusClasses,
  TrafficPage,
  windowMs,
} from '../../agent-protocol/traffic.ts';
import type { TrafficCounts, TrafficRow, TrafficSample } from '../../agent-protocol/traffic.ts';
import { enabledIngress } from '../../store/kinds/server-ingress.ts';
import type { LiveAgent, TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { generatedHost } from '../../store/routed-hosts.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { requireAgent } from './agent-capability.ts';
import { MetricsRange, timesOf } from './metrics.ts';

const timeoutMs = 15_000;

/** Query of the traffic of an application. */
export const TrafficRange = MetricsRange;

const Count = z.int();
const Milliseconds = z.number().nullable();
const counts = {
  requests: Count.meta({ description: 'That ended in that time. A WebSocket ends when it is closed' }),
  rps: z.number().meta({ description: 'Requests per second' }),
  status: z
    .record(z.enum(statusClasses), Count)
    .meta({ description: '1xx: WebSockets. A request whose client left before an answer began is in none' }),
  latency_ms: z.object({ p50: Milliseconds, p95: Milliseconds, p99: Milliseconds }).meta({
    description: `Until the end of the answer, within ${latencyError * 100} % of the true value; null: nothing was answered. WebSockets and answers that were cut are not in it`,
  }),
  bytes_in: Count.meta({ description: 'Bodies of requests, and what came in by WebSockets' }),
  bytes_out: Count.meta({ description: 'Bodies of answers, and what went out by WebSockets' }),
  refused: z
    .object({ unavailable: Count, unauthorized: Count, body_too_large: Count })
    .meta({ description: 'What the proxy itself answered; unavailable: no instance was ready, or it did not answer' }),
  aborted: Count.meta({ description: 'The client left before it was answered' }),
  cut: Count.meta({ description: 'The answer ended before it was whole' }),
};

const complete = z.boolean().meta({ description: 'false: requests may be missing, as the log was not read in time' });

const InstanceTraffic = z.object({ instance_id: z.string(), ...counts }).meta({ id: 'InstanceTraffic' });

const TrafficPoint = z
  .object({ timestamp: z.iso.datetime().meta({ description: 'When its step begins' }), complete, ...counts })
  .meta({ id: 'TrafficPoint' });

/** Why there are no figures of an application. */
const trafficReasons = ['NoIngress', 'NoDomain'] as const;
export interface NoTraffic {
  reason: (typeof trafficReasons)[number];
  message: string;
}

export const ApplicationTraffic = z
  .object({
    application_id: z.string(),
    server_id: z.string(),
    available: z.boolean().meta({ description: 'false: requests do not come by the proxy, and so are not counted' }),
    reason: z.enum(trafficReasons).nullable(),
    message: z.string().nullable().meta({ description: 'Why there are no figures, and what to do' }),
    since: z.iso.datetime(),
    until: z.iso.datetime(),
    step_seconds: z.int(),
    total: z
      .object({ complete, ...counts })
      .nullable()
      .meta({ description: 'null: nothing is known of that time' }),
    points: z
      .array(TrafficPoint)
      .max(mostTrafficPoints)
      .meta({ description: 'A time that nothing is known of has no point; one without requests has zeros' }),
    instances: z
      .array(InstanceTraffic)
      .max(mostTrafficInstances)
      .meta({ description: 'Also those that are gone. What reached no instance is in the total only' }),
  })
  .meta({ id: 'ApplicationTraffic' });
type ApplicationTraffic = z.infer<typeof ApplicationTraffic>;

type App = ReadonlyResource<'application'>;

/** Why requests to the application are not counted; `undefined`: they are. */
export function lackOfTraffic(view: TenantView, { desired }: App): NoTraffic | undefined {
  const server = view.get('server', desired.server_id)?.desired;
  if (server === undefined || enabledIngress(server) === undefined)
    return {
      reason: 'NoIngress',
      message:
        'The ingress of its server is not enabled: requests to published ports are not counted. Enable it, and give the application a domain',
    };
  if (desired.domains.length === 0 && generatedHost(desired, server) === undefined)
    return {
      reason: 'NoDomain',
      message:
        'The application has no domain, and requests to published ports are not counted: give it a domain, or its server a wildcard domain',
    };
  return undefined;
}

/** @throws ApiError UNAVAILABLE if the agent is away, CONFLICT if it is of a release that counts nothing */
export function requireTraffic(agent: LiveAgent | undefined): void {
  requireAgent(agent, 'traffic', { lack: 'does not count requests' });
}

/** All instances together, or one of them. @throws ApiError; CallError if the agent does not answer */
export async function readTraffic(
  ctx: RequestContext,
  it: App,
  asked: MetricsRange & { instance_id?: string | undefined },
): Promise<ApplicationTraffic> {
  const server_id = it.desired.server_id;
  const times = timesOf(asked, ctx.clock);
  const common = { application_id: it.meta.id, server_id };
  const lack = lackOfTraffic(ctx.view, it);
  if (lack !== undefined)
    return { ...common, available: false, ...lack, ...rangeOf(times), total: null, points: [], instances: [] };
  requireTraffic(ctx.view.agent(server_id));
  const { instance_id } = asked;
  const query = { ...times, workload_id: it.meta.id, ...(instance_id !== undefined && { instance_id }) };
  const options = { timeoutMs, signal: ctx.signal() };
  const answer = await ctx.agents.call(ctx.tenant, server_id, { method: 'traffic.read', query }, options);
  const page = answerOf(TrafficPage, answer);
  const { total, rows, instances, step_ms } = page;
  const totalMs = rows.length * step_ms;
  return {
    ...common,
    available: true,
    reason: null,
    message: null,
    ...rangeOf(page),
    total: rows.length === 0 ? null : { complete: total.complete, ...shownOf(total, totalMs) },
    points: rows.slice(-mostTrafficPoints).map((row) => pointOf(row, step_ms)),
    instances: instances.map((one) => ({ instance_id: one.instance_id, ...shownOf(one, totalMs) })),
  };
}

/** A frame of the stream. */
export function trafficFrame({ instances, ...row }: TrafficSample): object {
  return {
    type: 'traffic',
    window_seconds: windowMs / 1000,
    ...pointOf(row, windowMs),
    instances: instances.map((one) => ({ instance_id: one.instance_id, ...shownOf(one, windowMs) })),
  };
}

function pointOf(row: TrafficRow, ms: number): z.infer<typeof TrafficPoint> {
  return { timestamp: new Date(row.at).toISOString(), complete: row.complete, ...shownOf(row, ms) };
}

function shownOf(it: TrafficCounts, ms: number) {
  const { requests, status, latency_ms, bytes_in, bytes_out, refused, aborted, cut } = it;
  return {
    requests,
    rps: ms === 0 ? 0 : Math.round((requests * 100_000) / ms) / 100,
    status,
    latency_ms: latency_ms ?? { p50: null, p95: null, p99: null },
    bytes_in,
    bytes_out,
    refused,
    aborted,
    cut,
  };
}

function rangeOf({ since, until, step_ms }: { since: number; until: number; step_ms: number }) {
  return {
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    step_seconds: step_ms / 1000,
  };
}
