import type { Logger } from 'pino';
import { containerName } from '../engine/ledger.ts';
import type { Ledger } from '../engine/ledger.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { Observer } from '../engine/observer.ts';
import { storageLimit } from '../engine/storage-watch.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { Capture } from '../logs/capture.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerDetail, ContainerRuntime, ContainerSpec } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import type { TaskItem, TaskProgress, TaskWork } from './task.ts';
import type { Turns } from './turns.ts';

export interface RunDeps {
  runtime: ContainerRuntime;
  server: string;
  observer: Observer;
  ledger: Ledger;
  images: Pick<ImageStore, 'resolve'>;
  capture: Capture;
  /** One assignment at a time may write to a volume; without volumes it gives back those that it had. */
  writers: { claim(assignment: string, volumes: readonly string[]): boolean };
  /** Networks that are known to exist. */
  networks: Set<string>;
  disk: () => Promise<DiskSpace>;
  /** A command ended, with any result. */
  ended: () => void;
  clock: Clock;
  log: Logger;
}

type RunItem = TaskItem<'run'>;

const callMs = 60_000;
/** What is observed is in memory: a look costs nothing. */
const lookMs = 250;
const claimMs = 1_000;
/** Pauses before the removal of a container is tried again. */
const endPausesMs = [1000, 2000, 4000, 8000, 16_000];
/** Time that the process of a command that is cancelled or late has to end. */
const graceSeconds = 10;

/**
 * Commands that run once, each in a container of its own that is removed with its end, whatever that is. Their output is
 * captured like that of services.
 */
export function runTask(deps: RunDeps, turns: Turns): TaskWork<'run'> {
  const { clock, observer, writers } = deps;
  const stops = new Map<string, AbortController>();
  return {
    turns,
    // a command that lasts must not hold up another one
    turnOf: ({ id }) => id,
    ended: deps.ended,
    async run(item, progress, signal) {
      const stop = new AbortController();
      stops.set(item.id, stop);
      const either = AbortSignal.any([signal, stop.signal]);
      try {
        progress.at({ step: 'waiting_for_volumes' });
        while (!writers.claim(item.id, writtenVolumes(item))) await wait(clock, claimMs, either);
        return await carryOut(deps, item, progress, either);
      } finally {
        stops.delete(item.id);
        writers.claim(item.id, []);
      }
    },
    async clean({ id }, signal) {
      await observer.relist();
      for (const { container } of observer.of(id)) await remove(deps, container.id, signal);
    },
    overflowed(id, { bytes, limit }) {
      const message = `The command wrote ${bytes} bytes outside of its volumes, of which ${limit} are allowed: let it write to a volume`;
      stops.get(id)?.abort(new RuntimeFailure('no_space', message, { retryable: false }));
    },
  };
}

async function carryOut(deps: RunDeps, item: RunItem, { at, learned, line }: TaskProgress<'run'>, signal: AbortSignal) {
  const { runtime, observer, ledger, images, capture, clock } = deps;
  const { id, tenant, project_id: project, spec } = item;
  at({ step: 'preparing' });
  const owner = { tenant, project, workload: spec.application_id };
  const image = await images.resolve({ reference: spec.image, pinned: spec.image_digest, owner, line }, signal);
  if (!deps.networks.has(spec.network)) {
    using limit = deadline(clock, callMs, 'Making a network', signal);
    await runtime.ensureNetwork(spec.network, { [labels.server]: deps.server }, limit.signal);
    deps.networks.add(spec.network);
  }
  const made = await containerOf(deps, item, image.id);
  await ledger.intend(made.name, id);
  let container: string | undefined;
  try {
    using limit = deadline(clock, callMs, 'Starting a container', signal);
    const created = await runtime.create(made, limit.signal);
    container = created;
    observer.note({ id: created, name: made.name, labels: made.labels, state: 'created', imageId: image.id });
    await ledger.made(created, made.name);
    const writer = { workload: item.workload_id, instance: id };
    await capture.start(created, writer, () => runtime.start(created, limit.signal), limit.signal);
    at({ step: 'running' });
    const end = await exitOf(deps, item, container, signal);
    await capture.finished(container, signal);
    const code = end.exitCode ?? 0;
    learned({ exit_code: code });
    if (!end.oomKilled) return { exit_code: code };
    const message =
      'The command was killed as it used more memory than its limit: raise memory_limit, and run it again';
    throw new RuntimeFailure('out_of_memory', message, { retryable: false });
  } finally {
    // what became of the command is known by now, whether or not the engine answers
    if (container !== undefined) await endPatiently(deps, id, container, signal);
  }
}

