import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { hostNetwork } from '../../agent-protocol/workload.ts';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import { containerSpec } from './container-spec.ts';
import { deadline } from '../runtime/deadline.ts';
import { imageKey } from './drift.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { Ledger } from '../engine/ledger.ts';
import type { Capture } from '../logs/capture.ts';
import type { InstanceFiles } from './instance-files.ts';
import type { Memory, ServiceItem } from './memory.ts';
import type { Observer } from '../engine/observer.ts';
import type { Action } from './plan.ts';
import type { ServerIngress } from '../ingress/server-ingress.ts';
import type { Publication } from '../ports/publication.ts';
import type { ContainerRuntime, Mount } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import { isProxy } from './proxy-service.ts';
import { storageLimit } from '../engine/storage-watch.ts';

/** What steps need. */
export interface StepDeps {
  runtime: ContainerRuntime;
  server: string;
  observer: Observer;
  ledger: Ledger;
  images: ImageStore;
  publication: Publication;
  capture: Capture;
  /** Bounds how many containers are created and started at a time: more would make each of them slower. */
  starts: PQueue;
  disk: () => Promise<DiskSpace>;
  /** Networks that are known to exist. */
  networks: Set<string>;
  files: InstanceFiles;
  ingress: Pick<ServerIngress, 'upstreams' | 'mounts'>;
  clock: Clock;
  log: Logger;
}

/** The service of a step, as its worker currently knows it. It may change during the step. */
export interface StepSubject {
  readonly id: string;
  /** @throws Error if the assignment is not desired any more */
  desired(): ServiceItem;
  image(): Memory['image'];
  learn(change: Partial<Memory>): void;
  /** Notes that no published port may lead to the container from now on. */
  withdrawn(container: string): void;
  /** Gives the open connections of a withdrawn container time to end, if there may be any. */
  drain(container: string, hadOffered: boolean): void;
  /** The container has no open connection any more. */
  drained(container: string): void;
  /** Its process did not end in the time that it had, and was killed. */
  killed(graceSeconds: number): void;
  /** The container is gone. */
  removed(container: string): void;
}

export type Step = Exclude<Action, { do: 'wait' }>;

const callMs = 60_000;
const pullMs = 30 * 60_000;
/** Wait after the withdrawal of an instance from its port, so that connections on their way arrive and are seen. */
const arrivalMs = 250;
/** Exit code of a process that was killed. */
const killedCode = 137;
/** Time between two looks at the open connections of an instance. */
const lookMs = 1_000;

/**
 * Carries out one step of a plan. Its effects are noted in the observer and in `it`. @throws Error if the step fails
 */
export async function performStep(step: Step, it: StepSubject, deps: StepDeps, signal: AbortSignal): Promise<void> {
  const { runtime, observer, ledger, publication, capture, clock } = deps;
  switch (step.do) {
    case 'inspect':
      await observer.refresh(step.id);
      return;
    case 'resolveImage':
      return resolveImage(it, deps, signal);
    case 'ensureNetwork':
      return ensureNetworks(it, deps, signal);
    case 'create':
      return create(step.name, it, deps, signal);
    case 'start':
      return deps.starts.add(() => {
        signal.throwIfAborted();
        return startNow(step.id, it, deps, signal);
      });
    case 'withdraw': {
      it.withdrawn(step.id);
      it.learn({ stopping: step.id });
      const offered = [publication.withdraw(it.id), deps.ingress.upstreams.withdraw(it.id, signal)];
      // Only the withdrawal of an instance that had offered something takes time and can be interrupted.
      let hadOffered = true;
      try {
        hadOffered = (await Promise.all(offered)).includes(true);
      } finally {
        it.drain(step.id, hadOffered);
      }
      if (hadOffered) await wait(clock, arrivalMs, signal);
      return;
    }
    case 'drain': {
      const pid = observer.of(it.id).find(({ container }) => container.id === step.id)?.detail?.pid ?? 0;
      const open = await runtime.connections({ id: step.id, pid }, signal);
      if (open === 0) it.drained(step.id);
      else await wait(clock, Math.max(0, Math.min(lookMs, step.until - clock.monotonic())), signal);
      return;
    }
    case 'setRestart': {
      using limit = deadline(clock, callMs, 'Setting the restart policy', signal);
      await runtime.setRestart(step.id, step.restart, limit.signal);
      it.learn({ policy: { container: step.id, restart: step.restart } });
      return;
    }
    case 'unpause': {
      using limit = deadline(clock, callMs, 'Unpausing a container', signal);
      await runtime.unpause(step.id, limit.signal);
      await observer.refresh(step.id);
      return;
    }
    case 'stop':
      return stop(step, it, deps, signal);
    case 'remove': {
      using limit = deadline(clock, callMs, 'Removing a container', signal);
      await capture.finished(step.id, limit.signal);
      if (step.again === true) it.learn({ replaced: step.id });
      await runtime.remove(step.id, limit.signal);
      observer.noteRemoved(step.id);
      it.removed(step.id);
      await ledger.gone(step.id);
      await deps.files.remove(it.id);
      return;
    }
  }
}

