import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import ssh2 from 'ssh2';
import { pbkdf2IterationsOf } from './pbkdf2-iterations.ts';

/** What a key pair is made from: nothing but its type, or the private half as a user has it. */
export type KeyPairOrder = { generate: 'ed25519' | 'rsa' } | { privateKey: string; passphrase: string | undefined };

export interface KeyPair {
  /** Such as `ed25519`, `rsa-4096` or `ecdsa-nistp256`. */
  algorithm: string;
  /** A line of `authorized_keys` without its comment. */
  publicKey: string;
  /** In a form that `ssh2` reads without a passphrase. */
  privateKey: string;
}

/** Why a private key cannot be used. */
export type KeyFault =
  | { fault: 'no_key' | 'public_half' | 'putty' | 'broken' | 'passphrase_required' | 'wrong_passphrase' | 'slow' }
  | { fault: 'unsupported'; type: string }
  | { fault: 'unreadable_cipher'; cipher: string }
  | { fault: 'weak'; bits: number };

const rsaBits = 4096;
const leastRsaBits = 2048;
const mostRsaBits = 16_384;
/** About three seconds; OpenSSL uses 2048. */
const mostIterations = 5_000_000;

/** Makes a key pair, or reads one. It takes long: up to seconds of a processor, more with a passphrase that says so. */
export function keyPairOf(order: KeyPairOrder): KeyPair | KeyFault {
  if (!('generate' in order)) return readKeyPair(order.privateKey.trim(), order.passphrase);
  // The generator of ssh2 drops leading zero bytes of Ed25519 public keys: one of 256 keys would be malformed.
  const { privateKey } =
    order.generate === 'rsa' ? generateKeyPairSync('rsa', { modulusLength: rsaBits }) : generateKeyPairSync('ed25519');
  return pairOf(privateKey);
}

function readKeyPair(text: string, passphrase: string | undefined): KeyPair | KeyFault {
  const [, head = ''] = /^-----BEGIN ([A-Z0-9 ]{1,40})-----/.exec(text) ?? [];
  if (head === 'OPENSSH PRIVATE KEY') return readOpenSsh(text, passphrase);
  if (/(^|\s)PRIVATE KEY$/.test(head)) return readPem(text, head, passphrase);
  if (head.endsWith('PUBLIC KEY') || /^(ssh|ecdsa|sk)-\S+ /.test(text)) return { fault: 'public_half' };
  return { fault: text.startsWith('PuTTY-User-Key-File') ? 'putty' : 'no_key' };
}

function readOpenSsh(text: string, passphrase: string | undefined): KeyPair | KeyFault {
  const cipher = openSshCipherOf(text);
  const isEncrypted = cipher !== 'none';
  if (unreadable.has(cipher)) return { fault: 'unreadable_cipher', cipher };
  if (isEncrypted && passphrase === undefined) return { fault: 'passphrase_required' };
  const parsed = ssh2.utils.parseKey(text, passphrase);
  if (parsed instanceof Error) {
    const [, type] = /key type: (.+)$/.exec(parsed.message) ?? [];
    if (type !== undefined) return { fault: 'unsupported', type: type.slice(0, 50) };
    if (parsed.message.startsWith('Unsupported cipher')) return { fault: 'unreadable_cipher', cipher };
    // An authenticated cipher fails as a whole, any other by its check words.
    const isRefused = /integrity check failed|unable to authenticate/.test(parsed.message);
    return { fault: isEncrypted && isRefused ? 'wrong_passphrase' : 'broken' };
  }
  if (parsed.type === 'ssh-dss') return { fault: 'unsupported', type: 'DSA' };
  try {
    const pair = pairOf(createPrivateKey(parsed.getPrivatePEM()));
    const isWhole = 'fault' in pair || pair.publicKey === lineOf(parsed.type, parsed.getPublicSSH());
    return isWhole ? pair : { fault: 'broken' };
  } catch {
    return { fault: 'broken' };
  }
}

/** Ciphers of OpenSSH that ssh2 does not know, or with which it reads no key. */
const unreadable = new Set(['chacha20-poly1305@openssh.com']);

/** The name of the cipher, which follows the magic word of 15 bytes; `none` also for a file that is too short. */
function openSshCipherOf(text: string): string {
  const bytes = bytesOf(text);
  return bytes.length < 23 ? 'none' : bytes.toString('latin1', 19, 19 + Math.min(bytes.readUInt32BE(15), 40));
}

