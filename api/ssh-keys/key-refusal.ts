import { badField } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { KeyFault } from './key-pair.ts';

/** The answer to a private key that cannot be used, for the fields `private_key` and `passphrase` of a body. */
export function keyRefusal(found: KeyFault): ApiError {
  const field = found.fault.includes('passphrase') ? 'passphrase' : 'private_key';
  return badField(field, found.fault, messageOf(found));
}

function messageOf(found: KeyFault): string {
  switch (found.fault) {
    case 'no_key':
      return 'private_key must be a private key in the form of OpenSSH or PEM: send the whole file, from BEGIN to END';
    case 'public_half':
      return 'private_key is a public half: send the other file, the one without .pub';
    case 'putty':
      return 'private_key must be in the form of OpenSSH: in PuTTYgen, use Conversions, Export OpenSSH key';
    case 'broken':
      return 'private_key is damaged: send the whole file, and try it by `ssh-keygen -y -f FILE`';
    case 'passphrase_required':
      return 'passphrase is required as private_key is encrypted: send it, too';
    case 'wrong_passphrase':
      return 'passphrase does not open private_key: try it by `ssh-keygen -y -f FILE`, and send the right one';
    case 'slow':
      return 'private_key takes too long to decrypt: encrypt it with fewer rounds by `ssh-keygen -p -a 16 -f FILE`';
    case 'unsupported':
      return `private_key must be Ed25519, ECDSA (nistp256, nistp384, nistp521) or RSA: it has ${found.type}. Send another one, or generate`;
    case 'unreadable_cipher':
      return `private_key is encrypted by ${found.cipher}, which is not read: encrypt it anew by \`ssh-keygen -p -f FILE\``;
    case 'weak':
      return `private_key must have at least 2048 bits: it is RSA of ${found.bits}. Send another one, or generate`;
  }
}
