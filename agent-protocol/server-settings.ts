import type { PortPolicy } from './port-policy.ts';

/** What the control plane tells an agent about its server, with the welcome and whenever it changes. */
export interface ServerSettings {
  logRetentionDays: number;
  /** Absent from control planes that do not judge ports. */
  ports?: PortPolicy | undefined;
  /** Absent from control planes that have no list of registries. */
  registries?: readonly string[] | undefined;
}

/** As messages carry them. */
interface Told {
  log_retention_days: number;
  ports?: PortPolicy | undefined;
  registries?: readonly string[] | undefined;
}

export function settingsOf({ log_retention_days: logRetentionDays, ports, registries }: Told): ServerSettings {
  return { logRetentionDays, ports, registries };
}
