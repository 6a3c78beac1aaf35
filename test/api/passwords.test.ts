import { argon2Sync, randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createPasswords } from '../../api/auth/passwords.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

const base64 = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '');

/** As a former version with cheaper parameters made it. */
function oldHash(password: string): string {
  const nonce = randomBytes(16);
  const cost = { memory: 8192, passes: 1, parallelism: 1, tagLength: 32 };
  const tag = argon2Sync('argon2id', { message: password, nonce, ...cost });
  return `$argon2id$v=19$m=8192,t=1,p=1$${base64(nonce)}$${base64(tag)}`;
}

describe('SEC-40: a password', () => {
  it('is the same however its characters are composed', async () => {
    const passwords = createPasswords();
    const [composed, decomposed, wide] = [
      'Caf\u00e9 au lait 12',
      'Cafe\u0301 au lait 12',
      'Caf\u00e9 au lait \uff11\uff12',
    ];
    expect(decomposed).not.toBe(composed);
    const phc = await passwords.hash(decomposed);
    for (const typed of [composed, decomposed, wide])
      expect(await passwords.verify(typed, phc)).toEqual({ ok: true, stale: false });
    expect((await passwords.verify('Cafe au lait 12', phc)).ok).toBe(false);
  });

  it('that was hashed with other parameters is stale only where it is right', async () => {
    const passwords = createPasswords();
    const phc = oldHash('correct horse battery');
    expect(await passwords.verify('correct horse battery', phc)).toEqual({ ok: true, stale: true });
    expect(await passwords.verify('wrong horse battery', phc)).toEqual({ ok: false, stale: false });
    expect(await passwords.verify('correct horse battery', undefined)).toEqual({ ok: false, stale: false });
  });

  it('waits for at most 32 others to be hashed', async () => {
    const passwords = createPasswords();
    const answers = await Promise.allSettled(Array.from({ length: 40 }, () => passwords.hash('correct horse battery')));
    const refused = answers.filter((it) => it.status === 'rejected').map((it): unknown => it.reason);
    expect(answers.length - refused.length).toBe(34);
    for (const reason of refused) expect(reason).toMatchObject({ status: 429, retryAfter: 1 });
    await passwords.hash('correct horse battery');
  });
});

describe('a login with a stale hash', () => {
  let world: ApiWorld;
  beforeEach(async () => {
    world = await startApi();
  });
  afterEach(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  it('hashes the password anew, and one with a new hash does not', async () => {
    const { id } = await world.user('user', 'ada@example.test');
    const stored = async () => (await world.repo.get('user', id))!.desired.password_hash;
    await world.repo.change('user', id, (draft) => void (draft.password_hash = oldHash('correct horse battery')));
    const login = () =>
      world.client().post('/auth/login', { email: 'ada@example.test', password: 'correct horse battery' });
    expect((await login()).status).toBe(200);
    const renewed = await stored();
    expect(renewed).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect((await login()).status).toBe(200);
    expect(await stored()).toBe(renewed);
  });
});
