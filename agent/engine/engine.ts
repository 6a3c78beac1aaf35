import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { PortPublisher } from '../ports/port-publisher.ts';
import type { StepGuard } from '../ports/step-guard.ts';
import type { DockerOptions } from '../runtime/docker/docker-runtime.ts';
import type { MockEngine } from '../runtime/mock/mock-engine.ts';
import type { Prober } from '../runtime/probe.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import type { VolumeArchiver } from './volume-archiver.ts';
import type { VolumeCopier } from './volume-copier.ts';
import type { Trouble } from './engine-trouble.ts';

/** A container engine with all that the agent needs of it. Another kind of engine is another value of this type. */
export interface Engine {
  runtime: ContainerRuntime;
  /** Makes ports of the server lead to its containers. */
  ports: PortPublisher;
  /** Whether it does so by rules of the kernel's packet filter, which outlive an agent. */
  hasRules: boolean;
  /** Keeps steps of builds from what they may not reach. */
  steps: StepGuard;
  copier: VolumeCopier;
  archiver: VolumeArchiver;
  /** Checks the health of its containers. */
  prober: Prober;
  /** Describes why it cannot be used, and what to do. The text is the same while the cause is the same. */
  trouble: (error: unknown) => Trouble;
}

export interface DockerSettings {
  type: 'docker';
  options: DockerOptions;
  /** Id of the server, by which the rules of its ports are found. */
  server: string;
  /** Names the agent in the environment of the programs that it starts. */
  owner: string;
  /** Whether ports are taken from agents that left rules on this machine but no longer run here. */
  takeOverPorts: boolean;
  log: Logger;
}

/** An engine in memory. */
export interface MockSettings {
  type: 'mock';
  clock: Clock;
  /** Absent: a new one that has an image of every name. */
  engine?: MockEngine;
  /** Absent: those of a machine of its own. */
  ports?: PortPublisher;
}

/** Opens an engine. Only its own modules are loaded: each takes memory for as long as the agent runs. */
export async function engineOf(settings: DockerSettings | MockSettings): Promise<Engine> {
  switch (settings.type) {
    case 'docker':
      return (await import('./open-docker.ts')).openDocker(settings);
    case 'mock':
      return (await import('./open-mock.ts')).openMock(settings);
  }
}
