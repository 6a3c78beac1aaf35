import { describe, expect, it, test } from 'vitest';
import { EngineRules, missingRules } from '../../../agent/ports/engine-rules.ts';
import type { Present } from '../../../agent/ports/rules.ts';
import { FakeClock } from '../../harness/fake-clock.ts';

/** What engines from 20.10 on set, with a network of an environment. */
const nat = [
  ':POSTROUTING ACCEPT [0:0]',
  ':DOCKER - [0:0]',
  '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
  '-A POSTROUTING -s 172.22.0.0/16 ! -o sp-a -j MASQUERADE',
  '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
];
const filter = [':FORWARD DROP [0:0]', ':DOCKER - [0:0]', ':DOCKER-USER - [0:0]', '-A FORWARD -j DOCKER-USER'];
const before28 = [...filter, '-A FORWARD -j DOCKER-ISOLATION-STAGE-1'];
const from28 = [...filter, '-A FORWARD -j DOCKER-FORWARD'];
/** What an agent sets, and a flush of other tables leaves. */
const ours = [
  ':SETPOINT-BACK-0 - [0:0]',
  '-A SETPOINT-BACK-0 -s 172.22.0.1/16 -d 172.22.0.1/16 -p tcp -j MASQUERADE',
  '-A SETPOINT-BACK-0 -s 172.22.0.0/16 -d 172.22.0.0/16 -p tcp -j MASQUERADE',
];
const bridges = [{ name: 'sp-a', subnet: '172.22.0.1/16' }];
const tables = (inNat: readonly string[], inFilter: readonly string[]): Present =>
  new Map([
    ['nat', inNat],
    ['filter', inFilter],
  ]);

test.each([
  ['all of an engine before 28', tables(nat, before28), undefined],
  ['all of an engine from 28 on', tables(nat, from28), undefined],
  ['none, as of an engine that sets none', tables(ours, []), undefined],
  ['none in nat, after iptables -t nat -F; -X', tables(ours, before28), { tables: ['nat'], bridges: ['sp-a'] }],
  ['an empty chain, after -F', tables([':DOCKER - [0:0]'], from28), { tables: ['nat'], bridges: ['sp-a'] }],
  ['none in filter', tables(nat, [':FORWARD DROP [0:0]']), { tables: ['filter'], bridges: [] }],
  ['no jump in filter', tables(nat, filter), { tables: ['filter'], bridges: [] }],
  ['none for a network', tables(nat.toSpliced(3, 1, ...ours), from28), { tables: [], bridges: ['sp-a'] }],
] as const)('a packet filter with %s', (_, present, missing) => {
  expect(missingRules(present, { bridges, wereSeen: false })).toEqual(missing);
});

test('rules that were there are missed also where none is left', () => {
  const flushed = tables(ours, []);
  expect(missingRules(flushed, { bridges, wereSeen: true })).toEqual({ tables: ['nat', 'filter'], bridges: ['sp-a'] });
});

describe('the rules of an engine', () => {
  const whole = tables(nat, from28);
  const flushed = tables([], []);

  it('that are missing are told once they do not come back by themselves, until they are back', async () => {
    const clock = new FakeClock();
    const rules = new EngineRules(clock, () => bridges);
    rules.look(whole);
    expect(rules.fault).toBeUndefined();
    rules.look(flushed);
    expect(rules.fault).toBeUndefined();
    await clock.advance(5000);
    rules.look(flushed);
    expect(rules.fault).toMatch(/table nat and filter\): instances reach nothing outside.*systemctl restart docker/);
    expect(rules.fault?.length).toBeLessThan(500);
    rules.look(whole);
    expect(rules.fault).toBeUndefined();
  });

  it('that sets none are not missed', async () => {
    const clock = new FakeClock();
    const rules = new EngineRules(clock, () => bridges);
    rules.look(flushed);
    await clock.advance(5000);
    rules.look(flushed);
    expect(rules.fault).toBeUndefined();
  });
});
