import { generateKeyPairSync } from 'node:crypto';
import ssh2 from 'ssh2';
import { describe, expect, it } from 'vitest';
import { keyPairOf } from '../../../api/ssh-keys/key-pair.ts';

const { generateKeyPairSync: generateOpenSsh, parseKey } = ssh2.utils;

const pkcs8 = { type: 'pkcs8', format: 'pem' } as const;
const ed25519 = generateKeyPairSync('ed25519').privateKey;
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const ecdsa = (namedCurve: string) => generateKeyPairSync('ec', { namedCurve }).privateKey;
const p256 = ecdsa('prime256v1');
const openSsh = (passphrase?: string, cipher = 'aes256-ctr', rounds = 2) =>
  generateOpenSsh('ecdsa', { bits: 256, ...(passphrase !== undefined && { passphrase, cipher, rounds }) });

const read = (privateKey: string | Buffer, passphrase?: string) =>
  keyPairOf({ privateKey: privateKey.toString(), passphrase });
const linesOf = (text: string) => text.split('\n');

/** An Ed25519 key whose public half begins with a zero byte. */
const withLeadingZero = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIPXpu8T2giUmCLI07qP5Q7x1L2J87DiScJUttKO0Jbvk
-----END PRIVATE KEY-----
`;

describe('a private key is read', () => {
  it.each([
    ['Ed25519 in PKCS#8', ed25519.export(pkcs8), undefined, 'ed25519', 'ssh-ed25519'],
    ['RSA in PKCS#8', rsa.export(pkcs8), undefined, 'rsa-2048', 'ssh-rsa'],
    ['RSA in PKCS#1', rsa.export({ type: 'pkcs1', format: 'pem' }), undefined, 'rsa-2048', 'ssh-rsa'],
    ['ECDSA in SEC1', p256.export({ type: 'sec1', format: 'pem' }), undefined, 'ecdsa-nistp256', 'ecdsa-sha2-nistp256'],
    ['ECDSA of 384 bits', ecdsa('secp384r1').export(pkcs8), undefined, 'ecdsa-nistp384', 'ecdsa-sha2-nistp384'],
    ['ECDSA of 521 bits', ecdsa('secp521r1').export(pkcs8), undefined, 'ecdsa-nistp521', 'ecdsa-sha2-nistp521'],
    [
      'encrypted PKCS#8',
      ed25519.export({ ...pkcs8, cipher: 'aes-256-cbc', passphrase: 'sesame' }),
      'sesame',
      'ed25519',
      'ssh-ed25519',
    ],
    [
      'encrypted PKCS#1',
      rsa.export({ type: 'pkcs1', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'sesame' }),
      'sesame',
      'rsa-2048',
      'ssh-rsa',
    ],
    ['OpenSSH', openSsh().private, undefined, 'ecdsa-nistp256', 'ecdsa-sha2-nistp256'],
    ['encrypted OpenSSH', openSsh('open sesame').private, 'open sesame', 'ecdsa-nistp256', 'ecdsa-sha2-nistp256'],
    [
      'OpenSSH with an authenticated cipher',
      openSsh('sesame', 'aes256-gcm@openssh.com').private,
      'sesame',
      'ecdsa-nistp256',
      'ecdsa-sha2-nistp256',
    ],
    [
      'a file of Windows',
      openSsh().private.replaceAll('\n', '\r\n'),
      undefined,
      'ecdsa-nistp256',
      'ecdsa-sha2-nistp256',
    ],
    ['Ed25519 with a leading zero', withLeadingZero, undefined, 'ed25519', 'ssh-ed25519'],
  ] as const)('%s', (_, text, passphrase, algorithm, type) => {
    const pair = read(text, passphrase);
    if ('fault' in pair) throw new Error(pair.fault);
    expect(pair.algorithm).toBe(algorithm);
    // what is stored is what a login will read, without a passphrase
    const stored = parseKey(pair.privateKey);
    const line = parseKey(pair.publicKey);
    if (stored instanceof Error || line instanceof Error) throw new Error('ssh2 does not read it');
    expect([stored.type, stored.isPrivateKey(), line.type]).toEqual([type, true, type]);
    expect(stored.getPublicSSH()).toEqual(line.getPublicSSH());
    expect(stored.getPublicPEM()).toBe(line.getPublicPEM());
  });

  it('with the public half that belongs to it', () => {
    const { private: text, public: line } = openSsh();
    const pair = read(text);
    expect(pair).toMatchObject({ publicKey: line.trim() });
    const again = read('privateKey' in pair ? pair.privateKey : '');
    expect(again).toEqual(pair);
  });
});

/** The name of the cipher in a file of OpenSSH is replaced by another one of the same length or shorter. */
function withCipher(text: string, name: string): string {
  const bytes = Buffer.from(linesOf(text).slice(1, -2).join(''), 'base64');
  const length = bytes.readUInt32BE(15);
  const size = Buffer.alloc(4);
  size.writeUInt32BE(name.length);
  const changed = Buffer.concat([bytes.subarray(0, 15), size, Buffer.from(name), bytes.subarray(19 + length)]);
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${changed.toString('base64')}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** The public halves of two keys are exchanged. */
function withHalfOf(text: string, other: string): string {
  const [own, foreign] = [parseKey(text), parseKey(other)];
  if (own instanceof Error || foreign instanceof Error) throw new Error('ssh2 does not read it');
  const bytes = Buffer.from(linesOf(text).slice(1, -2).join(''), 'base64').toString('latin1');
  const [from, to] = [own, foreign].map((key) => key.getPublicSSH().subarray(-65).toString('latin1')) as [
    string,
    string,
  ];
  const changed = Buffer.from(bytes.replaceAll(from, to), 'latin1');
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${changed.toString('base64')}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** Made by `openssl pkcs8 -topk8 -iter 6000000`, `-scrypt` and `-v1 PBE-SHA1-3DES`; the passphrase is abcd. */
const hashedSixMillionTimes = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGcMFgGCSqGSIb3DQEFDTBLMCoGCSqGSIb3DQEFDDAdBAiQIzc8FEmCZgIDW42A
MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBAHHoU66CPWAGuPbbf/baIHBEC/
BF7bbqUlrUxigPMngR+YqF3JNiOYDG7fc1X6SDLdPvPwffniImRx1KRNihBUyJLQ
iJnsPm5J+jKCUGFrTAoc
-----END ENCRYPTED PRIVATE KEY-----
`;
const scrypt = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGTME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAhkIuC+hVNC1AICQAAC
AQgCAQEwHQYJYIZIAWUDBAEqBBCSbnntS3yOUirx7yg+Lsa0BEBmK39DTxmpArXR
/hf+3kfXG861lK9A3s3qaYzBj+Gk2tBvqsyFz4MAoTDT8w/nz5RqCLPCUscbIJxV
k0BzDxvU
-----END ENCRYPTED PRIVATE KEY-----
`;
const pbes1 = `-----BEGIN ENCRYPTED PRIVATE KEY-----
MFgwHAYKKoZIhvcNAQwBAzAOBAjuqxWEUhp+BgICCAAEOG8tfyTL0Dohad97HoF4
EJeFxkQOwZ4VJTuQ2gPCZRsACZ8uPN04GJGWJFLBvD5bSFP1ZtThURQ+
-----END ENCRYPTED PRIVATE KEY-----
`;

const dsa = generateKeyPairSync('dsa', { modulusLength: 1024, divisorLength: 160 }).privateKey.export(pkcs8);
const weakRsa = generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey.export(pkcs8);
const encrypted = openSsh('sesame').private;
const { publicKey: publicHalf } = generateKeyPairSync('ed25519');
const ed448 = generateKeyPairSync('ed448').privateKey.export(pkcs8);

describe('a private key is refused', () => {
  it.each([
    ['a text', 'sesame', undefined, { fault: 'no_key' }],
    ['a certificate', '-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----', undefined, { fault: 'no_key' }],
    ['a public half in a line', openSsh().public, undefined, { fault: 'public_half' }],
    ['a public half in PEM', publicHalf.export({ type: 'spki', format: 'pem' }), undefined, { fault: 'public_half' }],
    ['PuTTY’s form', 'PuTTY-User-Key-File-3: ssh-ed25519\n', undefined, { fault: 'putty' }],
    ['a file cut off', openSsh().private.slice(0, -120), undefined, { fault: 'broken' }],
    [
      'PEM cut off',

      rsa
        .export(pkcs8)
        .toString()
        .replace(/\n.{64}\n/, '\n'),
      undefined,
      { fault: 'broken' },
    ],
    ['halves of two keys', withHalfOf(openSsh().private, openSsh().private), undefined, { fault: 'broken' }],
    ['DSA', dsa, undefined, { fault: 'unsupported', type: 'DSA' }],
    [
      'a curve of no SSH',
      ecdsa('secp256k1').export(pkcs8),
      undefined,
      { fault: 'unsupported', type: 'ECDSA on secp256k1' },
    ],
    ['a key for signatures of another kind', ed448, undefined, { fault: 'unsupported', type: 'ED448' }],
    ['RSA of 1024 bits', weakRsa, undefined, { fault: 'weak', bits: 1024 }],
    ['an encrypted one without passphrase', encrypted, undefined, { fault: 'passphrase_required' }],
    ['an encrypted one with a wrong passphrase', encrypted, 'simsim', { fault: 'wrong_passphrase' }],
    [
      'an authenticated one with a wrong passphrase',
      openSsh('sesame', 'aes256-gcm@openssh.com').private,
      'simsim',
      { fault: 'wrong_passphrase' },
    ],
    [
      'a cipher that is not read',
      withCipher(encrypted, 'chacha20-poly1305@openssh.com'),
      'sesame',
      { fault: 'unreadable_cipher', cipher: 'chacha20-poly1305@openssh.com' },
    ],
    [
      'a cipher that is unknown',
      withCipher(encrypted, 'rot13'),
      'sesame',
      { fault: 'unreadable_cipher', cipher: 'rot13' },
    ],
  ] as const)('%s', (_, text, passphrase, fault) => {
    expect(read(text, passphrase)).toEqual(fault);
  });

  it.each(['pkcs1', 'pkcs8'] as const)('encrypted %s without passphrase or with a wrong one', (type) => {
    const text = rsa.export({ type, format: 'pem', cipher: 'aes-256-cbc', passphrase: 'sesame' });
    expect(read(text)).toEqual({ fault: 'passphrase_required' });
    expect(read(text, 'simsim')).toEqual({ fault: 'wrong_passphrase' });
  });

  it('encrypted PKCS#8 whose passphrase is hashed more often than is done for a request, before it is', () => {
    // the passphrase is wrong, which only the hash would tell
    expect(read(hashedSixMillionTimes, 'abcd')).toEqual({ fault: 'slow' });
  });

  it.each([
    ['scrypt', scrypt],
    ['a scheme before PBES2', pbes1],
  ])('encrypted PKCS#8 by %s', (_, text) => {
    expect(read(text, 'abcd')).toMatchObject({ fault: 'unreadable_cipher' });
  });
});

describe('a key is generated', () => {
  it.each([
    ['ed25519', 'ed25519'],
    ['rsa', 'rsa-4096'],
  ] as const)('%s', (generate, algorithm) => {
    const [one, other] = [keyPairOf({ generate }), keyPairOf({ generate })];
    expect(one).toMatchObject({ algorithm });
    expect(one).not.toEqual(other);
    expect(read('privateKey' in one ? one.privateKey : '')).toEqual(one);
  });
});
