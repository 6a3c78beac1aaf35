import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { beginUpload, completeUpload, deleteObjects, signParts, signRead } from '../network/bucket-objects.ts';
import { openBucket } from '../network/bucket.ts';
import { partBytesFor } from '../network/multipart.ts';
import { s3Gateway } from '../test/harness/s3-gateway.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import type { TransferProgram } from './programs/transfer.ts';

const bytes = 512 * 1024 * 1024;
const partBytes = partBytesFor(bytes);
const signedAtOnce = 100;

export const bench: Bench = {
  id: 'P21',
  async run({ compareAll }) {
    await using gateway = await s3Gateway();
    await gateway.client().send(new CreateBucketCommand({ Bucket: 'bench' }));
    const { signal } = new AbortController();
    using bucket = await openBucket({
      endpoint: gateway.endpoint,
      region: 'us-east-1',
      bucket: 'bench',
      prefix: '',
      ...gateway.keys,
      pathStyle: true,
      ca: undefined,
      storageClass: undefined,
      allowed: [gateway.host],
    });
    const program = () =>
      Child.start<TransferProgram>('transfer', { endpoint: gateway.endpoint, keys: gateway.keys, bucket: 'bench' });
    const size = `${bytes / 1024 / 1024} MiB`;
    await compareAll({
      figures: {
        sent: {
          what: `${size} to the object gateway of Ceph, in parts with MD5 and SHA-256; raw: UploadPart of the SDK, four at once`,
          unit: 'MB per s',
          goal: { atLeast: 0.9 },
        },
        sendMemory: { what: 'the most memory that sending took', unit: 'MB', goal: { atMost: 150, of: 'ours' } },
        read: {
          what: `${size} from there, with SHA-256; raw: GetObject of the SDK, with SHA-256`,
          unit: 'MB per s',
          goal: { atLeast: 0.9 },
        },
        readMemory: { what: 'the most memory that reading took', unit: 'MB', goal: { atMost: 150, of: 'ours' } },
      },
      rounds: 5,
      // a process of its own for each sample: the memory of one is not that of the next
      raw: async () => {
        await using child = await program();
        const upload = { key: 'raw', id: await beginUpload(bucket, 'raw', signal) };
        const sent = await child.call('sendBySdk', { bytes, partBytes, ...upload });
        await completeUpload(bucket, upload, { bytes, parts: sent.etags.length, etag: undefined }, signal);
        const read = await child.call('readBySdk', { key: 'raw', bytes });
        await deleteObjects(bucket, ['raw'], signal);
        return {
          sent: sent.mbPerSecond,
          sendMemory: sent.peakMb,
          read: read.mbPerSecond,
          readMemory: read.peakMb,
        };
      },
      ours: async () => {
        await using child = await program();
        const upload = { key: 'ours', id: await beginUpload(bucket, 'ours', signal) };
        const numbers = Array.from({ length: Math.ceil(bytes / partBytes) }, (_, at) => at + 1);
        const addresses: string[] = [];
        for (let at = 0; at < numbers.length; at += signedAtOnce)
          addresses.push(...(await signParts(bucket, upload, numbers.slice(at, at + signedAtOnce), 3600, signal)));
        const sent = await child.call('send', { bytes, partBytes, addresses });
        await completeUpload(bucket, upload, { ...sent, bytes }, signal);
        const address = await signRead(bucket, 'ours', 3600, signal);
        const read = await child.call('read', { address, bytes, sha256: sent.sha256 });
        await deleteObjects(bucket, ['ours'], signal);
        return {
          sent: sent.mbPerSecond,
          sendMemory: sent.peakMb,
          read: read.mbPerSecond,
          readMemory: read.peakMb,
        };
      },
    });
  },
};
