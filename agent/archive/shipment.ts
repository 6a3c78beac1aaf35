import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, zstdCompress } from 'node:zlib';
import type PQueue from 'p-queue';
import type { WireArchive, WireAssignment } from '../../agent-protocol/assignment.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ArchiveStand } from '../../agent-protocol/workload.ts';
import type { Archive } from '../../databases/engine.ts';
import { isSegment, readSegmentHead, segmentBytes, segmentFault } from '../../databases/wal.ts';
import type { Clock } from '../../time/clock.ts';
import { floorBytes } from '../disk/disk-guard.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { Observer } from '../engine/observer.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { BucketConnections, RequestFailed } from '../transfer/bucket-request.ts';
import { signedWithin } from '../transfer/signed-addresses.ts';
import { answerIn, archiveOf } from '../tasks/data-engine.ts';
import type { AddressSource } from '../tasks/data-engine.ts';
import { Outbox } from './outbox.ts';
import type { SentNote, SentNotes } from './sent-note.ts';

export interface ShipmentDeps {
  runtime: Pick<ContainerRuntime, 'run' | 'volume'>;
  observer: Pick<Observer, 'of'>;
  control: AddressSource;
  disk: () => Promise<DiskSpace>;
  notes: SentNotes;
  /** Bounds how many files of all archives are read, compressed and sent at a time. */
  sending: PQueue;
  clock: Clock;
}

/** What sends the log of one database, as long as it is not disposed of. */
export interface Shipment extends AsyncDisposable {
  /** Sends what is there. @throws Refused, or what keeps files waiting */
  turn(signal: AbortSignal): Promise<void>;
  stand(): Promise<ArchiveStand>;
}

/** Begins to send the log of a database. @throws Error while its volume is not there */
export type OpenShipment = (item: ArchiveItem, signal: AbortSignal) => Promise<Shipment>;

/** An archive of the desired set. */
export type ArchiveItem = WireAssignment & { spec: WireArchive };

/** A file must not be sent: no waiting cures it. */
export class Refused extends Error {}

/** An idle database writes nothing: so often it is made to, so that its window goes on. */
const beatMs = 60_000;
const lookUpMs = 60_000;
/** Files of one batch: their addresses are signed together, and what was sent of it is noted together. */
const batchFiles = 8;
const sendMs = 120_000;
const fillStep = 5;

const compressed = promisify(zstdCompress);

/** Sends from the volume of a database. */
export function shipping(deps: ShipmentDeps): OpenShipment {
  return async ({ id, spec }, signal) => {
    const archive = archiveOf(spec.engine);
    using limit = deadline(deps.clock, lookUpMs, 'Looking for the volume', signal);
    const path = (await deps.runtime.volume(spec.volume, limit.signal))?.path;
    if (path === undefined) throw new Error(`Volume ${spec.volume} is not on the server`);
    const note = await deps.notes.of(id);
    const outbox = await Outbox.open(join(path, archive.outbox), join(path, archive.cluster(spec.version)));
    return new VolumeShipment(deps, { id, spec, archive, outbox, note });
  };
}

interface Of {
  id: string;
  spec: WireArchive;
  archive: Archive;
  outbox: Outbox;
  note: SentNote;
}

class VolumeShipment implements Shipment {
  readonly #deps: ShipmentDeps;
  readonly #of: Of;
  readonly #connections: BucketConnections;
  #beatAt = -Infinity;
  /** Segments that the engine could not hand over. */
  #unarchived = 0;

  constructor(deps: ShipmentDeps, of: Of) {
    this.#deps = deps;
    this.#of = of;
    this.#connections = new BucketConnections({ ca: of.spec.ca, most: batchFiles, clock: deps.clock });
  }

  async turn(signal: AbortSignal): Promise<void> {
    const trouble = await this.#beat(signal);
    // what is there is sent, whatever the database does
    await this.#send(signal);
    if (trouble !== undefined) throw trouble;
  }

