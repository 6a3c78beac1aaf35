import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import PQueue from 'p-queue';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SentNotes } from '../../../agent/archive/sent-note.ts';
import { Refused, shipping } from '../../../agent/archive/shipment.ts';
import type { ArchiveItem, Shipment } from '../../../agent/archive/shipment.ts';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { segmentAt, segmentBytes } from '../../../databases/wal.ts';
import { systemClock } from '../../../time/clock.ts';

let folder: string;
let bucket: Server;
let address: string;
/** Names of the files that the bucket was sent, in their order. */
let sent: string[];
/** What the control plane answers in place of addresses. */
let refusal: Error | undefined;
const signal = new AbortController().signal;
const at = (position: number): string => segmentAt({ timeline: 1, position });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-shipment-'));
  await mkdir(join(folder, 'volume', 'pgdata'), { recursive: true });
  sent = [];
  refusal = undefined;
  bucket = createServer((request, response) => {
    const md5 = createHash('md5');
    request.on('data', (bytes: Buffer) => md5.update(bytes));
    request.on('end', () => {
      sent.push(request.url!.slice(1));
      response.setHeader('etag', `"${md5.digest('hex')}"`).end();
    });
  });
  bucket.listen(0, '127.0.0.1');
  await once(bucket, 'listening');
  address = `http://127.0.0.1:${(bucket.address() as AddressInfo).port}`;
});
afterEach(async () => {
  bucket.close();
  await rm(folder, { recursive: true });
});

function open(): Promise<Shipment> {
  const spec = { type: 'archive', engine: 'postgres', version: '17', instance: 'instance', volume: 'volume' };
  return shipping({
    runtime: {
      volume: async () => ({ path: join(folder, 'volume') }) as never, // what is read of it
      run: async () => ({ exitCode: 0, output: `1767225600000\nf\n${at(0)},0\n`, truncated: false }),
    },
    observer: { of: () => [{ container: { id: 'container', state: 'running' } }] as never }, // as above
    control: {
      async addresses(params) {
        if (refusal !== undefined) throw refusal;
        if (params.about !== 'archive.send') throw new Error(`Not expected: ${params.about}`);
        return params.files.map((file) => `${address}/${file}`);
      },
    },
    disk: async () => ({ freeBytes: 1e12, totalBytes: 1e12 }) as never, // as above
    notes: new SentNotes(join(folder, 'notes')),
    // one after the other, so that their order is known
    sending: new PQueue({ concurrency: 1 }),
    clock: systemClock,
  })({ id: 'archive', spec } as unknown as ArchiveItem, signal);
}

/** The engine hands a segment over. */
async function handOver(position: number, last = 0): Promise<void> {
  const bytes = Buffer.alloc(segmentBytes);
  bytes.writeUInt16LE(0xd116, 0);
  bytes.writeUInt16LE(0x0002, 2);
  bytes.writeUInt32LE(1, 4);
  bytes.writeBigUInt64LE(BigInt(position) * BigInt(segmentBytes), 8);
  bytes.writeBigUInt64LE(7n, 24);
  bytes.writeUInt32LE(segmentBytes, 32);
  bytes.writeUInt8(last, segmentBytes - 1);
  await writeFile(join(folder, 'volume', 'wal-archive', at(position)), bytes);
}

const waiting = (): Promise<string[]> => readdir(join(folder, 'volume', 'wal-archive'));

test('a segment that the bucket took is not sent again when the engine hands it over again, and needs no address', async () => {
  {
    await using first = await open();
    await handOver(5);
    await handOver(6);
    await first.turn(signal);
    expect([sent, await waiting()]).toEqual([[at(5), at(6)], []]);
  }
  await using after = await open();
  refusal = new CallError('already_sent', 'It was sent');
  await handOver(5);
  await after.turn(signal);
  expect([sent.length, await waiting()]).toEqual([2, []]);
  refusal = undefined;
  await handOver(6);
  await handOver(7);
  await after.turn(signal);
  expect([sent, await waiting()]).toEqual([[at(5), at(6), at(7)], []]);
  expect(await after.stand()).toMatchObject({ last_segment: at(7) });
  // other bytes under that name are of another history
  await handOver(6, 1);
  await expect(after.turn(signal)).rejects.toThrow('has other bytes than were sent under this name');
  expect(await waiting()).toEqual([at(6)]);
});

test('a segment that only the control plane knows to be sent is refused, and stays', async () => {
  await using shipment = await open();
  refusal = new CallError('already_sent', `Segment ${at(5)} was archived before`);
  await handOver(5);
  const turn = shipment.turn(signal);
  await expect(turn).rejects.toBeInstanceOf(Refused);
  await expect(turn).rejects.toThrow(`Segment ${at(5)} was archived before: it stays on its server`);
  expect([sent, await waiting()]).toEqual([[], [at(5)]]);
  refusal = new CallError('away', 'Not connected');
  await expect(shipment.turn(signal)).rejects.toMatchObject({ code: 'away' });
});
