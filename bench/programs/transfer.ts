/**
 * Sends bytes to a bucket and reads them back, once by the transfer of the agent and once by plain calls of the SDK, each
 * with its rate and the most memory that it took above that of the idle process.
 */
import { S3Client, GetObjectCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import { createHash, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { download } from '../../agent/transfer/download.ts';
import { upload } from '../../agent/transfer/upload.ts';
import { systemClock } from '../../time/clock.ts';
import type { S3Keys } from '../../test/harness/s3-gateway.ts';
import { timed } from '../measure.ts';
import { argument, serve } from '../parent.ts';
import { usageOf } from '../process-figures.ts';

/** Of one transfer: megabytes per second, and megabytes of memory above those of the idle process. */
export interface Transferred {
  mbPerSecond: number;
  peakMb: number;
}
export interface SendTo {
  bytes: number;
  partBytes: number;
  /** One per part. */
  addresses: readonly string[];
}
export interface SendBySdk {
  bytes: number;
  partBytes: number;
  key: string;
  id: string;
}
// a type, as the index of an interface is unknown
export type TransferProgram = {
  send(to: SendTo): Promise<Transferred & { sha256: string; etag: string | undefined; parts: number }>;
  sendBySdk(to: SendBySdk): Promise<Transferred & { etags: string[] }>;
  read(from: { address: string; bytes: number; sha256: string }): Promise<Transferred>;
  readBySdk(from: { key: string; bytes: number }): Promise<Transferred>;
};

const atOnce = 4;
const { endpoint, keys, bucket } = await argument<{ endpoint: string; keys: S3Keys; bucket: string }>();
const client = new S3Client({
  endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  credentials: { accessKeyId: keys.accessKey, secretAccessKey: keys.secretKey },
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
});
const { signal } = new AbortController();
const block = randomBytes(1024 * 1024);

async function* source(bytes: number): AsyncGenerator<Buffer> {
  for (let left = bytes; left > 0; left -= block.length) yield block.subarray(0, left);
}

async function measured(bytes: number, work: () => Promise<unknown>): Promise<Transferred> {
  // begins the peak of the process anew
  await writeFile(`/proc/${process.pid}/clear_refs`, '5');
  const { memoryMb } = await usageOf(process.pid);
  const ms = await timed(work);
  const { peakMb } = await usageOf(process.pid);
  return { mbPerSecond: bytes / 1000 / ms, peakMb: peakMb - memoryMb };
}

const methods: TransferProgram = {
  async send({ bytes, partBytes, addresses }) {
    let sha256 = '';
    let etag: string | undefined;
    let parts = 0;
    const figures = await measured(bytes, async () => {
      ({ sha256, etag, parts } = await upload(
        source(bytes),
        {
          addresses: async (numbers) => numbers.map((number) => addresses[number - 1] ?? ''),
          partBytes,
          clock: systemClock,
          random: Math.random,
        },
        signal,
      ));
    });
    return { ...figures, sha256, etag, parts };
  },
  async sendBySdk({ bytes, partBytes, key, id }) {
    const part = Buffer.concat(Array.from({ length: partBytes / block.length }, () => block));
    const etags: string[] = [];
    const figures = await measured(bytes, async () => {
      const numbers = Array.from({ length: Math.ceil(bytes / partBytes) }, (_, at) => at + 1).values();
      const worker = async (): Promise<void> => {
        for (const PartNumber of numbers) {
          const Body = part.subarray(0, bytes - (PartNumber - 1) * partBytes);
          const command = new UploadPartCommand({ Bucket: bucket, Key: key, UploadId: id, PartNumber, Body });
          etags[PartNumber - 1] = (await client.send(command)).ETag ?? '';
        }
      };
      await Promise.all(Array.from({ length: atOnce }, worker));
    });
    return { ...figures, etags };
  },
  read({ address, bytes, sha256 }) {
    return measured(bytes, async () => {
      const options = { address: async () => address, bytes, sha256, clock: systemClock, random: Math.random };
      let read = 0;
      for await (const chunk of download(options, signal) as AsyncIterable<Buffer>) read += chunk.length;
      if (read !== bytes) throw new Error(`Of ${bytes} bytes ${read} came`);
    });
  },
  readBySdk({ key, bytes }) {
    return measured(bytes, async () => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      const hash = createHash('sha256');
      for await (const chunk of Body as AsyncIterable<Buffer>) hash.update(chunk);
      hash.digest();
    });
  },
};
await serve(methods);