async function resolveImage(
  it: StepSubject,
  { images, capture, clock, observer, server }: StepDeps,
  signal: AbortSignal,
): Promise<void> {
  const desired = it.desired();
  using limit = deadline(clock, pullMs, 'Pulling an image', signal);
  const line = (text: string): void => capture.note({ workload: desired.workload_id, instance: it.id }, text);
  const wanted = {
    reference: desired.spec.image,
    pinned: desired.spec.image_digest,
    owner: { tenant: desired.tenant, project: desired.project_id, workload: desired.workload_id },
    inUse: new Set(observer.of(it.id).map(({ container }) => container.imageId)),
    // The first instance of a deployment finds what its tag names now. The proxy starts without a registry.
    refresh: !isProxy(desired, server),
    line,
  };
  try {
    const { id, digest, program } = await images.resolve(wanted, limit.signal);
    it.learn({ image: { id, digest, program, of: imageKey(desired) } });
  } catch (error) {
    if (error instanceof RuntimeFailure) line(error.message);
    throw error;
  }
}

async function ensureNetworks(it: StepSubject, deps: StepDeps, signal: AbortSignal): Promise<void> {
  const { runtime, server, networks, clock } = deps;
  for (const { name } of it.desired().spec.networks) {
    if (networks.has(name) || name === hostNetwork) continue;
    using limit = deadline(clock, callMs, 'Making a network', signal);
    await runtime.ensureNetwork(name, { [labels.server]: server }, limit.signal);
    networks.add(name);
  }
}

/** @throws RuntimeFailure if a workload asks for what only the proxy of the server may have */
async function proxyMounts(desired: ServiceItem, { ingress, server }: StepDeps): Promise<Mount[]> {
  if (isProxy(desired, server)) return ingress.mounts();
  const { networks, ingress: asked } = desired.spec;
  if (asked === undefined && networks.every(({ name }) => name !== hostNetwork)) return [];
  const message = 'Only the proxy of the server itself may be in the network of the machine';
  throw new RuntimeFailure('create_failed', message, { retryable: false });
}

async function stop(
  { id, graceSeconds }: Extract<Step, { do: 'stop' }>,
  it: StepSubject,
  { runtime, observer, publication, clock }: StepDeps,
  signal: AbortSignal,
): Promise<void> {
  using limit = deadline(clock, callMs + graceSeconds * 1000, 'Stopping a container', signal);
  const detail = observer.of(it.id).find(({ container }) => container.id === id)?.detail;
  await publication.ends(Object.values(detail?.addresses ?? {}), limit.signal);
  const before = clock.monotonic();
  await runtime.stop(id, graceSeconds, limit.signal);
  const isLate = clock.monotonic() - before >= graceSeconds * 1000;
  await observer.refresh(id);
  if (graceSeconds === 0 || !isLate) return;
  const after = observer.of(it.id).find(({ container }) => container.id === id)?.detail;
  if (after?.state === 'exited' && after.exitCode === killedCode) it.killed(graceSeconds);
}

async function create(name: string, it: StepSubject, deps: StepDeps, signal: AbortSignal): Promise<void> {
  const { runtime, server, observer, ledger, disk, clock, starts } = deps;
  const image = it.image();
  if (image === undefined) throw new Error(`Cannot create container ${name} before its image is known`);
  const storageBytes = storageLimit((await disk()).totalBytes);
  const files = [...(await deps.files.write(it.desired())), ...(await proxyMounts(it.desired(), deps))];
  const { id: imageId, program = [] } = image;
  const spec = containerSpec(it.desired(), { server, name, image: imageId, program, storageBytes, files });
  await ledger.intend(name, it.id);
  await starts.add(async () => {
    signal.throwIfAborted();
    using limit = deadline(clock, callMs, 'Creating a container', signal);
    const id = await runtime.create(spec, limit.signal);
    it.learn({ created: id, policy: { container: id, restart: 'no' } });
    observer.note({ id, name, labels: spec.labels, state: 'created', imageId: spec.image });
    // The intent is on disk, so that a crash loses nothing: the ledger is written while the container starts.
    await Promise.all([ledger.made(id, name), startNow(id, it, deps, limit.signal)]);
  });
}

async function startNow(id: string, it: StepSubject, deps: StepDeps, signal: AbortSignal): Promise<void> {
  const { runtime, observer, capture, clock } = deps;
  const desired = it.desired();
  using limit = deadline(clock, callMs, 'Starting a container', signal);
  const start = async (): Promise<void> => {
    try {
      await runtime.start(id, limit.signal);
    } catch (error) {
      if (!signal.aborted) it.learn({ unstartable: id });
      throw error;
    }
  };
  await capture.start(id, { workload: desired.workload_id, instance: it.id }, start, limit.signal);
  await observer.refresh(id);
}
