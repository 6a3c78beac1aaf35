import type { Logger } from 'pino';
import type { UpdateFailure } from '../../agent-protocol/messages.ts';
import { isLater, openRelease, ReleaseVersion } from '../../agent-protocol/release-manifest.ts';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import type { AgentUpdate } from '../../agent-protocol/server-settings.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { isDiskFull } from '../disk/disk-full.ts';
import { fetchFile, fetchManifest, hasFile } from './download.ts';
import { Installation } from './installation.ts';
import { endTrial } from './trial.ts';
import { UpdateError } from './update-error.ts';

export interface UpdaterOptions {
  /** Folder of the installation that the supervisor runs. */
  home: string;
  /** The version that runs. */
  version: string;
  /** The name of this machine in a release. */
  platform: string;
  /** Public keys, of which one must have signed a release. */
  keys: readonly string[];
  /** Addresses of the control plane's replicas, with the tenant. */
  urls: readonly string[];
  /** Free space where the installation is. */
  disk: () => Promise<DiskSpace>;
  /** Asks an executable for its version. @throws Error if it does not run */
  askVersion: (executable: string, signal: AbortSignal) => Promise<string>;
  /** The agent is to end now: the supervisor starts the new version. */
  chosen: () => void;
  clock: Clock;
  random: () => number;
  log: Logger;
}

/** An update waits its turn for so long in all where its control plane serves enough other agents. */
const turnMs = 60 * 60_000;
/** Pauses before further attempts after a failure that may pass. */
const pausesMs = [10_000, 60_000];
const askVersionMs = 30_000;

/**
 * Replaces the agent by the version that its control plane asks for. It fetches only releases that were signed by a key
 * that was compiled into this one, and goes forward only.
 *
 * States: idle → working(update) → idle, with the failure if there is one, or over (the new version is chosen). An update
 * is tried once; the same version is tried again when it is asked for at another time. Disposal ends a download.
 */
export class Updater implements AsyncDisposable {
  readonly #options: UpdaterOptions;
  readonly #installation: Installation;
  readonly #stop = new AbortController();
  #asked: AgentUpdate | undefined;
  #failure: UpdateFailure | undefined;
  #working: Promise<void> | undefined;
  /** Aborted when another update is asked for. */
  #superseded = new AbortController();

  constructor(options: UpdaterOptions) {
    this.#options = options;
    this.#installation = new Installation(options.home);
  }

  /** Why the update that was asked for last failed. */
  get failure(): UpdateFailure | undefined {
    return this.#failure;
  }

