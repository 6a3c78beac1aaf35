import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import PQueue from 'p-queue';
import { badField, tooMany } from '../ground/api-error.ts';

const derive = promisify(argon2);

/** argon2id; memory in KiB. A hash with other parameters is replaced at the next login. */
const parameters = { memory: 19_456, passes: 2, parallelism: 1, tagLength: 32 } as const;
const saltBytes = 16;
const hashesAtOnce = 2;
const hashesWaiting = 32;

export interface Passwords {
  /** @throws ApiError BAD_REQUEST naming `field` for a password that breaks the rules. */
  check(password: string, field: string): void;
  /** Returns a PHC string. @throws ApiError TOO_MANY_REQUESTS when too many hashes wait already. */
  hash(password: string): Promise<string>;
  /**
   * Takes as long without a hash (no such account) as with one. `stale`: the hash has other parameters than new ones.
   */
  verify(password: string, phc: string | undefined): Promise<{ ok: boolean; stale: boolean }>;
}

/** Hashes passwords in a bounded pool, so that logins cannot take every core. */
export function createPasswords(): Passwords {
  const common = new Set(readFileSync(new URL('common-passwords.txt', import.meta.url), 'utf8').split('\n'));
  const pool = new PQueue({ concurrency: hashesAtOnce });
  const decoy = encode(randomBytes(saltBytes), randomBytes(parameters.tagLength));

  const inPool = async <T>(work: () => Promise<T>): Promise<T> => {
    if (pool.size >= hashesWaiting) throw tooMany('Too many logins at once', 1);
    return pool.add(work);
  };

  return {
    check(password, field) {
      const length = Array.from(password).length;
      if (length < 8 || length > 128)
        throw badField(field, 'length', `Password must have 8 to 128 characters: got ${length}`);
      if (common.has(normalized(password).toLowerCase()))
        throw badField(field, 'common', 'Password is one of the commonest ones');
    },
    async hash(password) {
      const salt = randomBytes(saltBytes);
      return encode(salt, await inPool(() => digest(password, salt, parameters)));
    },
    async verify(password, phc) {
      const { salt, tag, ...cost } = decode(phc ?? decoy);
      const actual = await inPool(() => digest(password, salt, { ...cost, tagLength: tag.length }));
      const ok = timingSafeEqual(actual, tag) && phc !== undefined;
      const stale =
        cost.memory !== parameters.memory ||
        cost.passes !== parameters.passes ||
        cost.parallelism !== parameters.parallelism;
      return { ok, stale: ok && stale };
    },
  };
}

interface Cost {
  memory: number;
  passes: number;
  parallelism: number;
}

async function digest(password: string, salt: Buffer, cost: Cost & { tagLength: number }): Promise<Buffer> {
  return derive('argon2id', { message: normalized(password), nonce: salt, ...cost });
}

/** The same password may be typed as different code points on different keyboards. */
function normalized(password: string): string {
  return password.normalize('NFKC');
}

function encode(salt: Buffer, tag: Buffer): string {
  const { memory, passes, parallelism } = parameters;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(tag)}`;
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}

function decode(phc: string): Cost & { salt: Buffer; tag: Buffer } {
  const found = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(phc);
  if (found === null) throw new Error('Stored password hash must be a PHC string of argon2id');
  const [, memory, passes, parallelism, salt = '', tag = ''] = found;
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
}
