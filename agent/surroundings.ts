import { once } from 'node:events';
import { request } from 'node:https';
import { connect, isIP } from 'node:net';
import type { Logger } from 'pino';
import type { Clock } from '../time/clock.ts';
import type { World } from './diagnose/world.ts';
import type { DiskSpace } from './disk/disk-guard.ts';
import { addressesOf } from '../network/addresses-of.ts';
import type { EngineMonitor } from './engine/engine-monitor.ts';
import type { Housekeeping } from './housekeeping.ts';
import type { LogStore } from './logs/log-store.ts';
import { readInotify } from './machine/inotify.ts';
import { listeningPorts, userOfPort } from './machine/listeners.ts';
import { readMemory } from './machine/memory.ts';
import { iptables } from './ports/firewall.ts';
import { foreignPorts } from './ports/foreign-rules.ts';
import type { Publication } from './ports/publication.ts';
import { shortOwner } from './ports/rules.ts';
import { RuntimeFailure } from './runtime/runtime.ts';

/** What the checks ask of the network around the machine. */
export interface Outside {
  resolve(host: string, signal: AbortSignal): Promise<readonly string[]>;
  ask(registry: string, signal: AbortSignal): Promise<number>;
  connect(host: string, port: number, signal: AbortSignal): Promise<void>;
}

interface Deps {
  server: string;
  controlPlane: readonly string[];
  /** Registries that the tenant allows; `undefined`: every public one. */
  registries: () => readonly string[] | undefined;
  disk: () => Promise<DiskSpace>;
  git: World['git'];
  monitor: EngineMonitor;
  publication: Publication;
  logs: LogStore;
  housekeeping: Pick<Housekeeping, 'clean'>;
  strays: World['strays'];
  /** Ports lead to containers by rules of the kernel. */
  hasRules: boolean;
  outside: Outside;
  clock: Clock;
  log: Logger;
}

/** Most registries that are asked in one examination. */
const mostRegistries = 5;
/** Names under which registries are asked that have another one. */
const aliases: Readonly<Record<string, string>> = { 'docker.io': 'registry-1.docker.io' };

/** The machine and the network of the agent, as its checks see them. */
export function surroundingsOf(deps: Deps): Omit<World, 'engine'> {
  const { server, monitor, publication, logs, housekeeping, outside, log } = deps;
  return {
    trouble: () => monitor.state.trouble?.message,
    disk: deps.disk,
    async memory() {
      const memory = await readMemory();
      if (memory === undefined) throw new Error('The kernel does not tell how much memory there is');
      return memory;
    },
    inotify: (signal) => readInotify(signal),
    git: deps.git,
    controlHosts: [...new Set(deps.controlPlane.map(hostOf))].filter((host) => isIP(host) === 0),
    registries: () => asked(deps.registries()),
    ...outside,
    port: (port) => publication.stand(port),
    listeners: listeningPorts,
    userOfPort,
    async rulesOf(port, signal) {
      if (!deps.hasRules) return undefined;
      const present = await iptables(deps.clock).read(signal);
      return foreignPorts(present, shortOwner(server)).find((one) => one.port === port)?.owner;
    },
    async engineRules(signal) {
      return publication.engineRules?.missingIn(await iptables(deps.clock).read(signal));
    },
    strays: deps.strays,
    logs: {
      get size() {
        return logs.size;
      },
      probe: () => logs.probe(),
      prune: () => logs.prune(),
    },
    wordsOf(error) {
      if (error instanceof RuntimeFailure) return error.message;
      log.warn({ err: error }, 'A part of the examination of this machine failed');
      return 'the log of the agent has the cause';
    },
    clean: () => housekeeping.clean(),
  };
}

function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1');
}

/** The registries to ask: those that are allowed by their whole name, or else the usual one. */
function asked(allowed: readonly string[] | undefined): string[] {
  const named = allowed?.filter((one) => !one.startsWith('*')) ?? ['docker.io'];
  return named.slice(0, mostRegistries).map((one) => aliases[one] ?? one);
}

/** The network as it is. */
export const realOutside: Outside = {
  resolve: addressesOf,

  ask(registry, signal) {
    return new Promise((resolve, reject) => {
      const outgoing = request(new URL(`https://${registry}/v2/`), { agent: false, signal });
      outgoing.on('error', reject);
      outgoing.on('response', (answer) => {
        answer.destroy();
        resolve(answer.statusCode ?? 0);
      });
      outgoing.end();
    });
  },

  async connect(host, port, signal) {
    const socket = connect({ host, port, signal });
    try {
      await once(socket, 'connect', { signal });
    } finally {
      socket.on('error', () => undefined); // it is of no use any more
      socket.destroy();
    }
  },
};
