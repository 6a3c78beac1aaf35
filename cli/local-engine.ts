import type { Logger } from 'pino';
import type { PortPublisher } from '../agent/ports/publication.ts';
import type { Prober } from '../agent/runtime/probe.ts';
import type { ContainerRuntime } from '../agent/runtime/runtime.ts';
import type { AgentConfig } from './agent-config.ts';

/** A container engine, with what publishes ports of its containers and asks them whether they are healthy. */
export interface LocalEngine {
  runtime: ContainerRuntime;
  ports: PortPublisher;
  prober: Prober;
}

/** What an engine is opened with. */
export interface EngineOptions {
  config: AgentConfig;
  serverId: string;
  log: Logger;
}
