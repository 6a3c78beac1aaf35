import { createHash } from 'node:crypto';

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The id that follows from `namespace` and `name` (UUID version 5, RFC 9562): the same for the same arguments, on every
 * machine, so that a creation that is repeated after a crash finds the first one.
 *
 * @throws TypeError if `namespace` is no UUID.
 */
export function uuidv5(namespace: string, name: string): string {
  if (!form.test(namespace)) throw new TypeError(`Namespace of a UUID must be a UUID: got ${namespace}`);
  const hash = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name, 'utf8')
    .digest();
  const bytes = hash.subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
