import type { Duplex } from 'node:stream';
import type { Logger } from 'pino';
import type { Clock } from '../time/clock.ts';
import type { OpenShipment } from './archive/shipment.ts';
import type { DiskSpace } from './disk/disk-guard.ts';
import type { Engine } from './engine/engine.ts';
import type { ImageStore } from './engine/image-store.ts';
import type { Gate } from './functions/gate.ts';
import type { Proxy, ProxySockets } from './ingress/proxy.ts';
import type { OwnLines } from './logs/own-lines.ts';
import type { Identities } from './machine/machine-identities.ts';
import type { ServerShells } from './machine/server-shells.ts';
import type { Outside } from './surroundings.ts';
import type { RunBackup } from './tasks/backup.ts';
import type { RunBuild } from './tasks/build-task.ts';
import type { PreviewDockerfile } from './tasks/generated-dockerfile.ts';
import type { CloneCache } from './tasks/git-clones.ts';
import type { ReadGitVersion } from './tasks/git-version.ts';
import type { FindTag, ReadHead } from './tasks/read-head.ts';
import type { ReadRepository } from './tasks/read-repository.ts';
import type { RunRecovery } from './tasks/recovery.ts';
import type { RunRestore } from './tasks/restore.ts';
import type { Updater } from './update/updater.ts';

/** What an agent works with, and what it may do. */
export interface AgentOptions {
  /**
   * Base URLs of the control plane's replicas, with the tenant. Without any, the agent only reconciles its set on disk.
   */
  controlPlane?: readonly [string, ...string[]];
  /** Opens the connection to the control plane in place of TCP or TLS. */
  dial?: () => Duplex;
  /** Needed once: afterwards the agent uses the identity in the data directory. */
  joinToken?: string;
  dataDir: string;
  engine: Engine;
  images: ImageStore;
  build: RunBuild;
  /** What carries out backups and restores; by default programs of the databases, and the network. */
  backup?: RunBackup;
  restore?: RunRestore;
  recovery?: RunRecovery;
  /** Dumps that may be imported: the folder of files, by default one of the data directory, and networks beside public addresses. */
  imports?: { folder?: string | undefined; networks?: readonly string[] };
  /** What sends the logs of databases; by default from their volumes. */
  archive?: OpenShipment;
  gitHead: ReadHead;
  gitTag: FindTag;
  /** Clones that builds begin with; absent: none are kept. */
  clones?: Pick<CloneCache, 'retain' | 'clear'>;
  /** By default that of the machine. */
  gitVersion?: ReadGitVersion;
  dockerfiles: PreviewDockerfile;
  repositories: ReadRepository;
  /** Reaches the proxy of the server by the socket of its administration; by default it is one in memory. */
  openProxy?: (sockets: ProxySockets) => Proxy;
  /** Opens the ports of functions; by default none is open, and only the control plane calls them. */
  gate?: Gate;
  /** Shells of the machine; absent if its operator does not allow terminals of the server. */
  serverShells?: ServerShells;
  /** Space on the disk that holds images and logs. */
  disk: () => Promise<DiskSpace>;
  /** The network around the machine, as its checks see it; by default as it is. */
  outside?: Outside;
  /** The agents that run on this machine; by default those that it shows. */
  identities?: () => Promise<Identities>;
  /** Most bytes of all logs together. */
  logBytes: number;
  version: string;
  /** The agent runs as an installed release, which can be removed: it takes orders to leave its machine. */
  isInstalled?: boolean;
  /** Called whenever a control plane has welcomed the agent. */
  welcomed?: () => void;
  /** What replaces the agent by a later release; absent if it cannot be replaced. Its owner disposes of it. */
  updater?: Pick<Updater, 'ask' | 'failure'>;
  clock: Clock;
  /** Uniform in [0, 1). */
  random: () => number;
  log: Logger;
  /** Where the lines of `log` also go, so that they can be read by the control plane. */
  ownLines?: OwnLines;
  /** The log of the log store, whose lines must not go to `ownLines`; `log` by default. */
  storeLog?: Logger;
}