/** Resolves when the process has ended. @throws RuntimeFailure if its container is gone */
async function exitOf(deps: RunDeps, item: RunItem, id: string, signal: AbortSignal): Promise<ContainerDetail> {
  const { observer, clock } = deps;
  for (;;) {
    await observer.refresh(id);
    const seen = observer.of(item.id).find(({ container }) => container.id === id);
    if (seen === undefined)
      throw new RuntimeFailure('run_failed', 'The container of the command was removed from outside while it ran', {
        retryable: false,
      });
    if (seen.detail !== undefined && ['exited', 'dead'].includes(seen.detail.state)) return seen.detail;
    const known = seen.container;
    while (observer.of(item.id).some(({ container }) => container === known && container.state === 'running'))
      await wait(clock, lookMs, signal);
    if (known.state !== 'running') await wait(clock, lookMs, signal);
  }
}

/**
 * Tries again while the engine restarts, unless the attempt was aborted. Never throws: what is left after that goes when
 * the command is forgotten.
 */
async function endPatiently(deps: RunDeps, assignment: string, container: string, signal: AbortSignal): Promise<void> {
  for (const pauseMs of [...endPausesMs, undefined])
    try {
      return await end(deps, container);
    } catch (error) {
      deps.log.warn({ err: error, assignment }, 'Cannot remove the container of a command');
      if (pauseMs === undefined || signal.aborted) return;
      await wait(deps.clock, pauseMs, signal).catch(() => undefined);
    }
}

/** Ends and removes the container also where the attempt was aborted, with a deadline of its own. */
async function end(deps: RunDeps, container: string): Promise<void> {
  const { runtime, capture, clock } = deps;
  using limit = deadline(clock, callMs, 'Removing the container of a command', new AbortController().signal);
  await runtime.stop(container, graceSeconds, limit.signal);
  await capture.finished(container, limit.signal);
  await remove(deps, container, limit.signal);
}

async function remove({ runtime, observer, ledger }: RunDeps, container: string, signal: AbortSignal): Promise<void> {
  await runtime.remove(container, signal);
  observer.noteRemoved(container);
  await ledger.gone(container);
}

async function containerOf({ server, disk }: RunDeps, item: RunItem, image: string): Promise<ContainerSpec> {
  const { spec } = item;
  const { memory_bytes, nano_cpus } = spec.limits;
  const written = writtenVolumes(item);
  return {
    name: containerName(item),
    image,
    labels: {
      [labels.assignment]: item.id,
      [labels.generation]: String(item.generation),
      [labels.specHash]: item.spec_hash,
      [labels.type]: 'run',
      [labels.workload]: item.workload_id,
      [labels.tenant]: item.tenant,
      [labels.server]: server,
      [labels.storage]: String(storageLimit((await disk()).totalBytes)),
      ...(written.length > 0 && { [labels.writes]: written.join(' ') }),
    },
    env: spec.env,
    command: spec.command,
    networks: [{ name: spec.network, aliases: [] }],
    restart: 'no',
    ...(spec.mounts.length > 0 && {
      mounts: spec.mounts.map(({ volume, path, read_only }) => ({
        type: 'volume' as const,
        volume,
        path,
        readOnly: read_only,
      })),
    }),
    ...(memory_bytes !== undefined && { memoryBytes: memory_bytes }),
    ...(nano_cpus !== undefined && { nanoCpus: nano_cpus }),
  };
}

function writtenVolumes({ spec }: RunItem): string[] {
  return spec.mounts.flatMap(({ volume, read_only }) => (read_only ? [] : volume));
}
