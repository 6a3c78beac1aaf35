import { expect, test } from 'vitest';
import { isForRepository } from '../../store/source-credentials.ts';
import { object } from '../harness/objects.ts';

const sealed = { $sealed: 'key.nonce.text', for: 'git_credential/id/credential.token' };
const token = { type: 'token', username: 'x', token: sealed };
const ssh = {
  type: 'ssh',
  algorithm: 'ed25519',
  public_key: 'ssh-ed25519 AAAA',
  private_key: sealed,
  host_keys: ['ssh-ed25519 AAAA'],
};

test.each([
  [token, 'git.test', 'https://git.test/anna/shop.git', true],
  [token, 'git.test', 'https://GIT.test:443/anna/shop.git', true],
  [token, 'git.test:8443', 'https://git.test:8443/anna/shop.git', true],
  [token, 'git.test', 'https://git.test:8443/anna/shop.git', false],
  [token, 'git.test', 'https://other.test/anna/shop.git', false],
  [token, 'git.test', 'git@git.test:anna/shop.git', false],
  [ssh, 'git.test', 'git@git.test:anna/shop.git', true],
  [ssh, 'git.test', 'ssh://git@git.test:22/anna/shop.git', true],
  [ssh, 'git.test', 'https://git.test/anna/shop.git', false],
  [token, 'git.test', 'no address', false],
])('a git credential %j of %s is sent to %s: %s', (credential, host, url, isSent) => {
  expect(isForRepository(object('git_credential', { host, credential }), url)).toBe(isSent);
});
