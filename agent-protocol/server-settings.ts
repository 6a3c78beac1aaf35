import type { PortPolicy } from './port-policy.ts';

/** Settings of a server, which the control plane sends to its agent in the welcome and whenever they change. */
export interface ServerSettings {
  logRetentionDays: number;
  /** Absent from control planes that do not judge ports. */
  ports?: PortPolicy | undefined;
  /** Absent from control planes that have no list of registries. */
  registries?: readonly string[] | undefined;
}

/** The settings in the form of the messages. */
interface WireSettings {
  log_retention_days: number;
  ports?: PortPolicy | undefined;
  registries?: readonly string[] | undefined;
}

export function settingsOf({ log_retention_days: logRetentionDays, ports, registries }: WireSettings): ServerSettings {
  return { logRetentionDays, ports, registries };
}
