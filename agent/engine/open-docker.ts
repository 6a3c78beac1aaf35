import { IptablesPublisher } from '../ports/iptables-publisher.ts';
import { BridgeGuard } from '../ports/step-guard.ts';
import { dockerRuntime } from '../runtime/docker/docker-runtime.ts';
import { dockerWords } from '../runtime/docker/trouble-words.ts';
import { prober } from '../runtime/probe.ts';
import { folderArchiver } from './volume-archiver.ts';
import { folderCopier } from './volume-copier.ts';
import type { DockerSettings, Engine } from './engine.ts';
import { engineTrouble } from './engine-trouble.ts';

/** The Docker engine of this machine, whose ports are published by the kernel. */
export function openDocker({ options, server, owner, takeOverPorts, log }: DockerSettings): Engine {
  const { clock } = options;
  const runtime = dockerRuntime(options);
  return {
    runtime,
    ports: new IptablesPublisher(server, { clock, log, takeOver: takeOverPorts }),
    hasRules: true,
    steps: new BridgeGuard(server, { runtime, clock, log }),
    copier: folderCopier(runtime, owner, clock),
    archiver: folderArchiver(runtime, owner),
    prober: prober({ clock, runtime }),
    trouble: (error) => engineTrouble(dockerWords, error),
  };
}
