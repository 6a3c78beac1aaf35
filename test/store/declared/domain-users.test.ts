import { expect, it } from 'vitest';
import { withoutOwnUsers, withOwnUsers } from '../../../store/declared/domain-users.ts';
import type { DeepReadonly } from '../../../store/deep-readonly.ts';
import { Domain } from '../../../store/kinds/domain.ts';

const domain = (address: string, ...users: string[]): Domain => {
  const [host = '', path = ''] = address.split('/');
  return Domain.parse({
    host,
    path: `/${path}`,
    basic_auth: users.map((username) => ({ username, password_hash: `of ${username}` })),
  });
};
const usersOf = (all: DeepReadonly<Domain[]>) =>
  all.map(({ host, path, basic_auth }) => `${host}${path}:${basic_auth.map(({ username }) => username).join()}`);

it.each<[what: string, live: Domain[], declared: Domain[], seen: string[], written: string[]]>([
  ['a login that a person has set', [domain('a', 'ada')], [domain('a')], ['a/:'], ['a/:ada']],
  ['a login that is declared', [domain('a', 'ada')], [domain('a', 'eve')], ['a/:ada'], ['a/:eve']],
  ['no login', [domain('a')], [domain('a')], ['a/:'], ['a/:']],
  [
    'a path without a login',
    [domain('a', 'ada'), domain('a/b')],
    [domain('a'), domain('a/b')],
    ['a/:', 'a/b:'],
    ['a/:ada', 'a/b:'],
  ],
  [
    'hosts that take the places of others',
    [domain('a', 'ada'), domain('b', 'eve'), domain('c', 'max')],
    [domain('c'), domain('d'), domain('e')],
    ['a/:', 'b/:', 'c/:'],
    ['c/:max', 'd/:ada', 'e/:eve'],
  ],
  [
    'a domain that is dropped',
    [domain('a', 'ada'), domain('b/x', 'eve')],
    [domain('a')],
    ['a/:', 'b/x:eve'],
    ['a/:ada'],
  ],
])('%s', (_, live, declared, seen, written) => {
  expect(usersOf(withoutOwnUsers(live, declared))).toEqual(seen);
  expect(usersOf(withOwnUsers(declared, live))).toEqual(written);
});
