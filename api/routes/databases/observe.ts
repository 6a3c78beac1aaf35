import { z } from 'zod';
import { CallError } from '../../../agent-protocol/call-error.ts';
import type { Usage } from '../../../databases/engine.ts';
import { engines } from '../../../databases/engines.ts';
import { parseMemory } from '../../../store/kinds/quantity.ts';
import { applicationsReferringTo, functionsReferringTo } from '../../../store/referring.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { ApiError } from '../../ground/api-error.ts';
import { instanceLinks, Linked, linkTo } from '../../resources/linked.ts';
import { databaseLogOf } from '../../workloads/database-log.ts';
import { askDatabase, isRunning, volumeBytes } from '../../workloads/database-queries.ts';
import { demandOf } from '../../workloads/encryption.ts';
import { databaseCredentials, isRotating } from '../../workloads/new-database.ts';
import { Logs, LogsQuery } from '../../workloads/log-query.ts';
import { pooledAddress } from '../../workloads/pooling.ts';
import { MetricsRange, readWorkloadMetrics, WorkloadMetrics } from '../../workloads/metrics.ts';
import { readLogs } from '../../workloads/read-logs.ts';

export const getDatabaseCredentials = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/credentials',
  summary: 'How clients log in, from its environment and, where its server opens a port for it, from outside',
  on: ['database', 'id'],
  givesSecrets: true,
  response: z
    .object({
      host: z.string().nullable().meta({ description: 'Outside of its environment; null: it is not reached there' }),
      port: z.int().nullable(),
      username: z.string(),
      password: z.string(),
      password_pending: z.boolean().meta({
        description: 'Its engine does not have the password yet that was asked for last; this is the former one',
      }),
      database: z.string(),
      connection_string: z.string().nullable(),
      internal_host: z.string(),
      internal_port: z.int(),
      internal_connection_string: z.string(),
      pooled_host: z
        .string()
        .nullable()
        .meta({ description: 'In its environment, where clients share connections; null: each has its own' }),
      pooled_port: z.int().nullable(),
      pooled_connection_string: z.string().nullable(),
      require_tls: z.boolean(),
      ca: z.string().nullable().meta({
        description:
          'Certificate in PEM of the authority of its environment, by which clients know its engine; null: that speaks no TLS',
      }),
    })
    .meta({ id: 'DatabaseCredentials' }),
  handle: async (ctx, { it }) => {
    const { desired } = it;
    const engine = engines[desired.type];
    const credentials = databaseCredentials(ctx, it);
    const inside = { host: desired.internal_id, port: engine.port };
    const server = ctx.view.get('server', desired.server_id)?.desired;
    const { exposed_port: port } = desired;
    const host = server?.direct_ports_enabled === true ? server.ip_address : undefined;
    const pooled = pooledAddress(it);
    const demand = demandOf(desired);
    const outside = host === undefined || port === undefined ? undefined : { host, port };
    return {
      host: outside?.host ?? null,
      port: outside?.port ?? null,
      username: credentials.username,
      password: credentials.password,
      password_pending: isRotating(it),
      database: credentials.database,
      connection_string: outside === undefined ? null : engine.url(outside, credentials, demand),
      internal_host: inside.host,
      internal_port: inside.port,
      internal_connection_string: engine.url(inside, credentials, demand),
      pooled_host: pooled?.host ?? null,
      pooled_port: pooled?.port ?? null,
      pooled_connection_string: pooled === undefined ? null : engine.url(pooled, credentials, demand),
      require_tls: demand.isEncrypted,
      ca: desired.tls?.authority ?? null,
    };
  },
});

export const readDatabaseLogs = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/logs',
  summary: 'What a database wrote, also before its last restart',
  on: ['database', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: (ctx, { it, query }) => readLogs(ctx, it.desired.server_id, query, databaseLogOf(it)),
});

/** What the engine tells of its connections, or why it does not. */
type Asked = Usage & { lack?: string };
const notAsked: Asked = {};
/** Steps after which a measurement is not of now any more. */
const stepsOfNow = 3;

