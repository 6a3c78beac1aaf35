import { closeSync, readSync, writeSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';

/** Numbers of the kernel's interface to its table of connections, the same on x86 and Arm: `linux/netfilter/*.h`. */
const socketOf = { family: 16, type: 3, nonBlocking: 0x800, closeOnExec: 0x80000, protocol: 12 } as const;
const messages = { get: 0x101, delete: 0x102, error: 2, done: 3 } as const;
const flags = { request: 1, dump: 0x300 } as const;
const attributes = { reply: 2, protocolInfo: 4, zone: 18 } as const;
const nested = { addresses: 1, source: 1, tcp: 1, state: 1 } as const;
const nestedMask = 0x3fff;
const ipv4 = 2;
const headerBytes = 16;
/** Of the part that all messages about connections begin with: family, version, number of a resource. */
const familyBytes = 4;

/** States in which both ends are done, and the kernel takes the first packet of a new connection for the same ends. */
const ended: ReadonlySet<number> = new Set([7 /* TIME_WAIT */, 8 /* CLOSE */]);

const readBytes = 128 * 1024;
/** Less than the least buffer of a socket. */
const writtenBytes = 32 * 1024;
/** Reads of the table between two turns of the event loop. */
const readsPerTurn = 16;
/** A table of this size is not read to its end: each read has hundreds of connections. */
const maxReads = 20_000;

/**
 * Makes the kernel forget connections that were led to one of these addresses and have ended. Returns how many it was
 * asked to forget. Others stay as they are.
 *
 * The engine does the same when it takes down the network of a container, with every connection of its address, but names
 * each by the ends that its client knows. Meanwhile a client may have begun another connection with the same ends, which
 * leads to another instance: that one would be forgotten in its place, and its client would wait in vain. Here a
 * connection is named by the ends that its instance knows, which no connection to another instance has. So the engine
 * finds none.
 *
 * @throws Error if the kernel does not allow it, or this Node was built without `node:ffi`
 */
export async function forgetEnded(addresses: readonly string[], signal: AbortSignal): Promise<number> {
  const { dlopen } = await import('node:ffi');
  const { socket } = dlopen(null, {
    socket: { return: 'int32', arguments: ['int32', 'int32', 'int32'] },
  } as const).functions;
  const type = socketOf.type | socketOf.nonBlocking | socketOf.closeOnExec;
  const fd = socket(socketOf.family, type, socketOf.protocol);
  if (fd < 0) throw new Error('Cannot ask the kernel for its connections: it gives no socket for that');
  try {
    const wanted = new Set(addresses.map(bytesOf).map((bytes) => bytes.readUInt32BE(0)));
    const found = await replyEnds(fd, wanted, signal);
    for (const batch of batches(found.map(deletionOf))) {
      writeSync(fd, batch);
      drop(fd);
    }
    return found.length;
  } finally {
    closeSync(fd);
  }
}

/** What names an ended connection: the attribute with the ends that its instance knows, and its zone if it has one. */
async function replyEnds(fd: number, wanted: ReadonlySet<number>, signal: AbortSignal): Promise<Buffer[]> {
  writeSync(fd, message(messages.get, flags.request | flags.dump, []));
  const found: Buffer[] = [];
  const buffer = Buffer.alloc(readBytes);
  for (let reads = 1; reads <= maxReads; reads++) {
    const length = readSync(fd, buffer);
    for (const { type, body } of messagesIn(buffer.subarray(0, length))) {
      if (type === messages.done) return found;
      if (type === messages.error)
        throw new Error('Cannot read the connections of the kernel: it refuses to list them');
      const named = nameOf(body.subarray(familyBytes), wanted);
      if (named !== undefined) found.push(named);
    }
    if (reads % readsPerTurn === 0) await turn();
    signal.throwIfAborted();
  }
  return found;
}

/** The attributes that name the connection, if it has ended and its answers come from one of these addresses. */
function nameOf(body: Buffer, wanted: ReadonlySet<number>): Buffer | undefined {
  const all = new Map(attributesIn(body).map((it) => [it.type, it]));
  const reply = all.get(attributes.reply);
  const info = all.get(attributes.protocolInfo);
  if (reply === undefined || info === undefined) return undefined;
  const source = find(reply.value, nested.addresses, nested.source);
  const state = find(info.value, nested.tcp, nested.state);
  if (source === undefined || state === undefined || !wanted.has(source.readUInt32BE(0))) return undefined;
  if (!ended.has(state.readUInt8(0))) return undefined;
  const zone = all.get(attributes.zone);
  return Buffer.concat([reply.whole, ...(zone === undefined ? [] : [zone.whole])]);
}

/** The value of an attribute within an attribute. */
function find(value: Buffer, outer: number, inner: number): Buffer | undefined {
  const within = attributesIn(value).find(({ type }) => type === outer);
  return within && attributesIn(within.value).find(({ type }) => type === inner)?.value;
}

function deletionOf(name: Buffer): Buffer {
  return message(messages.delete, flags.request, [name]);
}

/** Takes the answers to deletions: of what is gone already, the kernel says so. */
function drop(fd: number): void {
  const buffer = Buffer.alloc(readBytes);
  try {
    for (let reads = 0; reads < maxReads; reads++) readSync(fd, buffer);
  } catch (error) {
    // nothing is left to read, or more was said than the buffer of the socket holds
    if (!(error instanceof Error && 'code' in error && (error.code === 'EAGAIN' || error.code === 'ENOBUFS')))
      throw error;
  }
}

function message(type: number, flag: number, parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const whole = Buffer.alloc(headerBytes + familyBytes + aligned(body.length));
  whole.writeUInt32LE(headerBytes + familyBytes + body.length, 0);
  whole.writeUInt16LE(type, 4);
  whole.writeUInt16LE(flag, 6);
  whole.writeUInt8(ipv4, headerBytes);
  body.copy(whole, headerBytes + familyBytes);
  return whole;
}

function* messagesIn(buffer: Buffer): Generator<{ type: number; body: Buffer }> {
  for (let at = 0; at + headerBytes <= buffer.length;) {
    const length = buffer.readUInt32LE(at);
    if (length < headerBytes) return;
    yield { type: buffer.readUInt16LE(at + 4), body: buffer.subarray(at + headerBytes, at + length) };
    at += aligned(length);
  }
}

interface Attribute {
  type: number;
  value: Buffer;
  /** With its header and the padding behind it. */
  whole: Buffer;
}

function attributesIn(buffer: Buffer): Attribute[] {
  const found: Attribute[] = [];
  for (let at = 0; at + 4 <= buffer.length;) {
    const length = buffer.readUInt16LE(at);
    if (length < 4) break;
    const type = buffer.readUInt16LE(at + 2) & nestedMask;
    found.push({ type, value: buffer.subarray(at + 4, at + length), whole: buffer.subarray(at, at + aligned(length)) });
    at += aligned(length);
  }
  return found;
}

/** Messages in as few writes as the socket takes. */
function* batches(all: readonly Buffer[]): Generator<Buffer> {
  let some: Buffer[] = [];
  let bytes = 0;
  for (const one of all) {
    if (bytes + one.length > writtenBytes) {
      yield Buffer.concat(some);
      [some, bytes] = [[], 0];
    }
    some.push(one);
    bytes += one.length;
  }
  if (some.length > 0) yield Buffer.concat(some);
}

function bytesOf(address: string): Buffer {
  return Buffer.from(address.split('.').map(Number));
}

function aligned(length: number): number {
  return (length + 3) & ~3;
}
