import { createHash } from 'node:crypto';
import type { Random } from '../ground/random.ts';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const form = /^sp_[0-9A-Za-z]{40}[0-9A-Za-z]{6}$/;

/** `sp_`, 40 random characters and 6 of checksum, so that a secret scanner can recognise a leaked key offline. */
export function createServiceKey(random: Random): string {
  const body = randomBase62(random, 40);
  return `sp_${body}${checksum(body)}`;
}

/** Whether the text has the form and checksum of a service key; saves a look-up for a mistyped one. */
export function isServiceKeyForm(key: string): boolean {
  return form.test(key) && checksum(key.slice(3, 43)) === key.slice(43);
}

/** The hash that is stored for a key. A key has 238 random bits, so that a fast hash is enough. */
export function hashServiceKey(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

function checksum(body: string): string {
  let rest = createHash('sha256').update(body).digest().readUInt32BE(0);
  let digits = '';
  for (let at = 0; at < 6; at += 1) {
    digits = alphabet.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

function randomBase62(random: Random, count: number): string {
  let text = '';
  while (text.length < count) {
    for (const byte of random.bytes(count)) {
      // bytes from 248 on would make the first 8 characters likelier than the others
      if (byte < 248 && text.length < count) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}
