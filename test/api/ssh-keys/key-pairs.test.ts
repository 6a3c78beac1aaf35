import { setImmediate as nextTurn } from 'node:timers/promises';
import ssh2 from 'ssh2';
import { expect, it } from 'vitest';
import { createKeyPairs } from '../../../api/ssh-keys/key-pairs.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

const never = new AbortController().signal;

/** A key in the form of OpenSSH, whose passphrase is hashed so many times. */
function hashed(rounds: number): string {
  const made = ssh2.utils.generateKeyPairSync('ecdsa', {
    bits: 256,
    passphrase: 'sesame',
    cipher: 'aes256-ctr',
    rounds: 2,
  });
  const bytes = Buffer.from(made.private.split('\n').slice(1, -2).join(''), 'base64');
  // the salt has 16 bytes; it and the rounds are one field behind the name of the method
  const at = bytes.indexOf('bcrypt') + 'bcrypt'.length + 4 + 4 + 16;
  expect(bytes.readUInt32BE(at)).toBe(2);
  bytes.writeUInt32BE(rounds, at);
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${bytes.toString('base64')}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

const endless = { privateKey: hashed(0x7fff_ffff), passphrase: 'sesame' };

it('keys are made and read while this thread goes on', async () => {
  const pairs = createKeyPairs(new FakeClock());
  let isRead = false;
  const reading = pairs.from({ privateKey: hashed(2), passphrase: 'sesame' }, never).finally(() => (isRead = true));
  let turns = 0;
  for (; !isRead; turns += 1) await nextTurn();
  expect(await reading).toMatchObject({ algorithm: 'ecdsa-nistp256' });
  expect(turns).toBeGreaterThan(10);
  expect(await pairs.from({ generate: 'ed25519' }, never)).toMatchObject({ algorithm: 'ed25519' });
});

it('a key that takes too long to read is refused at the deadline, and its thread ends', async () => {
  const clock = new FakeClock();
  const threads = () => process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length;
  const before = threads();
  const reading = createKeyPairs(clock).from(endless, never);
  await nextTurn();
  expect(threads()).toBeGreaterThan(before);
  await clock.advance(29_999);
  await nextTurn();
  await clock.advance(1);
  expect(await reading).toEqual({ fault: 'slow' });
  expect(threads()).toBe(before);
});

it('a key that takes too long to make is a failure of the machine, not of the request', async () => {
  const clock = new FakeClock();
  const making = createKeyPairs(clock).from({ generate: 'rsa' }, never);
  const outcome = making.catch((error: unknown) => error);
  await nextTurn();
  await clock.advance(30_000);
  expect(await outcome).toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
    message: 'No SSH key could be made within 30 s; nothing was written',
  });
});

it('two at once, sixteen wait, and what comes then is refused; a client that leaves ends its own', async () => {
  const pairs = createKeyPairs(new FakeClock());
  const client = new AbortController();
  const all = Array.from({ length: 18 }, () => pairs.from(endless, client.signal));
  const outcomes = Promise.allSettled(all);
  await expect(pairs.from(endless, never)).rejects.toMatchObject({
    code: 'TOO_MANY_REQUESTS',
    message: 'Too many SSH keys are made or read at once',
  });
  client.abort(new Error('The client left'));
  for (const outcome of await outcomes)
    expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'The client left' } });
  expect(await pairs.from({ generate: 'ed25519' }, never)).toMatchObject({ algorithm: 'ed25519' });
});