async function usageOf(ctx: RequestContext, it: ReadonlyResource<'database'>): Promise<Asked> {
  try {
    return await askDatabase(ctx, it, engines[it.desired.type].usage);
  } catch (error) {
    if (error instanceof ApiError && error.code === 'CONFLICT') return { lack: error.message };
    if (error instanceof CallError) return { lack: `The agent could not ask the database: ${error.message}` };
    throw error;
  }
}

export const getDatabaseMetrics = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/metrics',
  summary: 'Connections by the engine’s own query, and the history of processor, memory, network and disk',
  on: ['database', 'id'],
  query: MetricsRange,
  response: z
    .object({
      cpu_percent: z.number().nullable(),
      memory_used_bytes: z.number().nullable(),
      memory_limit_bytes: z.number().nullable(),
      connections: z.int().nullable(),
      connections_error: z.string().nullable().meta({ description: 'Why its engine does not tell of connections' }),
      max_connections: z.int().nullable(),
      uptime_seconds: z.int().nullable(),
      collected_at: z.iso.datetime(),
      series: WorkloadMetrics,
    })
    .meta({ id: 'DatabaseMetrics' }),
  handle: async (ctx, { it, query }) => {
    const { desired, meta } = it;
    const runs = isRunning(ctx.view, it);
    const [usage, series] = await Promise.all([
      // what does not run has its history all the same
      runs ? usageOf(ctx, it) : notAsked,
      readWorkloadMetrics(ctx, { id: meta.id, server: desired.server_id }, query),
    ]);
    const now = ctx.clock.now();
    // by the clock of the server, which ends the time at its own present
    const present = Math.min(now.getTime(), query.until === undefined ? Date.parse(series.until) : Infinity);
    const since = present - stepsOfNow * series.step_seconds * 1000;
    const newest = series.points.findLast(({ timestamp }) => runs && Date.parse(timestamp) >= since);
    const limit = desired.memory_limit === undefined ? undefined : parseMemory(desired.memory_limit);
    return {
      cpu_percent: newest?.cpu.percent ?? null,
      memory_used_bytes: newest?.memory.used_bytes ?? null,
      memory_limit_bytes: limit !== undefined && 'bytes' in limit ? limit.bytes : null,
      connections: usage.connections ?? null,
      connections_error: usage.lack ?? null,
      max_connections: usage.maxConnections ?? null,
      uptime_seconds: usage.uptimeSeconds ?? null,
      collected_at: now.toISOString(),
      series,
    };
  },
});

export const getDatabaseStorage = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/storage',
  summary: 'What its databases take by the engine’s own query, and what its volume takes on the disk of its server',
  on: ['database', 'id'],
  response: z
    .object({
      used_bytes: z.number().meta({ description: 'The sum of its databases' }),
      volume_bytes: z.number().nullable(),
      databases: z.array(z.object({ name: z.string(), bytes: z.number() })).max(50),
    })
    .meta({ id: 'DatabaseStorage' }),
  handle: async (ctx, { it }) => {
    const [all, volume_bytes] = await Promise.all([
      askDatabase(ctx, it, engines[it.desired.type].storage),
      volumeBytes(ctx, it),
    ]);
    return {
      used_bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
      volume_bytes,
      databases: all.slice(0, 50),
    };
  },
});

export const listDatabaseDependencies = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/dependencies',
  summary: 'What is linked to a database: applications whose variables refer to it, and its volumes',
  on: ['database', 'id'],
  response: z.object({
    applications: z.array(Linked),
    databases: z.array(Linked),
    volumes: z.array(Linked),
    functions: z.array(Linked),
    template_instance: Linked.nullable(),
  }),
  handle: async ({ view }, { it }) => ({
    applications: applicationsReferringTo(view, it).map(linkTo),
    databases: [],
    volumes: view.by('volume', 'database', it.meta.id).map(linkTo),
    functions: functionsReferringTo(view, it).map(linkTo),
    template_instance: instanceLinks(view, it.desired)[0] ?? null,
  }),
});
