import { Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Load } from '../../agent-protocol/messages.ts';
import type { InstanceValue, WorkloadLoad } from '../../agent-protocol/metrics.ts';
import { assignment } from '../../store/kinds/assignment.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { serverOf } from '../../store/server-of.ts';

/** A server whose agent is connected to this replica. */
export interface ConnectedServer {
  tenant: string;
  id: string;
  name: string;
  /** What its agent sent with its last beat; absent before the first one. */
  load: Load | undefined;
  view: TenantView;
  /** Time for which nothing was read of its agent, as that sent too much. */
  pausedMs: number;
}

/** Most servers, and most workloads, that the metrics of one replica show. */
const mostShown = 5000;

type Shown = readonly [name: string, help: string, of: (load: Load) => number | undefined];

/** An agent that cannot measure memory or disk sends 0 as its size. */
const ifKnown = (value: number, total: number): number | undefined => (total > 0 ? value : undefined);

const shown: readonly Shown[] = [
  ['cpu_ratio', 'Share of all processors that was busy', (it) => it.cpu_percent / 100],
  ['cpu_cores', 'Processors', (it) => it.cores],
  ['memory_used_bytes', 'Memory in use', (it) => ifKnown(it.memory_used_bytes, it.memory_total_bytes)],
  ['memory_total_bytes', 'Memory', (it) => ifKnown(it.memory_total_bytes, it.memory_total_bytes)],
  ['disk_used_bytes', 'Disk of images and logs in use', (it) => ifKnown(it.disk_used_bytes, it.disk_total_bytes)],
  ['disk_total_bytes', 'Disk of images and logs', (it) => ifKnown(it.disk_total_bytes, it.disk_total_bytes)],
  ['network_receive_bytes_per_second', 'Bytes received per second', (it) => it.network_rx_bps],
  ['network_transmit_bytes_per_second', 'Bytes sent per second', (it) => it.network_tx_bps],
  ['images_removed', 'Images removed for room since the agent started', (it) => it.images_removed],
  ['images_freed_bytes', 'Bytes freed by that', (it) => it.images_freed_bytes],
];

/** Values of workloads, with what one of them is in the unit of its gauge. */
const shownOfWorkloads: readonly (readonly [name: string, help: string, of: InstanceValue, factor: number])[] = [
  ['cpu_cores', 'Processors that are busy with it', 'cpu_percent', 0.01],
  ['memory_used_bytes', 'Memory in use', 'memory_used_bytes', 1],
  ['memory_limit_bytes', 'Memory that it may use', 'memory_limit_bytes', 1],
  ['network_receive_bytes_per_second', 'Bytes received per second', 'network_rx_bps', 1],
  ['network_transmit_bytes_per_second', 'Bytes sent per second', 'network_tx_bps', 1],
  ['disk_read_bytes_per_second', 'Bytes read from disks per second', 'disk_read_bps', 1],
  ['disk_write_bytes_per_second', 'Bytes written to disks per second', 'disk_write_bps', 1],
];

/**
 * Gauges of each server whose agent this replica holds, by tenant, id and name. They go with the connection: no replica
 * shows a server that is away. With them go those of its workloads, by kind, id and name, each the sum over its instances
 * on the server. What an agent says of a workload that is not on its server is not shown.
 */
export function serverGauges(registry: Registry, connected: () => Iterable<ConnectedServer>): void {
  const ofServers = (valueOf: (server: ConnectedServer) => number | undefined) =>
    function* (): Generator<Row> {
      for (const server of Iterator.from(connected()).take(mostShown)) yield [labelsOf(server), valueOf(server)];
    };
  gauge(
    registry,
    'setpoint_server_connected',
    '1 for each server whose agent this replica holds',
    ofServers(() => 1),
  );
  gauge(
    registry,
    'setpoint_server_slowed_seconds',
    'Time for which this replica has read nothing of the agent, as it sent more than its bound',
    ofServers(({ pausedMs }) => (pausedMs > 0 ? pausedMs / 1000 : undefined)),
  );
  for (const [name, help, of] of shown)
    gauge(
      registry,
      `setpoint_server_${name}`,
      help,
      ofServers(({ load }) => (load === undefined ? undefined : of(load))),
    );

  const ofWorkloads = (valueOf: (load: WorkloadLoad) => number | undefined) =>
    function* (): Generator<Row> {
      const workloads = Iterator.from(connected()).flatMap(workloadsOf);
      for (const [labels, load] of workloads.take(mostShown)) yield [labels, valueOf(load)];
    };
  const running = ofWorkloads(({ instances }) => instances);
  gauge(registry, 'setpoint_workload_instances', 'Instances that run, whose agent this replica holds', running);
  for (const [name, help, of, factor] of shownOfWorkloads)
    gauge(
      registry,
      `setpoint_workload_${name}`,
      help,
      ofWorkloads(({ values: { [of]: value } }) => (value === undefined ? undefined : value * factor)),
    );
}

/**
 * Gauge of the servers, by tenant, that an agent joined and that have no live one at any replica. Every replica shows the
 * same.
 */
export function lostServers(registry: Registry, mirror: Pick<Mirror, 'tenants' | 'tenant'>): void {
  const made = new Gauge({
    name: 'setpoint_servers_lost',
    help: 'Servers that an agent joined and that no replica has an agent of',
    labelNames: ['tenant'],
    registers: [registry],
    collect() {
      made.reset();
      for (const tenant of mirror.tenants()) {
        const view = mirror.tenant(tenant);
        const isLost = (it: ReadonlyResource<'server'>): boolean =>
          it.desired.agent_public_key !== undefined && !isDeleting(it) && view.agent(it.meta.id) === undefined;
        made.set({ tenant }, view.list('server').filter(isLost).length);
      }
    },
  });
}

type Labels = Readonly<Record<string, string>>;
type Row = readonly [labels: Labels, value: number | undefined];

function labelsOf({ tenant, id, name }: ConnectedServer): Labels {
  return { tenant, server: id, name };
}

function* workloadsOf({ tenant, id, load, view }: ConnectedServer): Generator<readonly [Labels, WorkloadLoad]> {
  for (const one of load?.workloads ?? [])
    for (const kind of assignment.desired.shape.workload_kind.options) {
      const it = view.get(kind, one.workload_id);
      if (it !== undefined && (it.meta.id === id || serverOf(it) === id))
        yield [{ tenant, server: id, kind, workload: one.workload_id, name: it.desired.name }, one];
    }
}

function gauge(registry: Registry, name: string, help: string, rows: () => Iterable<Row>): void {
  const labelNames = name.startsWith('setpoint_server_')
    ? ['tenant', 'server', 'name']
    : ['tenant', 'server', 'kind', 'workload', 'name'];
  const made = new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      made.reset();
      for (const [labels, value] of rows()) if (value !== undefined) made.set(labels, value);
    },
  });
}