/** What is between the first and the last line. */
function bytesOf(text: string): Buffer {
  return Buffer.from(text.split('\n').slice(1, -1).join(''), 'base64');
}

function readPem(text: string, head: string, passphrase: string | undefined): KeyPair | KeyFault {
  const isPkcs8 = head === 'ENCRYPTED PRIVATE KEY';
  const isEncrypted = isPkcs8 || /^Proc-Type: 4,ENCRYPTED/m.test(text);
  if (isEncrypted && passphrase === undefined) return { fault: 'passphrase_required' };
  if (isPkcs8) {
    const iterations = pbkdf2IterationsOf(bytesOf(text));
    if (iterations === undefined) return { fault: 'unreadable_cipher', cipher: 'another way than PBES2 with PBKDF2' };
    if (iterations > mostIterations) return { fault: 'slow' };
  }
  try {
    return pairOf(createPrivateKey({ key: text, format: 'pem', passphrase: passphrase ?? '' }));
  } catch {
    return { fault: isEncrypted ? 'wrong_passphrase' : 'broken' };
  }
}

/** @throws Error if the key cannot be used as its own type says */
function pairOf(key: KeyObject): KeyPair | KeyFault {
  const form = formOf(key);
  if ('fault' in form) return form;
  const { algorithm, privateKey } = form;
  const parsed = ssh2.utils.parseKey(privateKey);
  if (parsed instanceof Error) return { fault: 'broken' };
  const proof = 'proof';
  const hash = algorithm.startsWith('rsa') ? 'sha256' : undefined;
  const signature: unknown = parsed.sign(proof, hash);
  // ssh2 returns errors instead of throwing them
  const isProven = Buffer.isBuffer(signature) && parsed.verify(proof, signature, hash) === true;
  if (!isProven) return { fault: 'broken' };
  return { algorithm, publicKey: lineOf(parsed.type, parsed.getPublicSSH()), privateKey };
}

function lineOf(type: string, blob: Buffer): string {
  return `${type} ${blob.toString('base64')}`;
}

const curves: Readonly<Record<string, string>> = {
  prime256v1: 'nistp256',
  secp384r1: 'nistp384',
  secp521r1: 'nistp521',
};

/** The algorithm of a key, and the key in a form that ssh2 reads. */
function formOf(key: KeyObject): Omit<KeyPair, 'publicKey'> | KeyFault {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519') return { algorithm: 'ed25519', privateKey: openSshOf(key) };
  if (type === 'rsa') {
    const bits = details?.modulusLength ?? 0;
    if (bits < leastRsaBits) return { fault: 'weak', bits };
    if (bits > mostRsaBits) return { fault: 'unsupported', type: `RSA of ${bits} bits` };
    return { algorithm: `rsa-${bits}`, privateKey: pemOf(key, 'pkcs1') };
  }
  const curve = details?.namedCurve ?? '';
  if (type === 'ec' && curves[curve] !== undefined)
    return { algorithm: `ecdsa-${curves[curve]}`, privateKey: pemOf(key, 'sec1') };
  return { fault: 'unsupported', type: type === 'ec' ? `ECDSA on ${curve}` : (type ?? '').toUpperCase() };
}

function pemOf(key: KeyObject, type: 'pkcs1' | 'sec1'): string {
  return key.export({ type, format: 'pem' }).toString();
}

/** An Ed25519 key in the form of OpenSSH, the only one of it that ssh2 reads. */
function openSshOf(key: KeyObject): string {
  const { d = '', x = '' } = key.export({ format: 'jwk' });
  const [secret, open] = [Buffer.from(d, 'base64url'), Buffer.from(x, 'base64url')];
  const half = Buffer.concat([field('ssh-ed25519'), field(open)]);
  const checkWords = Buffer.alloc(8);
  const content = Buffer.concat([checkWords, half, field(Buffer.concat([secret, open])), field('')]);
  const padding = Buffer.from([1, 2, 3, 4, 5, 6, 7].slice(0, (8 - (content.length % 8)) % 8));
  const count = Buffer.from([0, 0, 0, 1]);
  const [cipher, derivation, options] = [field('none'), field('none'), field('')];
  const all = [Buffer.from('openssh-key-v1\0'), cipher, derivation, options, count];
  const bytes = Buffer.concat([...all, field(half), field(Buffer.concat([content, padding]))]);
  const lines = bytes.toString('base64').replaceAll(/.{70}/g, '$&\n');
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** A text or bytes behind their length. */
function field(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
