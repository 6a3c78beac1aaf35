import { Counter, Gauge } from 'prom-client';
import type { Registry } from 'prom-client';

/** Metrics of the gateway. Made once per registry. */
export interface GatewayMetrics {
  /** `result`: welcomed, busy, failed, or the code of the refusal. */
  readonly handshakes: Counter<'result'>;
  readonly reports: Counter<'result'>;
  readonly desired: Counter<'form'>;
  readonly relayed: Counter<'result'>;
}

export function gatewayMetrics(registry: Registry, connected: () => number): GatewayMetrics {
  const registers = [registry];
  const sessions: Gauge = new Gauge({
    name: 'setpoint_agents_connected',
    help: 'Agents whose sessions this replica holds',
    registers,
    collect() {
      sessions.set(connected());
    },
  });
  return {
    handshakes: new Counter({
      name: 'setpoint_agent_handshakes_total',
      help: 'Connections of agents by how their handshake ended',
      labelNames: ['result'] as const,
      registers,
    }),
    reports: new Counter({
      name: 'setpoint_agent_reports_total',
      help: 'Reported states of assignments by what became of them',
      labelNames: ['result'] as const,
      registers,
    }),
    desired: new Counter({
      name: 'setpoint_agent_desired_sets_total',
      help: 'Snapshots and deltas sent to agents',
      labelNames: ['form'] as const,
      registers,
    }),
    relayed: new Counter({
      name: 'setpoint_relay_requests_total',
      help: 'Calls and streams passed to another replica by how it took them',
      labelNames: ['result'] as const,
      registers,
    }),
  };
}
