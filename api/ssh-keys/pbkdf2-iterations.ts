/** One element of DER. */
interface Element {
  tag: number;
  content: Buffer;
}

const pbes2 = '2a864886f70d01050d';
const pbkdf2 = '2a864886f70d01050c';
const integer = 0x02;

/**
 * How often the passphrase of an encrypted PKCS#8 key is hashed, read without doing it. `undefined`: the key is not in
 * that form, or its passphrase is hashed in another way than PBKDF2.
 */
export function pbkdf2IterationsOf(der: Buffer): number | undefined {
  const [key] = elementsOf(der);
  const [scheme] = elementsOf(key?.content);
  const [name, parameters] = elementsOf(scheme?.content);
  const [derivation] = elementsOf(parameters?.content);
  const [method, settings] = elementsOf(derivation?.content);
  const [, count] = elementsOf(settings?.content);
  if (name?.content.toString('hex') !== pbes2 || method?.content.toString('hex') !== pbkdf2) return undefined;
  return count?.tag === integer && count.content.length > 0 ? Number(`0x${count.content.toString('hex')}`) : undefined;
}

/** The elements one after another; none behind a malformed one. */
function elementsOf(der: Buffer | undefined): Element[] {
  const found: Element[] = [];
  for (let at = 0; der !== undefined && at + 2 <= der.length;) {
    const first = der.readUInt8(at + 1);
    const lengthBytes = first < 0x80 ? 0 : first - 0x80;
    const start = at + 2 + lengthBytes;
    if (lengthBytes > 4 || start > der.length) break;
    const length = lengthBytes === 0 ? first : der.readUIntBE(at + 2, lengthBytes);
    if (first === 0x80 || start + length > der.length) break;
    found.push({ tag: der.readUInt8(at), content: der.subarray(start, start + length) });
    at = start + length;
  }
  return found;
}