  /** The control plane, which has proved itself, asks for a version. */
  ask(update: AgentUpdate): void {
    if (this.#stop.signal.aborted) return;
    if (this.#asked?.version === update.version && this.#asked.requestedAt === update.requestedAt) return;
    this.#asked = update;
    this.#failure = undefined;
    this.#superseded.abort(new Error('Another update is asked for'));
    this.#superseded = new AbortController();
    this.#working ??= this.#work(update);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('The agent is stopping'));
    await this.#working;
  }

  async #work(first: AgentUpdate): Promise<void> {
    for (let update: AgentUpdate | undefined = first; update !== undefined;) {
      const failure: UpdateFailure | undefined = await this.#attempt(update);
      if (this.#stop.signal.aborted) break;
      const next: AgentUpdate | undefined = this.#asked === update ? undefined : this.#asked;
      if (next === undefined) this.#failure = failure;
      update = next;
    }
    this.#working = undefined;
  }

  /** Resolves with what is wrong, or once the new version is chosen. */
  async #attempt(update: AgentUpdate): Promise<UpdateFailure | undefined> {
    const { log, clock, chosen, random } = this.#options;
    const superseded = this.#superseded.signal;
    const pauses = [...pausesMs];
    let leftMs = turnMs;
    while (!superseded.aborted) {
      try {
        await this.#update(update);
        log.info(
          { version: update.version },
          'The agent was updated: it ends, and its supervisor starts the new version',
        );
        this.#stop.abort(new Error('The agent was updated'));
        chosen();
        return undefined;
      } catch (error) {
        if (this.#stop.signal.aborted) return undefined;
        let pauseMs: number | undefined;
        if (error instanceof UpdateError && error.retryAfterMs !== undefined && leftMs > 0) {
          // up to half as long again, so that agents that were refused at once do not come back at once
          pauseMs = Math.min(Math.round(error.retryAfterMs * (1 + random() / 2)), leftMs);
          leftMs -= pauseMs;
          log.info(
            { err: error, retryInMs: pauseMs },
            'The update of the agent waits its turn: others are fetched now',
          );
        } else {
          if (error instanceof UpdateError && error.isPassing) pauseMs = pauses.shift();
          if (pauseMs === undefined) {
            log.error({ err: error, version: update.version }, 'The agent was not updated and goes on: see why');
            return failureOf(update, error);
          }
          log.warn({ err: error, retryInMs: pauseMs }, 'The agent cannot be updated now and tries again');
        }
        // what ends the pause also ends the next attempt, or there is none
        await wait(clock, pauseMs, AbortSignal.any([this.#stop.signal, superseded])).catch(() => undefined);
      }
    }
    return undefined;
  }

  async #update(update: AgentUpdate): Promise<void> {
    const { version, platform, clock, home } = this.#options;
    const { signal } = this.#stop;
    signal.throwIfAborted();
    await this.#requireForward(update);
    const { base, manifest } = await this.#find(update.version, signal);
    if (manifest.min_version !== version && !isLater(version, manifest.min_version))
      throw new UpdateError(
        'VersionBetweenNeeded',
        `Version ${update.version} can only replace ${manifest.min_version} and later, and ${version} runs: update to a version between them first`,
      );
    const file = manifest.files.find((it) => it.platform === platform);
    if (file === undefined)
      throw new UpdateError(
        'NoSuchPlatform',
        `The release ${update.version} has no executable for ${platform}: build it for that platform, too, by make release`,
      );
    if ((await this.#installation.current()) !== version)
      throw new UpdateError(
        'NotInstalled',
        `The supervisor in ${home} runs another version than ${version}, which was started by hand: run the script that installs the agent`,
      );
    await endTrial(home, version); // the control plane has welcomed this version
    await this.#installation.makeRoom(update.version, version);
    if (!(await hasFile(this.#installation.executableOf(update.version), file))) {
      await this.#requireRoom(file.size);
      const path = this.#installation.partOf(update.version);
      try {
        await fetchFile(new URL(`agent/${file.name}`, base), { file, path }, clock, signal);
        await this.#requireRuns(path, update.version, signal);
        await this.#installation.keep(update.version);
      } catch (error) {
        await this.#installation.discard(update.version);
        throw error;
      }
    }
    signal.throwIfAborted();
    await this.#installation.choose(update, version);
  }

  async #requireForward(update: AgentUpdate): Promise<void> {
    const { version } = this.#options;
    if (!ReleaseVersion.safeParse(update.version).success || !isLater(update.version, version))
      throw new UpdateError(
        'NotLater',
        `Version ${update.version.slice(0, 64)} is not later than ${version}, which runs: the agent updates only forward. The script that installs it can go back`,
      );
    if (await this.#installation.hasFailed(update))
      throw new UpdateError(
        'VersionFailed',
        `Version ${update.version} was started and did not connect to the control plane within 60 s, and ${version} runs again. ` +
          'The log of the machine from that time has the reason (journalctl -u setpoint-agent, or /var/log/setpoint-agent.log). Then ask for the update again',
      );
  }

  /** The manifest of that version, and the address that served it: replicas may serve different releases. */
  async #find(version: string, signal: AbortSignal): Promise<{ base: URL; manifest: ReleaseManifest }> {
    const { urls, keys, clock } = this.#options;
    let failure: unknown;
    for (const url of urls) {
      const base = baseOf(url);
      const from = new URL('agent/manifest', base);
      try {
        const manifest = opened(await fetchManifest(from, clock, signal), keys, from);
        if (manifest.version === version) return { base, manifest };
        failure ??= new UpdateError(
          'OtherRelease',
          `${from.href} has the release ${manifest.version}, and ${version} was asked for: ask for the update again, once every replica has the same release`,
        );
      } catch (error) {
        if (signal.aborted) throw error;
        failure ??= error;
      }
    }
    throw failure;
  }

  async #requireRoom(size: number): Promise<void> {
    const { freeBytes } = await this.#options.disk();
    if (freeBytes > size * 2) return;
    const inMb = (bytes: number): number => Math.round(bytes / 1_000_000);
    throw new UpdateError(
      'DiskFull',
      `The disk of ${this.#options.home} has ${inMb(freeBytes)} MB free, and the update needs ${inMb(size * 2)} MB: make room, then ask for the update again`,
    );
  }

  async #requireRuns(path: string, version: string, signal: AbortSignal): Promise<void> {
    const late = new AbortController();
    const cancel = this.#options.clock.timer(askVersionMs, () => late.abort(new Error(`it did not answer in time`)));
    try {
      const found = await this.#options.askVersion(path, AbortSignal.any([signal, late.signal]));
      if (found !== version) throw new Error(`it says that it is version ${found}`);
    } catch (cause) {
      if (signal.aborted) throw cause;
      throw new UpdateError(
        'DoesNotRun',
        `Version ${version} does not run on this machine: ${wordsOf(cause)}. It needs glibc 2.28 or later, libstdc++ and libatomic`,
        { cause },
      );
    } finally {
      cancel();
    }
  }
}

/** Where the control plane answers, without the tenant. */
function baseOf(url: string): URL {
  return new URL('.', url.replace(/\/$/, ''));
}

function opened(signed: unknown, keys: readonly string[], from: URL): ReleaseManifest {
  try {
    return openRelease(signed, keys);
  } catch (cause) {
    throw new UpdateError(
      'NotTrusted',
      `The manifest of ${from.href} is not accepted. ${wordsOf(cause)}. An agent takes releases that the key of its own release signed, and no others: ` +
        'build it with that key (SETPOINT_RELEASE_KEY); if the key is lost, run the script that installs the agent on each machine',
      { cause },
    );
  }
}

function failureOf({ version, requestedAt }: AgentUpdate, error: unknown): UpdateFailure {
  const at = { version: version.slice(0, 64), requested_at: requestedAt.slice(0, 64) };
  if (error instanceof UpdateError) return { ...at, reason: error.reason, message: error.message.slice(0, 500) };
  const message = isDiskFull(error)
    ? 'The disk of the installation is full: make room, then ask for the update again'
    : `The files of the installation could not be written: ${wordsOf(error)}. Check its disk, then ask for the update again`;
  return { ...at, reason: isDiskFull(error) ? 'DiskFull' : 'NotWritten', message: message.slice(0, 500) };
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
