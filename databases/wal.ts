/**
 * Names and heads of the segments in which PostgreSQL writes its log of writes (WAL). All have 16 MiB, which is what
 * `initdb` takes by itself.
 */
export const segmentBytes = 16 * 1024 * 1024;

/** Segments that share the first 16 digits of their names. */
const perLog = 0x1_0000_0000 / segmentBytes;

const segmentName = /^[0-9A-F]{8}[0-9A-F]{8}000000[0-9A-F]{2}$/;
/** What PostgreSQL archives beside segments: histories of timelines, notes of base backups, the last segment of a timeline. */
const otherName = /^(?:[0-9A-F]{8}\.history|[0-9A-F]{24}\.[0-9A-F]{8}\.backup|[0-9A-F]{24}\.partial)$/;

/** Whether a file with this name is a whole segment. */
export function isSegment(name: string): boolean {
  return segmentName.test(name);
}

/** Whether PostgreSQL archives files with such a name. It is safe as part of a path and of a key. */
export function isArchived(name: string): boolean {
  return isSegment(name) || otherName.test(name);
}

/** The timeline of a segment, and its place in the order of all segments. @throws RangeError if the name is of none */
export function segmentOf(name: string): { timeline: number; position: number } {
  if (!isSegment(name)) throw new RangeError(`No segment has the name ${name}`);
  const number = (from: number, to: number): number => Number.parseInt(name.slice(from, to), 16);
  return { timeline: number(0, 8), position: number(8, 16) * perLog + number(16, 24) };
}

/** The name of the segment at a position of a timeline. */
export function segmentAt({ timeline, position }: { timeline: number; position: number }): string {
  const digits = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0');
  return digits(timeline) + digits(Math.floor(position / perLog)) + digits(position % perLog);
}

/**
 * The later one of the last segment of a log that is known and one that is reported: a log goes on, also on another timeline. What is
 * no name of a segment is no later one.
 */
export function laterSegment(known: string | undefined, reported: string | undefined): string | undefined {
  if (reported === undefined || !isSegment(reported)) return known;
  if (known === undefined || !isSegment(known)) return reported;
  const [before, now] = [segmentOf(known), segmentOf(reported)];
  return now.timeline >= before.timeline && now.position >= before.position ? reported : known;
}

/**
 * So many of the last segments may be sent again: an agent that was killed sends its last batch again, and an engine hands over its
 * last ones again after its machine failed.
 */
const sentAgain = 64;

/** Whether a segment is so far before the last one of an archive that it is not written again, whatever is sent under its name. */
export function isSettled(name: string, last: string): boolean {
  const [of, end] = [segmentOf(name), segmentOf(last)];
  return of.timeline <= end.timeline && of.position <= end.position - sentAgain;
}

/** The name of the segment after this one. */
export function nextSegment(name: string): string {
  const { timeline, position } = segmentOf(name);
  return segmentAt({ timeline, position: position + 1 });
}

/** What the head of a segment says of it. */
export interface SegmentHead {
  /** Of the cluster that wrote it, in decimal. */
  systemIdentifier: string;
  /** It may be an earlier one than that of the name, in the first segment of a timeline. */
  timeline: number;
  position: number;
  segmentBytes: number;
}

/** Bytes that {@link readSegmentHead} needs. */
const segmentHeadBytes = 40;
/** The first page of a segment has the long form of a head. */
const longHeader = 0x0002;

/** Reads the head of a segment, as a little-endian machine writes it; `undefined`: these bytes begin none. Pure. */
export function readSegmentHead(bytes: Uint8Array): SegmentHead | undefined {
  if (bytes.length < segmentHeadBytes) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, segmentHeadBytes);
  const isLong = (view.getUint16(2, true) & longHeader) !== 0;
  const size = view.getUint32(32, true);
  if (!isLong || size === 0) return undefined;
  return {
    systemIdentifier: view.getBigUint64(24, true).toString(),
    timeline: view.getUint32(4, true),
    position: Number(view.getBigUint64(8, true) / BigInt(size)),
    segmentBytes: size,
  };
}

/**
 * What is wrong with the content of a segment, as the end of a sentence; `undefined`: it is whole, and what its name says.
 *
 * @param systemIdentifier of the cluster that it must be of; absent: it may be of any
 */
export function segmentFault(
  name: string,
  bytes: Uint8Array,
  systemIdentifier: string | undefined,
): string | undefined {
  if (bytes.length !== segmentBytes) return `has ${bytes.length} bytes, and not ${segmentBytes}`;
  const head = readSegmentHead(bytes);
  const { timeline, position } = segmentOf(name);
  if (head === undefined || head.segmentBytes !== segmentBytes) return 'does not begin as a segment does';
  if (head.position !== position || head.timeline > timeline) return 'has the content of another segment';
  if (systemIdentifier !== undefined && head.systemIdentifier !== systemIdentifier)
    return `is of the cluster ${head.systemIdentifier}, and not of ${systemIdentifier}`;
  return undefined;
}
