import { expect, test } from 'vitest';
import { usableSubnets } from '../../../agent/runtime/docker/address-pools.ts';

test.each([
  ['nothing is taken', [{ base: '172.16.0.0/12', size: 16 }], [], 16, 16],
  ['one is taken', [{ base: '172.16.0.0/12', size: 16 }], ['172.17.0.0/16'], 16, 15],
  ['a larger range takes several', [{ base: '192.168.0.0/16', size: 20 }], ['192.168.0.0/18'], 16, 12],
  ['a smaller range takes the whole one', [{ base: '192.168.0.0/16', size: 20 }], ['192.168.17.0/24'], 16, 15],
  ['others do not count', [{ base: '10.0.0.0/8', size: 24 }], ['172.17.0.0/16', 'fd00::/64', ''], 4096, 4096],
  [
    'pools are added up',
    [
      { base: '10.0.0.0/24', size: 26 },
      { base: '10.1.0.0/24', size: 25 },
    ],
    ['10.1.0.0/25'],
    6,
    5,
  ],
  [
    'what is no pool has none',
    [
      { base: 'fd00::/48', size: 64 },
      { base: '10.0.0.0/16', size: 0 },
    ],
    [],
    0,
    0,
  ],
])('%s', (_, pools, taken, total, free) => {
  expect(usableSubnets(pools, taken)).toEqual({ total, free });
});
