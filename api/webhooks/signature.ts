import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { WebhookProvider } from '../../store/kinds/git-webhook.ts';
import { isSigningToken, keyOfToken } from '../auth/signing-token.ts';

/** A call of a webhook as it came in. */
export interface Call {
  bytes: Buffer;
  headers: IncomingHttpHeaders;
}

/** How far the time stamp of a signed call may be from now. */
const windowMs = 5 * 60_000;

export type SignatureFault = 'no_signature' | 'wrong_signature' | 'outside_window';

/**
 * `key` is the id of the delivery at the git host. `identity` is what a captured call cannot change, so that each call
 * that repeats it is the same delivery: the key where that is signed, else the body.
 */
export type Verified = { key: string; identity: string } | { fault: SignatureFault };

/** Checks who sent a call, before anything of its body is read. Comparisons take the same time for every wrong secret. */
export function verify(provider: WebhookProvider, secret: string, call: Call, nowMs: number): Verified {
  // an empty key would make a signature that everybody can make
  if (secret === '') return { fault: 'wrong_signature' };
  switch (provider) {
    case 'github':
      return byDigest(secret, call, ['x-hub-signature-256'], ['x-github-delivery']);
    case 'gitea':
      return byDigest(
        secret,
        call,
        ['x-gitea-signature', 'x-forgejo-signature', 'x-hub-signature-256'],
        ['x-gitea-delivery', 'x-forgejo-delivery'],
      );
    case 'bitbucket':
      return byDigest(secret, call, ['x-hub-signature'], ['x-request-uuid', 'x-request-id']);
    case 'gitlab':
      return header(call, 'webhook-signature') === undefined ? byToken(secret, call) : standard(secret, call, nowMs);
    case 'generic':
      return generic(secret, call, nowMs);
  }
}

function byDigest(secret: string, call: Call, signatures: readonly string[], ids: readonly string[]): Verified {
  const sent = signatures.map((name) => header(call, name)).find((it) => it !== undefined);
  if (sent === undefined) return { fault: 'no_signature' };
  const given = /^(?:sha256=)?([0-9a-f]{64})$/i.exec(sent)?.[1] ?? '';
  if (!isSame(Buffer.from(given, 'hex'), hmac(secret, call.bytes))) return { fault: 'wrong_signature' };
  return unsigned(call, ids);
}

function byToken(secret: string, call: Call): Verified {
  const sent = header(call, 'x-gitlab-token');
  if (sent === undefined) return { fault: 'no_signature' };
  if (!isSame(sha256(sent), sha256(secret))) return { fault: 'wrong_signature' };
  return unsigned(call, ['idempotency-key', 'x-gitlab-event-uuid']);
}

/** The form of Standard Webhooks, which GitLab uses for its signing tokens. */
function standard(secret: string, call: Call, nowMs: number): Verified {
  const id = header(call, 'webhook-id') ?? '';
  const stamp = header(call, 'webhook-timestamp') ?? '';
  const key = isSigningToken(secret) ? keyOfToken(secret) : Buffer.from(secret);
  if (key === undefined) return { fault: 'wrong_signature' };
  const expected = hmac(key, Buffer.concat([Buffer.from(`${id}.${stamp}.`), call.bytes]));
  const given = (header(call, 'webhook-signature') ?? '').split(' ', 8);
  const isSigned = given
    .map((one) => one.startsWith('v1,') && isSame(Buffer.from(one.slice(3), 'base64'), expected))
    .includes(true);
  if (!isSigned) return { fault: 'wrong_signature' };
  return isNow(stamp, nowMs) ? signed(keyOf(call, ['webhook-id'])) : { fault: 'outside_window' };
}

function generic(secret: string, call: Call, nowMs: number): Verified {
  const sent = header(call, 'x-setpoint-signature');
  if (sent === undefined) return { fault: 'no_signature' };
  const [, stamp = '', given = ''] = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/i.exec(sent) ?? [];
  const expected = hmac(secret, Buffer.concat([Buffer.from(`${stamp}.`), call.bytes]));
  if (!isSame(Buffer.from(given, 'hex'), expected)) return { fault: 'wrong_signature' };
  return isNow(stamp, nowMs) ? signed(`${stamp} ${given}`) : { fault: 'outside_window' };
}

function isNow(seconds: string, nowMs: number): boolean {
  return /^\d{1,12}$/.test(seconds) && Math.abs(Number(seconds) * 1000 - nowMs) <= windowMs;
}

function signed(key: string): Verified {
  return { key, identity: key };
}

/** A delivery whose signature is of the body alone. */
function unsigned(call: Call, ids: readonly string[]): Verified {
  return { key: keyOf(call, ids), identity: digestOf(call) };
}

/** The id that the git host gave to the delivery; without one, what was sent identifies it. */
function keyOf(call: Call, names: readonly string[]): string {
  const id = names.map((name) => header(call, name)).find((it) => it !== undefined && it !== '');
  return id?.slice(0, 200) ?? digestOf(call);
}

function digestOf({ bytes }: Call): string {
  return `sha256:${sha256(bytes).toString('hex')}`;
}

function header({ headers }: Call, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function hmac(key: string | Buffer, bytes: Buffer): Buffer {
  return createHmac('sha256', key).update(bytes).digest();
}

function sha256(value: string | Buffer): Buffer {
  return createHash('sha256').update(value).digest();
}

function isSame(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}
