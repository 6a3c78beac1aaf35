import type { PortPolicy } from './port-policy.ts';

/** Settings of a server, which the control plane sends to its agent in the welcome and whenever they change. */
export interface ServerSettings {
  logRetentionDays: number;
  /** Absent from control planes that do not judge ports. */
  ports?: PortPolicy | undefined;
  /** Absent from control planes that have no list of registries. */
  registries?: readonly string[] | undefined;
  /** The later version that the agent is to run; absent: it stays as it is. */
  update?: AgentUpdate | undefined;
}

/** A request for a version of the agent. The same version is asked for again at another time. */
export interface AgentUpdate {
  version: string;
  /** RFC 3339. */
  requestedAt: string;
}

/** The settings in the form of the messages. */
interface WireSettings {
  log_retention_days: number;
  ports?: PortPolicy | undefined;
  registries?: readonly string[] | undefined;
  update?: { version: string; requested_at: string } | undefined;
}

export function settingsOf({
  log_retention_days: logRetentionDays,
  ports,
  registries,
  update: asked,
}: WireSettings): ServerSettings {
  const update = asked && { version: asked.version, requestedAt: asked.requested_at };
  return { logRetentionDays, ports, registries, update };
}
