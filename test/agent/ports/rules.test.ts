import { expect, test } from 'vitest';
import { returnsAtItsEnd } from '../../../agent/ports/firewall.ts';
import { chainsOf, guardChains, operatorsHostChain, ruleSet } from '../../../agent/ports/rules.ts';

const chains = chainsOf('0123abcd-4567-89ab-cdef-0123456789ab');
const bridge = { name: 'br-1', subnet: '172.18.0.1/16' };
const backend = (address: string): { address: string; port: number; bridge: typeof bridge } => ({
  address,
  port: 3000,
  bridge,
});

test('names of chains fit the kernel and differ by agent', () => {
  expect(chains.ports).toBe('SETPOINT-PORTS-0123abcd4567');
  for (const name of Object.values(chains)) expect(name.length).toBeLessThanOrEqual(28);
  expect(chainsOf('fedc4567-0000-0000-0000-000000000000').ports).not.toBe(chains.ports);
});

test('every instance of a port gets the same share', () => {
  const backends = ['172.18.0.2', '172.18.0.3', '172.18.0.4'].map(backend);
  const destinations = ruleSet(chains, [{ port: 80, backends }], [], undefined).find(
    ({ name }) => name === chains.ports,
  );
  expect(destinations?.rules).toEqual([
    '-p tcp -m tcp --dport 80 -m statistic --mode random --probability 0.3333333333 -j DNAT --to-destination 172.18.0.2:3000',
    '-p tcp -m tcp --dport 80 -m statistic --mode random --probability 0.5000000000 -j DNAT --to-destination 172.18.0.3:3000',
    '-p tcp -m tcp --dport 80 -j DNAT --to-destination 172.18.0.4:3000',
  ]);
});

test('what an operator forbids stays forbidden', () => {
  const set = ruleSet(chains, [{ port: 80, backends: [backend('172.18.0.2')] }], [], {
    chain: 'DOCKER-USER',
    returns: true,
  });
  const rules = set.find(({ name }) => name === chains.pass)!.rules;
  const accepted = rules.filter((rule) => rule.endsWith('-j ACCEPT'));
  expect(accepted).toHaveLength(2);
  for (const rule of accepted) {
    expect(rules[rules.indexOf(rule) - 1]).toBe(rule.replace('-j ACCEPT', '-j DOCKER-USER'));
  }
});

test.each([
  ['no chain of an operator', undefined, []],
  ['one that does not return at its end', { chain: 'DOCKER-USER', returns: false }, []],
  ['one that does', { chain: 'DOCKER-USER', returns: true }, ['DOCKER-USER']],
])('with %s, connections are accepted at the end of it or not there', (_what, operator, from) => {
  const set = ruleSet(chains, [{ port: 80, backends: [backend('172.18.0.2')] }], [], operator);
  const early = set.find(({ name }) => name === chains.early)!;
  expect(early.jumps.map((jump) => jump.from)).toEqual(from);
  expect(early.rules).toHaveLength(2 * from.length);
});

test.each([
  [[], false],
  [['-A DOCKER-USER -j RETURN'], true],
  [['-A DOCKER-USER -s 192.0.2.7/32 -j RETURN', '-A DOCKER-USER -j RETURN'], true],
  [['-A DOCKER-USER -j RETURN', '-A DOCKER-USER -j DROP'], false],
  [['-A DOCKER-USER -j RETURN', '-A DOCKER-USER -j RETURN'], false],
  [['-A DOCKER-USER -s 192.0.2.7/32 -j RETURN'], false],
])('whether a chain returns at its end: %j', (lines, returns) => {
  expect(returnsAtItsEnd(lines)).toBe(returns);
});

test('what a connection needs after its instance was chosen is there whichever instances there are by then', () => {
  const bridge = { name: 'br0', subnet: '172.18.0.0/16' };
  const backOf = (...addresses: string[]) =>
    ruleSet(
      chains,
      [{ port: 80, backends: addresses.map((address) => ({ ...backend(address), bridge })) }],
      [],
      undefined,
    ).find(({ name }) => name === chains.back)?.rules;
  expect(backOf('172.18.0.2')).toEqual(backOf('172.18.0.3', '172.18.0.4'));
  expect(backOf()).toEqual(['-s 127.0.0.0/8 -p tcp -m conntrack --ctstate DNAT --ctorigdstport 80 -j MASQUERADE']);
});

test.each([
  ['an address', { ...backend('172.18.0.2\n-A INPUT -j ACCEPT'), port: 80 }],
  ['an address of another family', backend('fe80::1')],
  ['a host name', backend('localhost')],
  ['a port', { ...backend('172.18.0.2'), port: 70_000 }],
  ['a bridge', { ...backend('172.18.0.2'), bridge: { name: 'br 1\n', subnet: '172.18.0.1/16' } }],
])('SEC-04 %s that could become another rule is refused', (_what, strange) => {
  expect(() => ruleSet(chains, [{ port: 80, backends: [strange] }], [], undefined)).toThrow(TypeError);
});

test.each(['ipv4', 'ipv6'] as const)(
  'what an operator lets instances reach of the machine is asked first, by %s',
  (family) => {
    const rulesOf = (host: string | undefined) =>
      guardChains(chains, family, { host }).find(({ name }) => name === chains.host)!.rules;
    const closed = rulesOf(undefined);
    expect(closed.filter((rule) => rule.includes('-j REJECT'))).toEqual(closed.slice(-2));
    expect(rulesOf(operatorsHostChain)).toEqual([
      ...closed.slice(0, -2),
      `-j ${operatorsHostChain}`,
      ...closed.slice(-2),
    ]);
  },
);
