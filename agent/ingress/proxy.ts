import type { Certificate } from '../../agent-protocol/workload.ts';
import type { AgentPorts } from './config.ts';
import type { Backends } from './name-server.ts';

/** What the proxy asks the agent. */
export interface Asked {
  backends: Backends;
  /** Whether the proxy may get a certificate for the host. */
  isEncrypted: (host: string) => boolean;
}

/** A certificate, with the time from which it is valid, or why there is none. */
export type ShownCertificate = Certificate & { begins_at?: string };

/** Paths of sockets. */
export interface ProxySockets {
  /** Where the proxy listens for its administration. */
  admin: string;
  /** Where the agent listens for the questions of the proxy for instances. */
  names: string;
}

/** The proxy of a server, as its agent reaches it. */
export interface Proxy {
  /**
   * Answers the proxy, at these ports if they are free. Its questions are about what is at the moment, so that a change of
   * instances changes no configuration.
   */
  serve(asked: Asked, ports: AgentPorts | undefined): Promise<{ ports: AgentPorts } & AsyncDisposable>;
  /** The configuration that it runs with. @throws Error if it does not answer */
  config(signal: AbortSignal): Promise<unknown>;
  /** Replaces the configuration. @throws Refused, and nothing has changed; Error if it does not answer */
  load(config: unknown, signal: AbortSignal): Promise<void>;
  /** The certificate that it shows for a host, which it gets first if it has none. */
  certificate(host: string, port: number, signal: AbortSignal): Promise<ShownCertificate>;
}

/** The proxy does not take a configuration. */
export class Refused extends Error {}
