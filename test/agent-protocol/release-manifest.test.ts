import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { openRelease, releaseFileName, signRelease } from '../../agent-protocol/release-manifest.ts';
import type { ReleaseManifest, SignedRelease } from '../../agent-protocol/release-manifest.ts';

const { privateKey } = generateKeyPairSync('ed25519');
const other = generateKeyPairSync('ed25519').privateKey;

const manifest: ReleaseManifest = {
  product: 'setpoint-agent',
  version: '1.2.3',
  min_version: '1.0.0',
  files: [
    { platform: 'linux-x64', name: releaseFileName('1.2.3', 'linux-x64'), size: 5, sha256: 'a'.repeat(64) },
    { platform: 'linux-riscv64', name: releaseFileName('1.2.3', 'linux-riscv64'), size: 6, sha256: 'b'.repeat(64) },
  ],
};
const signed = signRelease(manifest, privateKey);
const sent = (change: Partial<SignedRelease>): unknown => JSON.parse(JSON.stringify({ ...signed, ...change }));

describe('a signed manifest', () => {
  it('is read by those who trust its key, also with a platform that they do not know', () => {
    expect(openRelease(sent({}), [signRelease(manifest, other).key, signed.key])).toEqual(manifest);
  });

  it('is the same text each time it is signed', () => {
    expect(signRelease(structuredClone(manifest), privateKey)).toEqual(signed);
  });

  it.each([
    ['another version', { manifest: signed.manifest.replaceAll('1.2.3', '1.2.2') }],
    ['another checksum', { manifest: signed.manifest.replace('a'.repeat(64), 'c'.repeat(64)) }],
    ['an earlier version that may be updated', { manifest: signed.manifest.replace('1.0.0', '0.0.1') }],
    [
      'the signature of another manifest',
      { signature: signRelease({ ...manifest, min_version: '1.1.0' }, privateKey).signature },
    ],
    ['the key of another signer', { key: signRelease(manifest, other).key }],
  ])('with %s is refused, also where every key is trusted', (_, change) => {
    expect(() => openRelease(sent(change), [signed.key, signRelease(manifest, other).key])).toThrow(
      'signature is wrong',
    );
    expect(() => openRelease(sent(change), 'any')).toThrow('signature is wrong');
  });

  it('of a key that is not trusted is refused', () => {
    expect(() => openRelease(signRelease(manifest, other), [signed.key])).toThrow('unknown key');
    expect(() => openRelease(sent({}), [])).toThrow('unknown key');
  });

  it.each([['../../etc/passwd'], [releaseFileName('1.2.2', 'linux-x64')], [releaseFileName('1.2.3', 'linux-arm64')]])(
    'whose file has the name %s is not signed',
    (name) => {
      const [first] = manifest.files;
      expect(() => signRelease({ ...manifest, files: [{ ...first!, name }] }, privateKey)).toThrow('name of a file');
    },
  );

  it.each([[null], ['{}'], [{}], [{ ...signed, signature: '' }], [{ ...signed, manifest: 'x'.repeat(65_537) }]])(
    'is not %j',
    (value) => {
      expect(() => openRelease(value, 'any')).toThrow('not a signed manifest');
    },
  );

  it('is not a text that is signed for another purpose', () => {
    const text = JSON.stringify({ hello: 'world' });
    expect(() => openRelease({ ...signed, manifest: text }, 'any')).toThrow('signature is wrong');
  });
});