  async stand(): Promise<ArchiveStand> {
    const { outbox, note } = this.#of;
    const files = (await outbox.waiting()).length + this.#unarchived;
    const { freeBytes, totalBytes } = await this.#deps.disk();
    const taken = files * segmentBytes;
    const room = Math.max(0, freeBytes - floorBytes(totalBytes));
    // a few are always on their way
    const isMany = files > batchFiles;
    const { system_identifier, last_segment, sent_at, shown } = note;
    return {
      waiting: isMany ? files : 0,
      fill_percent: isMany ? Math.round((100 * taken) / (taken + room) / fillStep) * fillStep : 0,
      ...(system_identifier !== undefined && { system_identifier }),
      ...(shown !== undefined && { until: shown.until, until_segment: shown.segment }),
      ...(last_segment !== undefined && { last_segment }),
      ...(sent_at !== undefined && { sent_at }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connections[Symbol.dispose]();
    await this.#of.outbox[Symbol.asyncDispose]();
  }

  /** Has the engine end a segment once a minute. Resolves with why it did not. */
  async #beat(signal: AbortSignal): Promise<Error | undefined> {
    const { clock } = this.#deps;
    const { spec, archive, note } = this.#of;
    if (clock.monotonic() - this.#beatAt < beatMs) return undefined;
    try {
      const { at, segment, waiting } = await answerIn(this.#deps, spec.instance, archive.beat, signal);
      note.beat = { until: new Date(at).toISOString(), segment };
      this.#unarchived = waiting;
      this.#beatAt = clock.monotonic();
      return undefined;
    } catch (error) {
      signal.throwIfAborted();
      return error as Error; // it throws nothing else
    }
  }

  /** Sends what is there, in batches. */
  async #send(signal: AbortSignal): Promise<void> {
    const { sending } = this.#deps;
    const { outbox } = this.#of;
    for (;;) {
      const names = (await outbox.waiting()).slice(0, batchFiles);
      if (names.length === 0) return;
      const addresses = await this.#addresses(names, signal);
      const sent = await Promise.allSettled(
        names.map((name) => sending.add(() => this.#sendOne(name, addresses.get(name) ?? '', signal))),
      );
      await this.#keep(names, sent);
      // in the order of the batch: the first one that is missing decides
      for (const one of sent) if (one.status === 'rejected') throw one.reason as Error; // as above
    }
  }

  /** Where files go that were not sent, by their names. @throws Refused for one that the control plane knows to be sent */
  async #addresses(names: readonly string[], signal: AbortSignal): Promise<Map<string, string>> {
    const { control, clock } = this.#deps;
    const { id, note } = this.#of;
    const files = names.filter((name) => !note.sent.some((it) => it.name === name));
    if (files.length === 0) return new Map();
    try {
      const addresses = await signedWithin(
        (during) => control.addresses({ about: 'archive.send', assignment: id, files }, during),
        clock,
        signal,
      );
      return new Map(files.map((name, index) => [name, addresses[index] ?? '']));
    } catch (error) {
      if (!(error instanceof CallError) || error.code !== 'already_sent') throw error;
      throw refused(error.message);
    }
  }

  /** Notes what was sent up to the first file that was not, and removes it. */
  async #keep(names: readonly string[], sent: readonly PromiseSettledResult<Sent>[]): Promise<void> {
    const { id, note, outbox } = this.#of;
    const done: string[] = [];
    for (const [index, one] of sent.entries()) {
      const name = names[index];
      if (one.status === 'rejected' || name === undefined) break;
      const { sha256, systemIdentifier } = one.value;
      done.push(name);
      note.sent = [...note.sent.filter((it) => it.name !== name), { name, sha256 }];
      if (systemIdentifier === undefined) continue;
      note.system_identifier = systemIdentifier;
      if (note.last_segment === undefined || note.last_segment < name) note.last_segment = name;
    }
    if (done.length === 0) return;
    note.sent_at = this.#deps.clock.now().toISOString();
    if (note.beat !== undefined && note.last_segment !== undefined && note.beat.segment <= note.last_segment)
      note.shown = note.beat;
    await this.#deps.notes.write(id, note);
    await outbox.remove(done);
  }

  /** Sends a file, unless the bucket took it before. @throws Refused for a file that must not be sent; RequestFailed */
  async #sendOne(name: string, address: string, signal: AbortSignal): Promise<Sent> {
    signal.throwIfAborted();
    const { outbox, note } = this.#of;
    const { bytes, sha256 } = await outbox.read(name);
    const fault = isSegment(name) ? segmentFault(name, bytes, note.system_identifier) : undefined;
    if (fault !== undefined) throw refused(`Segment ${name} ${fault}`);
    const before = note.sent.find((it) => it.name === name);
    if (before !== undefined && before.sha256 !== sha256)
      throw refused(`${name} has other bytes than were sent under this name`);
    // the engine handed it over again, or the agent ended before it was removed
    if (before !== undefined) return sentOf(name, bytes, sha256);
    const body = await compressed(bytes, {
      params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
    });
    const md5 = createHash('md5').update(body).digest();
    using limit = deadline(this.#deps.clock, sendMs, 'Sending a segment', signal);
    const { etag, isMd5 } = await this.#connections.put(address, { body, md5, asksFirst: false }, limit.signal);
    if (isMd5 && etag !== md5.toString('hex'))
      throw new RequestFailed('passing', `The bucket has other bytes of ${name} than were sent to it`);
    return sentOf(name, bytes, sha256);
  }
}

interface Sent {
  sha256: string;
  /** Of a segment. */
  systemIdentifier: string | undefined;
}

function sentOf(name: string, bytes: Uint8Array, sha256: string): Sent {
  return { sha256, systemIdentifier: isSegment(name) ? readSegmentHead(bytes)?.systemIdentifier : undefined };
}

function refused(what: string): Refused {
  return new Refused(
    `${what}: it stays on its server, and nothing after it is sent until archiving is turned off and on again`,
  );
}
