import { chmod, chown, lstat, mkdir, open } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import PQueue from 'p-queue';
import type { Progress } from '../../agent-protocol/workload.ts';
import { wholeDump } from '../../databases/whole-dump.ts';
import { segmentAt, segmentBytes, segmentFault, segmentOf } from '../../databases/wal.ts';
import type { Clock } from '../../time/clock.ts';
import { HeldFolder } from '../disk/held-folder.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { BucketConnections, RequestFailed } from '../transfer/bucket-request.ts';
import { Patience } from '../transfer/patience.ts';
import { signedWithin } from '../transfer/signed-addresses.ts';
import { archiveOf } from './data-engine.ts';
import type { AddressSource } from './data-engine.ts';
import type { TaskItem } from './task.ts';

interface Deps {
  runtime: Pick<ContainerRuntime, 'volume'>;
  control: AddressSource;
  clock: Clock;
  random: () => number;
}

type RestoreItem = TaskItem<'restore'>;
type Log = NonNullable<RestoreItem['spec']['log']>;

/** Segments that are fetched at once. */
const fetchedAtOnce = 4;
/** Addresses that are asked for at once. */
const batchFiles = 16;
/** No object of a segment is larger. */
const mostPackedBytes = segmentBytes + 64 * 1024;
/** A recovery reads at most so many segments: a terabyte. */
const mostSegments = 65_536;

const unpacked = promisify(zstdDecompress);

/** Names of the segments of a log, in their order. @throws RuntimeFailure if they are too many, or not of one timeline */
function segmentsOf({ first_segment, last_segment }: Log): string[] {
  const [first, last] = [segmentOf(first_segment), segmentOf(last_segment)];
  const count = last.position - first.position + 1;
  if (first.timeline !== last.timeline || count < 1 || count > mostSegments)
    throw failed(`The log from ${first_segment} to ${last_segment} cannot be read at once`);
  return Array.from({ length: count }, (_, index) =>
    segmentAt({ timeline: first.timeline, position: first.position + index }),
  );
}

/** What a log takes on the disk. */
export function bytesOf(log: Log): number {
  return segmentsOf(log).length * segmentBytes;
}

/** Puts the copy of all files into the empty volume, so that the engine recovers from it when it starts. */
export async function putBase(
  { runtime }: Pick<Deps, 'runtime'>,
  { spec }: RestoreItem,
  log: Log,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const archive = archiveOf(spec.engine ?? '');
  const volume = await pathOf(runtime, spec.volume, signal);
  const cluster = join(volume, archive.cluster(log.version));
  await mkdir(cluster, { recursive: true, mode: 0o700 });
  const owner = await unpack(wholeDump(bytes, archive.base.end), cluster, signal);
  for (let folder = cluster; folder !== volume; folder = dirname(folder)) await chown(folder, owner.uid, owner.gid);
  await chmod(cluster, 0o700);
  await using written = await open(join(cluster, archive.signal), 'wx', 0o600);
  await written.chown(owner.uid, owner.gid);
  await written.sync();
}

