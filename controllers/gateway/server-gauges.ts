import { Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Load } from '../../agent-protocol/messages.ts';

/** A server whose agent is connected to this replica. */
export interface ConnectedServer {
  tenant: string;
  id: string;
  name: string;
  /** What its agent sent with its last beat; absent before the first one. */
  load: Load | undefined;
}

/** Most servers that the metrics of one replica show. */
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

/**
 * Gauges of each server whose agent this replica holds, by tenant, id and name. They go with the connection: no replica
 * shows a server that is away.
 */
export function serverGauges(registry: Registry, connected: () => Iterable<ConnectedServer>): void {
  gauge(registry, 'connected', '1 for each server whose agent this replica holds', connected, () => 1);
  for (const [name, help, of] of shown)
    gauge(registry, name, help, connected, ({ load }) => (load === undefined ? undefined : of(load)));
}

function gauge(
  registry: Registry,
  name: string,
  help: string,
  connected: () => Iterable<ConnectedServer>,
  valueOf: (server: ConnectedServer) => number | undefined,
): void {
  const made = new Gauge({
    name: `setpoint_server_${name}`,
    help,
    labelNames: ['tenant', 'server', 'name'] as const,
    registers: [registry],
    collect() {
      made.reset();
      for (const server of Iterator.from(connected()).take(mostShown)) {
        const value = valueOf(server);
        if (value !== undefined) made.set({ tenant: server.tenant, server: server.id, name: server.name }, value);
      }
    },
  });
}
