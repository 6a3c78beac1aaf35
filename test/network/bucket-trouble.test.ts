import { expect, test } from 'vitest';
import { troubleOf } from '../../network/bucket-trouble.ts';
import type { BucketPlace } from '../../network/bucket.ts';

const place: BucketPlace = {
  endpoint: 'https://s3.example.com',
  region: 'eu-central-1',
  bucket: 'backups',
  prefix: 'shop',
  accessKey: 'AKIDEXAMPLE',
  secretKey: 'secret-of-the-test',
  pathStyle: true,
  ca: undefined,
  storageClass: 'COLD',
  allowed: [],
};
const system = (code: string): Error => Object.assign(new Error(`${code} at 12:31:07`), { code });
const s3 = (code: string, httpStatusCode: number, more: object = {}): Error =>
  Object.assign(
    new Error('request 4711'),
    { name: code, Code: code, $metadata: { httpStatusCode, requestId: '4711' } },
    more,
  );

test.each<[string, Error, Partial<BucketPlace>, string]>([
  ['wrong_secret', s3('SignatureDoesNotMatch', 403), {}, 'The secret key is not the one of the access key'],
  ['unknown_key', s3('InvalidAccessKeyId', 403), {}, 'Endpoint s3.example.com knows no such access key'],
  ['keys_refused', s3('NotSignedUp', 403), {}, 'ask the provider (NotSignedUp)'],
  ['no_bucket', s3('NoSuchBucket', 404), {}, 'has no bucket backups'],
  ['may_not_write', s3('AccessDenied', 403), {}, 'may not write to bucket backups below shop/: allow s3:PutObject'],
  ['may_not_write', s3('AccessDenied', 403), { prefix: '' }, 'may not write to bucket backups: allow'],
  ['wrong_region', s3('PermanentRedirect', 301), {}, 'is not in region eu-central-1'],
  ['wrong_region', s3('AuthorizationHeaderMalformed', 400, { Region: 'us-west-2' }), {}, 'set region to us-west-2'],
  [
    'wrong_region',
    s3('AuthorizationHeaderMalformed', 400, { Region: 'a "b" <c>' }),
    {},
    'is not in region eu-central-1',
  ],
  ['bad_storage_class', s3('InvalidStorageClass', 400), {}, 'has no storage class COLD'],
  ['bad_storage_class', s3('InvalidArgument', 400), {}, 'has no storage class COLD'],
  ['unexpected', s3('InvalidArgument', 400), { storageClass: undefined }, 'refuses the request (InvalidArgument, 400)'],
  ['no_name', system('ENOTFOUND'), {}, 'The name of endpoint s3.example.com has no address'],
  ['no_name', system('ENOTFOUND'), { pathStyle: false }, 'The name backups.s3.example.com has no address'],
  ['refused', system('ECONNREFUSED'), {}, 'nothing listens there'],
  ['no_route', system('ENETUNREACH'), {}, 'no route leads there'],
  ['timeout', system('ETIMEDOUT'), {}, 'does not answer in time'],
  ['not_trusted', system('SELF_SIGNED_CERT_IN_CHAIN'), {}, 'give the certificate of that authority as ca'],
  ['not_trusted', system('CERT_HAS_EXPIRED'), {}, 'is not valid today'],
  ['not_trusted', system('ERR_TLS_CERT_ALTNAME_INVALID'), { pathStyle: false }, 'or set path_style to true'],
  ['provider_trouble', s3('InternalError', 500), {}, 'see the status page of the provider'],
  ['unexpected', s3('<script>', 400), {}, 'refuses the request (400)'],
  ['unexpected', new Error('anything'), {}, 'refuses the request (Error)'],
])('%s: %s', (code, error, changes, words) => {
  const { code: found, message } = troubleOf(error, 'write', { ...place, ...changes });
  expect(found).toBe(code);
  expect(message).toContain(words);
  // what changes with each request, and what no reader may see
  expect(message).not.toMatch(/4711|12:31|AKIDEXAMPLE|secret-of-the-test|<script>/);
  expect(message).toMatch(/^[A-Z].*[^.]$/);
});
