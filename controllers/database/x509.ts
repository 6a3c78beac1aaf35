import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { AsnConvert, OctetString } from '@peculiar/asn1-schema';
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  AuthorityKeyIdentifier,
  BasicConstraints,
  Certificate,
  ExtendedKeyUsage,
  Extension,
  Extensions,
  GeneralName,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_subjectAltName,
  id_ce_subjectKeyIdentifier,
  id_kp_serverAuth,
  KeyIdentifier,
  KeyUsage,
  KeyUsageFlags,
  Name,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectKeyIdentifier,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
} from '@peculiar/asn1-x509';

/** A certificate and its private key, both in PEM. */
export interface Certified {
  certificate: string;
  key: string;
}

const commonName = '2.5.4.3';
const ecdsaWithSha256 = '1.2.840.10045.4.3.2';

/** Clocks of clients may be behind by that much. In milliseconds. */
const skewMs = 3_600_000;

/** The certificate of an authority, signed by itself, with a key of its own on the curve P-256. `name`: at most 64 characters. */
export function newAuthority({ name, from, until }: { name: string; from: Date; until: Date }): Certified {
  const { privateKey, publicKey } = newKeys();
  const subject = named(name);
  const certificate = signed({
    issuer: subject,
    subject,
    validity: new Validity({ notBefore: before(from), notAfter: until }),
    publicKey,
    signer: privateKey,
    extensions: [
      extension(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: 0 }), 'critical'),
      extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign), 'critical'),
      extension(id_ce_subjectKeyIdentifier, new SubjectKeyIdentifier(identifierOf(publicKey))),
    ],
  });
  return { certificate, key: inPem(privateKey) };
}

/**
 * The certificate of a server for these names and addresses, with a key of its own on the curve P-256, issued by an authority.
 * The first name is that of its subject: at most 64 characters.
 */
export function issue(
  authority: Certified,
  { names, from, until }: { names: readonly [string, ...string[]]; from: Date; until: Date },
): Certified {
  const { privateKey, publicKey } = newKeys();
  const of = new X509Certificate(authority.certificate);
  const { tbsCertificate } = AsnConvert.parse(of.raw, Certificate);
  const certificate = signed({
    issuer: tbsCertificate.subject,
    subject: named(names[0]),
    validity: new Validity({ notBefore: before(from), notAfter: until }),
    publicKey,
    signer: createPrivateKey(authority.key),
    extensions: [
      extension(id_ce_basicConstraints, new BasicConstraints({ cA: false }), 'critical'),
      extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.digitalSignature), 'critical'),
      extension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth])),
      extension(id_ce_subjectAltName, new SubjectAlternativeName(names.map(generalName))),
      extension(id_ce_subjectKeyIdentifier, new SubjectKeyIdentifier(identifierOf(publicKey))),
      extension(
        id_ce_authorityKeyIdentifier,
        new AuthorityKeyIdentifier({
          keyIdentifier: new KeyIdentifier(identifierOf(createPublicKey(authority.certificate))),
        }),
      ),
    ],
  });
  return { certificate, key: inPem(privateKey) };
}

interface Signed {
  issuer: Name;
  subject: Name;
  validity: Validity;
  publicKey: KeyObject;
  signer: KeyObject;
  extensions: Extension[];
}

/** The certificate in PEM. */
function signed({ issuer, subject, validity, publicKey, signer, extensions }: Signed): string {
  const signatureAlgorithm = new AlgorithmIdentifier({ algorithm: ecdsaWithSha256 });
  const tbsCertificate = new TBSCertificate({
    version: Version.v3,
    serialNumber: serialNumber(),
    signature: signatureAlgorithm,
    issuer,
    validity,
    subject,
    subjectPublicKeyInfo: AsnConvert.parse(inDer(publicKey), SubjectPublicKeyInfo),
    extensions: new Extensions(extensions),
  });
  const signature = sign('sha256', Buffer.from(AsnConvert.serialize(tbsCertificate)), signer);
  const certificate = new Certificate({ tbsCertificate, signatureAlgorithm, signatureValue: bytesOf(signature) });
  return new X509Certificate(Buffer.from(AsnConvert.serialize(certificate))).toString();
}

/** 126 random bits of a positive number, whose form has 16 bytes. */
function serialNumber(): ArrayBuffer {
  const bytes = randomBytes(16);
  bytes.writeUInt8((bytes.readUInt8(0) & 0x3f) | 0x40, 0);
  return bytesOf(bytes);
}

function newKeys(): { privateKey: KeyObject; publicKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
}

function named(text: string): Name {
  const value = new AttributeValue({ utf8String: text });
  return new Name([new RelativeDistinguishedName([new AttributeTypeAndValue({ type: commonName, value })])]);
}

function generalName(text: string): GeneralName {
  return new GeneralName(isIP(text) === 0 ? { dNSName: text } : { iPAddress: text });
}

function extension(extnID: string, value: unknown, criticality?: 'critical'): Extension {
  const extnValue = new OctetString(AsnConvert.serialize(value));
  return new Extension({ extnID, critical: criticality !== undefined, extnValue });
}

/** What tells one key from others. */
function identifierOf(publicKey: KeyObject): ArrayBuffer {
  return bytesOf(createHash('sha256').update(inDer(publicKey)).digest().subarray(0, 20));
}

function before(from: Date): Date {
  return new Date(from.getTime() - skewMs);
}

function inDer(key: KeyObject): Buffer {
  return key.export({ type: 'spki', format: 'der' });
}

function inPem(key: KeyObject): string {
  return String(key.export({ type: 'pkcs8', format: 'pem' }));
}

function bytesOf(buffer: Buffer): ArrayBuffer {
  return new Uint8Array(buffer).buffer;
}
