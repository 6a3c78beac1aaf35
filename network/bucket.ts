import type { S3Client } from '@aws-sdk/client-s3';
import { isIP, type LookupFunction } from 'node:net';
import { Transform, type Readable } from 'node:stream';
import { isLoopback, reachOf } from './address.ts';
import { addressesOf } from './addresses-of.ts';

/** A bucket of a product that speaks S3, and what proves to it who asks. */
export interface BucketPlace {
  /** Scheme, host and port of the service: `https://s3.example.com`. */
  endpoint: string;
  region: string;
  bucket: string;
  /** What all keys begin with, without a slash at either end; empty: nothing. */
  prefix: string;
  accessKey: string;
  secretKey: string;
  /** The bucket is in the path of each address, and not in the name of its host. */
  pathStyle: boolean;
  /** Certificates in PEM of the authority of the endpoint; absent: those that this machine trusts. */
  ca: string | undefined;
  storageClass: string | undefined;
  /** Endpoints that the tenant names, as `HOST` or `HOST:PORT`. */
  allowed: readonly string[];
}

/** The endpoint may not be asked. Its message is for people. */
export class NotAllowed extends Error {}

/** An answer is larger than any that is expected. */
export class AnswerTooLarge extends Error {}

/** A client for one bucket. Disposing ends its connections. */
export interface Bucket extends Disposable {
  readonly client: S3Client;
  readonly place: BucketPlace;
  /** Milliseconds by which the clock of the service is ahead of this one, by its last answer. */
  readonly aheadMs: number | undefined;
}

const connectMs = 5000;
/** Longest silence of a connection; a call has a deadline of its own. */
const silenceMs = 10_000;
const maxAnswerBytes = 1024 * 1024;

/**
 * Opens a client that reaches nothing but the endpoint. Every connection is made to an address that was judged: a
 * private one, or one of this machine, only if `allowed` names the endpoint, a link-local one never. Plain HTTP is for
 * endpoints that are named. No redirect is followed, and an answer has at most 1 MiB.
 *
 * @throws NotAllowed
 */
export async function openBucket(place: BucketPlace): Promise<Bucket> {
  const url = new URL(place.endpoint);
  const isNamed = place.allowed.includes(url.host);
  const literal = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(literal) !== 0) judge(literal, url.host, isNamed);
  if (url.protocol !== 'https:' && !isNamed)
    throw new NotAllowed(
      `Endpoint ${url.host} is asked by plain http, which only endpoints may be that a superadmin names in the setting backup_endpoints: take https`,
    );
  // 160 ms and some 30 MB, which an installation without destinations is spared
  const { S3Client: Client } = await import('@aws-sdk/client-s3');
  const { lookup, end } = judgedLookup(url.host, isNamed);
  const agents = { keepAlive: true, maxSockets: 4, lookup };
  const client = new Client({
    endpoint: place.endpoint,
    region: place.region,
    credentials: { accessKeyId: place.accessKey, secretAccessKey: place.secretKey },
    forcePathStyle: place.pathStyle,
    // other products know neither the checksums of each call nor buckets of several regions
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    disableMultiregionAccessPoints: true,
    disableS3ExpressSessionAuth: true,
    useArnRegion: false,
    useDualstackEndpoint: false,
    useFipsEndpoint: false,
    retryMode: 'standard',
    maxAttempts: 2,
    requestHandler: {
      connectionTimeout: connectMs,
      socketTimeout: silenceMs,
      httpAgent: agents,
      httpsAgent: { ...agents, ...(place.ca !== undefined && { ca: place.ca }) },
    },
  });
  let aheadMs: number | undefined;
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const response = result.response as { headers: Record<string, string>; body?: Readable }; // of its HTTP handler
      const date = Date.parse(response.headers['date'] ?? '');
      if (!Number.isNaN(date)) aheadMs = date - Date.now();
      if (response.body !== undefined) response.body = bounded(response.body);
      return result;
    },
    { step: 'deserialize', priority: 'low', name: 'boundedAnswer' },
  );
  return {
    client,
    place,
    get aheadMs() {
      return aheadMs;
    },
    [Symbol.dispose]() {
      end();
      client.destroy();
    },
  };
}

/** Resolves names to addresses that may be reached, until `end` is called. */
function judgedLookup(host: string, isNamed: boolean): { lookup: LookupFunction; end: () => void } {
  const over = new AbortController();
  return {
    end: () => over.abort(),
    lookup(name, options, found) {
      addressesOf(name, over.signal).then(
        (addresses) => {
          try {
            for (const address of addresses) judge(address, host, isNamed);
          } catch (error) {
            found(error as NotAllowed, ''); // it throws nothing else
            return;
          }
          const answers = addresses.map((address) => ({ address, family: isIP(address) }));
          const [first] = answers;
          if (options.all === true) found(null, answers);
          else found(null, first?.address ?? '', first?.family);
        },
        (error: NodeJS.ErrnoException) => found(error, ''),
      );
    },
  };
}

/** @throws NotAllowed */
function judge(address: string, host: string, isNamed: boolean): void {
  const reach = reachOf(address);
  if (reach === 'public') return;
  if (reach === 'own' && !isLoopback(address))
    throw new NotAllowed(`Endpoint ${host} leads to an address that only the machine of the control plane may use`);
  if (isNamed) return;
  throw new NotAllowed(
    `Endpoint ${host} is on this machine or in a private network: a superadmin must name ${host} in the setting backup_endpoints`,
  );
}

/** The same bytes, until they are too many. */
function bounded(body: Readable): Readable {
  let bytes = 0;
  const counting = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes > maxAnswerBytes) done(new AnswerTooLarge(`An answer has more than ${maxAnswerBytes} bytes`));
      else done(null, chunk);
    },
  });
  body.once('error', (error) => counting.destroy(error));
  counting.once('close', () => body.destroy());
  return body.pipe(counting);
}
