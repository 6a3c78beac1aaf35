import type { DiskSpace } from '../disk/disk-guard.ts';
import type { Inotify } from '../machine/inotify.ts';
import type { PortUser } from '../machine/listeners.ts';
import type { Memory } from '../machine/memory.ts';
import type { MissingRules } from '../ports/engine-rules.ts';
import type { PortProblem } from '../ports/port-publisher.ts';
import type { EngineFacts } from '../runtime/runtime.ts';
import type { ReadGitVersion } from '../tasks/git-version.ts';

/** A container that no desired set of an agent on this machine has. */
export interface StrayContainer {
  id: string;
  server: string;
  /** It is of the server of this agent, which removes such containers by itself. */
  isOwn: boolean;
  isRunning: boolean;
}

/** A network, or the rules that lead ports to containers, which no agent on this machine needs. */
export interface StrayNetwork {
  /** Absent: it stands for the rules of its server. */
  name?: string;
  server: string;
  /** Containers of its server run, which may use it. */
  isUsed: boolean;
}

/** A volume that no desired set of an agent on this machine has. */
export interface StrayVolume {
  name: string;
  server: string;
  /** It is of the server of this agent. One of another server is never removed: its agent may come back. */
  isOwn: boolean;
  /** `undefined`: it cannot be measured. */
  bytes: number | undefined;
}

/**
 * What agents left on this machine. Everything has the labels of an agent, and the agent of its server does not run here
 * or does not need it any more. What cannot be judged is left out.
 */
export interface Strays {
  containers(signal: AbortSignal): Promise<StrayContainer[]>;
  networks(signal: AbortSignal): Promise<StrayNetwork[]>;
  volumes(signal: AbortSignal): Promise<StrayVolume[]>;
  /** Idempotent; looks again first. Returns why it was left, `undefined`: it is gone. */
  removeContainer(it: StrayContainer, signal: AbortSignal): Promise<string | undefined>;
  removeNetwork(it: StrayNetwork, signal: AbortSignal): Promise<string | undefined>;
  removeVolume(it: StrayVolume, signal: AbortSignal): Promise<string | undefined>;
}

/** All that the checks know of their machine, and all that may be done to it. */
export interface World {
  /** Asked once per examination. */
  engine(): Promise<EngineFacts>;
  /** Why the container engine cannot be used. */
  trouble(): string | undefined;
  disk(): Promise<DiskSpace>;
  memory(): Promise<Memory>;
  inotify(signal: AbortSignal): Promise<Inotify>;
  git: ReadGitVersion;
  /** Hosts of the control plane that are names. */
  controlHosts: readonly string[];
  /** Registries to ask, `HOST` or `HOST:PORT`. */
  registries(): readonly string[];
  /** Addresses of a host. @throws Error if it has none */
  resolve(host: string, signal: AbortSignal): Promise<readonly string[]>;
  /** Status of a registry's answer. @throws Error if it does not answer */
  ask(registry: string, signal: AbortSignal): Promise<number>;
  /** Opens a connection and closes it. @throws Error */
  connect(host: string, port: number, signal: AbortSignal): Promise<void>;
  /** Whether instances ask for a port, and what is wrong with it. */
  port(port: number): { isWanted: boolean; problem: PortProblem | undefined };
  /** Ports at which programs listen. */
  listeners(): Promise<ReadonlySet<number>>;
  /** The program that has a port, if that can be seen. */
  userOfPort(port: number): Promise<PortUser | undefined>;
  /** Short name of the other agent whose rules lead the port. */
  rulesOf(port: number, signal: AbortSignal): Promise<string | undefined>;
  /** Rules of the container engine that the packet filter has lost. */
  engineRules(signal: AbortSignal): Promise<MissingRules | undefined>;
  strays: Strays;
  logs: {
    size: { bytes: number; maxBytes: number };
    /** @throws Error if lines cannot be stored */
    probe(): Promise<void>;
    /** Removes what is over the bounds. */
    prune(): Promise<void>;
  };
  /** Words for the user of why something failed; the log gets the rest. */
  wordsOf(error: unknown): string;
  /**
   * Removes networks and logs that this agent made and does not need any more, and images that it made or pulled, of
   * these so many as the disk needs. Returns how many images.
   */
  clean(): Promise<number>;
}
