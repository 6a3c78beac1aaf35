import { AnswerTooLarge, NotAllowed } from './bucket.ts';
import type { BucketPlace } from './bucket.ts';

/** What a client of a bucket does, by what it needs. */
export type BucketStep = 'write' | 'read' | 'list' | 'delete' | 'upload';

/** What is in the way, as programs tell it apart. */
export type TroubleCode = Cause | `may_not_${BucketStep}` | 'not_allowed' | 'reads_differently' | 'not_listed';

/** Why a bucket cannot be used. The message is for people: what is wrong and what to do, the same for the same cause. */
export interface Trouble {
  code: TroubleCode;
  message: string;
  /** It may pass by itself: the same request can succeed a little later. */
  isPassing: boolean;
}

/** A call of a bucket failed. Its message is that of the trouble. */
export class BucketFailure extends Error {
  readonly trouble: Trouble;

  constructor(trouble: Trouble, options?: ErrorOptions) {
    super(trouble.message, options);
    this.name = 'BucketFailure';
    this.trouble = trouble;
  }
}

/** The deadline of one call has passed. */
export class CallTimedOut extends Error {}

/** What an error of the SDK says, as far as this knows it. */
interface Said {
  /** The code of S3 or of the system, such as `NoSuchBucket` or `ECONNREFUSED`. */
  code: string;
  status: number | undefined;
  /** The region that the bucket is in, if the service says it. */
  region: string | undefined;
}

const rights: Readonly<Record<BucketStep, string>> = {
  write: 's3:PutObject',
  read: 's3:GetObject',
  list: 's3:ListBucket and s3:ListBucketMultipartUploads',
  delete: 's3:DeleteObject',
  upload: 's3:PutObject, s3:AbortMultipartUpload and s3:ListMultipartUploadParts',
};
const doing: Readonly<Record<BucketStep, string>> = {
  write: 'write to',
  read: 'read from',
  list: 'list',
  delete: 'delete from',
  upload: 'upload in parts to',
};

/** Of each cause, the codes of the system, of TLS and of S3 that tell it. */
const codesOf = {
  no_name: ['ENOTFOUND', 'EAI_AGAIN', 'EAI_NODATA'],
  refused: ['ECONNREFUSED'],
  cut_off: ['ECONNRESET', 'EPIPE'],
  no_route: ['EHOSTUNREACH', 'ENETUNREACH'],
  timeout: ['ETIMEDOUT', 'TimeoutError'],
  no_tls: ['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'],
  expired: ['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID'],
  other_name: ['ERR_TLS_CERT_ALTNAME_INVALID'],
  not_trusted: [
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'SELF_SIGNED_CERT_IN_CHAIN',
    'UNABLE_TO_GET_ISSUER_CERT',
    'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    'CERT_SIGNATURE_FAILURE',
  ],
  wrong_secret: ['SignatureDoesNotMatch'],
  unknown_key: ['InvalidAccessKeyId'],
  keys_refused: ['AccountProblem', 'AllAccessDisabled', 'InvalidSecurity', 'NotSignedUp', 'UserSuspended'],
  clock_wrong: ['RequestTimeTooSkewed', 'RequestExpired'],
  no_bucket: ['NoSuchBucket'],
  may_not: ['AccessDenied', 'Forbidden'],
  wrong_region: [
    'PermanentRedirect',
    'TemporaryRedirect',
    'AuthorizationHeaderMalformed',
    'IllegalLocationConstraintException',
    'InvalidRegion',
  ],
  bad_storage_class: ['InvalidStorageClass'],
  not_readable_at_once: ['InvalidObjectState'],
  no_space: ['QuotaExceeded', 'XMinioStorageFull', 'InsufficientCapacity'],
  provider_trouble: ['SlowDown', 'ServiceUnavailable'],
  not_s3: [],
  unexpected: [],
} as const satisfies Record<string, readonly string[]>;

type Told = keyof typeof codesOf;
type Cause = Exclude<Told, 'expired' | 'other_name' | 'may_not'>;

const toldBy = new Map<string, Told>(
  Object.entries<readonly string[]>(codesOf).flatMap(
    ([told, codes]) => codes.map((code) => [code, told as Told] as const), // a key of the table
  ),
);

/** What tells it where the code does not. */
function toldByStatus(status: number | undefined): Told {
  if (status === undefined) return 'unexpected';
  if (status === 401) return 'keys_refused';
  if (status === 301 || status === 307 || status === 308) return 'wrong_region';
  if (status === 507) return 'no_space';
  if (status === 429 || status >= 500) return 'provider_trouble';
  return status < 300 || status === 404 || status === 405 ? 'not_s3' : 'unexpected';
}

/** These may pass by themselves. */
const passing: ReadonlySet<Told> = new Set([
  'no_name',
  'refused',
  'cut_off',
  'no_route',
  'timeout',
  'provider_trouble',
] as const);

/** Whether that code is of a bucket that gave no answer, or none of its own, which may pass by itself. */
export function isWithoutAnswer(code: string): boolean {
  return (passing as ReadonlySet<string>).has(code);
}

/** What the words of a cause are made of. */
interface Words extends Said {
  host: string;
  step: BucketStep;
  place: BucketPlace;
}

const unreachable =
  (why: string) =>
  ({ host }: Words) =>
    `Endpoint ${host} cannot be reached from the control plane, as ${why}: check endpoint, the firewall, and that the service runs`;
const orPathStyle = ({ pathStyle }: BucketPlace): string => (pathStyle ? '' : ', or set path_style to true');