/** Fetches the segments to where the engine reads them. */
export async function putLog(
  deps: Deps,
  { id, spec }: RestoreItem,
  log: Log,
  at: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  const { runtime, control, clock, random } = deps;
  const path = join(await pathOf(runtime, spec.volume, signal), archiveOf(spec.engine ?? '').inbox);
  await mkdir(path, { mode: 0o755 });
  await using inbox = await HeldFolder.open(path);
  const names = segmentsOf(log);
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  using connections = new BucketConnections({ ca: spec.ca, most: fetchedAtOnce, clock });
  const patience = new Patience(clock, random);
  const queue = new PQueue({ concurrency: fetchedAtOnce });
  let done = 0;
  const fetchOne = async (name: string, signed: string | undefined, number: number): Promise<void> => {
    let address = signed;
    for (let tries = 1, refusals = 0; ; tries += 1) {
      try {
        address ??= (
          await signedWithin(
            (during) => control.addresses({ about: 'archive.fetch', assignment: id, files: [name] }, during),
            clock,
            either,
          )
        )[0];
        const bytes = await fetched(connections, address ?? '', name, log.system_identifier, either);
        await inbox.write(name, bytes, 0o644);
        patience.recovered(number);
        done += 1;
        at({ step: 'fetching', done, total: names.length, unit: 'segments' });
        return;
      } catch (error) {
        const isRefused = error instanceof RequestFailed && error.kind === 'refused';
        refusals = isRefused ? refusals + 1 : 0;
        if (isRefused) address = undefined;
        await patience.bear(number, tries, refusals, error, either);
      }
    }
  };
  try {
    for (let from = 0; from < names.length; from += batchFiles) {
      const batch = names.slice(from, from + batchFiles);
      const addresses = await control
        .addresses({ about: 'archive.fetch', assignment: id, files: batch }, either)
        .catch(() => []); // each is asked for again, with patience
      await Promise.all(batch.map((name, index) => queue.add(() => fetchOne(name, addresses[index], from + index))));
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    stop.abort(new Error('The log is not fetched any more'));
    await queue.onIdle();
  }
}

/** @throws RequestFailed; RuntimeFailure if what the bucket has is no such segment */
async function fetched(
  connections: BucketConnections,
  address: string,
  name: string,
  systemIdentifier: string | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let count = 0;
  using opened = await connections.get(address, { from: 0, etag: undefined }, signal).catch((error: unknown) => {
    if (error instanceof RequestFailed && error.kind === 'final')
      throw failed(`Segment ${name} cannot be fetched: ${error.message}`);
    throw error;
  });
  for (let chunk = await opened.next(); chunk !== undefined; chunk = await opened.next()) {
    count += chunk.length;
    if (count > mostPackedBytes) throw failed(`Segment ${name} of the bucket has more bytes than were sent`);
    chunks.push(chunk);
  }
  if (!Number.isNaN(opened.totalBytes) && count !== opened.totalBytes)
    throw new RequestFailed('passing', `${opened.host} ended its answer after ${count} of ${opened.totalBytes} bytes`);
  let bytes: Buffer;
  try {
    bytes = await unpacked(Buffer.concat(chunks), { maxOutputLength: segmentBytes + 1 });
  } catch {
    throw failed(`Segment ${name} of the bucket is damaged: choose a time before it`);
  }
  const fault = segmentFault(name, bytes, systemIdentifier);
  if (fault !== undefined) throw failed(`Segment ${name} of the bucket ${fault}: choose a time before it`);
  return bytes;
}

/**
 * Unpacks a tar of plain files and folders into an empty folder that nobody else writes to. Nothing leads out of it.
 * Returns whom the files belong to.
 */
async function unpack(
  source: AsyncIterable<Uint8Array>,
  folder: string,
  signal: AbortSignal,
): Promise<{ uid: number; gid: number }> {
  const { extract } = await import('tar-stream');
  const tar = extract();
  const reading = pipeline(Readable.from(source, { objectMode: false }), tar, { signal });
  reading.catch(() => undefined); // it is awaited below
  let owner: { uid: number; gid: number } | undefined;
  try {
    for await (const entry of tar) {
      const { name, type, uid, gid, mode } = entry.header;
      const path = inside(folder, name);
      if (type === 'directory') await mkdir(path, { recursive: true, mode: 0o700 });
      else if (type === 'file') {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await pipeline(entry, createWriteStream(path, { flags: 'wx', mode: mode & 0o777, flush: true }), { signal });
      } else
        throw failed(
          `The base backup has ${name}, which is a ${type}: tablespaces in other folders cannot be recovered`,
        );
      await chown(path, uid, gid);
      if (type === 'file') owner ??= { uid, gid };
      entry.resume();
    }
    await reading;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
  if (owner === undefined) throw failed('The base backup has no file');
  return owner;
}

/** @throws RuntimeFailure for a name that leads out of the folder */
function inside(folder: string, name: string): string {
  const path = normalize(name);
  if (path.startsWith('/') || path === '..' || path.startsWith('../'))
    throw failed(`The base backup has a file outside of its folder: ${name.slice(0, 100)}`);
  return join(folder, path);
}

async function pathOf(runtime: Pick<ContainerRuntime, 'volume'>, volume: string, signal: AbortSignal): Promise<string> {
  const path = (await runtime.volume(volume, signal))?.path;
  if (path === undefined) throw failed(`Volume ${volume} is not in a folder of the server`);
  if (!(await lstat(path)).isDirectory()) throw failed(`Volume ${volume} is no folder of the server`);
  return path;
}

function failed(message: string): RuntimeFailure {
  return new RuntimeFailure('restore_failed', message, { retryable: false });
}