const wordsOf: Readonly<Record<Told, (it: Words) => string>> = {
  no_name: ({ host, place }) =>
    place.pathStyle
      ? `The name of endpoint ${host} has no address: check endpoint, and the DNS of the control plane`
      : `The name ${place.bucket}.${host} has no address: check endpoint and the DNS of the control plane, or set path_style to true`,
  refused: unreachable('nothing listens there'),
  cut_off: unreachable('it ends the connection'),
  no_route: unreachable('no route leads there'),
  timeout: unreachable('it does not answer in time'),
  no_tls: ({ host }) =>
    `Endpoint ${host} does not speak TLS: check its port, or begin endpoint with http:// where the settings name it`,
  expired: ({ host }) =>
    `The certificate of endpoint ${host} is not valid today: renew it there, and check the clock of the control plane`,
  other_name: ({ host, place }) =>
    `The certificate of endpoint ${host} is for other names: check endpoint${orPathStyle(place)}`,
  not_trusted: ({ host }) =>
    `The certificate of endpoint ${host} is of an authority that is not trusted: give the certificate of that authority as ca`,
  wrong_secret: () =>
    'The secret key is not the one of the access key: copy it anew, or make another pair of keys at the provider',
  unknown_key: ({ host }) =>
    `Endpoint ${host} knows no such access key: compare it with the keys at the provider, where it may have been deleted`,
  keys_refused: ({ host, code, status }) =>
    status === 401
      ? `Endpoint ${host} refuses the keys: compare both with those at the provider`
      : `The account of the keys is barred at ${host}: ask the provider (${code})`,
  clock_wrong: ({ host }) =>
    `The clocks of ${host} and of the control plane differ by more than is allowed: set the clock of the control plane`,
  no_bucket: ({ host, place: { bucket } }) =>
    `Endpoint ${host} has no bucket ${bucket}: make it there, or correct bucket`,
  may_not: ({ step, place: { bucket, prefix } }) =>
    `The keys may not ${doing[step]} bucket ${bucket}${prefix === '' ? '' : ` below ${prefix}/`}: allow ${rights[step]} to them, and check that the bucket is of the same account`,
  wrong_region: ({ region, place: { bucket, region: asked } }) =>
    region === undefined || region === asked
      ? `Bucket ${bucket} is not in region ${asked}, or its endpoint is another one: set region and endpoint to those of the bucket`
      : `Bucket ${bucket} is in region ${region}, and not in ${asked}: set region to ${region}`,
  bad_storage_class: ({ host, place: { storageClass } }) =>
    `Endpoint ${host} has no storage class ${storageClass ?? 'of that name'}: correct storage_class, or leave it out`,
  not_readable_at_once: ({ place: { storageClass } }) =>
    `What is in storage class ${storageClass ?? 'of the bucket'} cannot be read at once, as a restore must: take another storage_class`,
  no_space: ({ place: { bucket } }) =>
    `Bucket ${bucket} is full: raise its quota at the provider, or delete what is old`,
  provider_trouble: ({ host, code, status }) =>
    `Endpoint ${host} answers with errors of its own (${code === '' ? status : code}): see the status page of the provider`,
  not_s3: ({ host, place }) =>
    `Endpoint ${host} does not speak S3, as its answers are of another form: check endpoint and its port${orPathStyle(place)}`,
  unexpected: ({ host, code, status }) => {
    const shown = [code, status].filter((it) => it !== '' && it !== undefined).join(', ');
    return `Endpoint ${host} refuses the request${shown === '' ? '' : ` (${shown})`}: check endpoint, bucket and keys`;
  },
};

/** Says in words for people what an error means that a call ended with. Pure. */
export function troubleOf(error: unknown, step: BucketStep, place: BucketPlace): Trouble {
  if (error instanceof NotAllowed) return { code: 'not_allowed', message: error.message, isPassing: false };
  const said = saidBy(error);
  const told = toldOf(error, said, place);
  const message = wordsOf[told]({ ...said, step, place, host: new URL(place.endpoint).host });
  return { code: codeOf(told, step), message, isPassing: passing.has(told) };
}

function toldOf(error: unknown, { code, status }: Said, { storageClass }: BucketPlace): Told {
  if (error instanceof AnswerTooLarge) return 'not_s3';
  if (error instanceof CallTimedOut) return 'timeout';
  // so Ceph says it, and a class is the one argument that a user chooses
  if (code === 'InvalidArgument' && storageClass !== undefined) return 'bad_storage_class';
  return toldBy.get(code) ?? toldByStatus(status);
}

function codeOf(told: Told, step: BucketStep): TroubleCode {
  if (told === 'may_not') return `may_not_${step}`;
  return told === 'expired' || told === 'other_name' ? 'not_trusted' : told;
}

function saidBy(error: unknown): Said {
  if (!(error instanceof Error)) return { code: '', status: undefined, region: undefined };
  const known = error as Error & { code?: unknown; Code?: unknown; Region?: unknown; $metadata?: unknown };
  const { httpStatusCode: status } = (known.$metadata ?? {}) as { httpStatusCode?: number };
  const headers = (known as { $response?: { headers?: Record<string, string> } }).$response?.headers;
  const code = [known.code, known.Code, known.name].find((it) => typeof it === 'string' && it !== '');
  const region = [known.Region, headers?.['x-amz-bucket-region']].find((it) => typeof it === 'string');
  return {
    // nothing else of what the service sent is ever shown
    code: /^[A-Za-z0-9_.]{1,64}$/.exec(String(code))?.[0] ?? '',
    status,
    region: /^[A-Za-z0-9-]{1,64}$/.exec(String(region ?? ''))?.[0],
  };
}
