import { describe, expect, it } from 'vitest';
import {
  connectionLimits,
  countConnection,
  parseConnections,
  reconnectsOf,
  withLoss,
  withRefusal,
} from '../../store/connections.ts';

const start = Date.parse('2030-01-01T00:00:00.000Z');
const after = (ms: number) => new Date(start + ms);

describe('the record of the connections of an agent', () => {
  it('counts each session once, and not the first one ever', () => {
    const first = countConnection(undefined, 'a', after(0));
    expect(reconnectsOf(first, after(0))).toBe(0);
    expect(countConnection(first, 'a', after(1000))).toBe(first);
    const third = countConnection(countConnection(first, 'b', after(2000)), 'c', after(3000));
    expect(reconnectsOf(third, after(3000))).toBe(2);
  });

  it('forgets what is older than 24 hours', () => {
    const record = countConnection(countConnection(undefined, 'a', after(0)), 'b', after(0));
    expect(reconnectsOf(record, after(connectionLimits.withinMs - 1))).toBe(1);
    expect(reconnectsOf(record, after(connectionLimits.withinMs))).toBe(0);
    expect(countConnection(record, 'c', after(connectionLimits.withinMs)).again).toHaveLength(1);
  });

  it('is bounded, however often the agent connects and whatever is told of a loss', () => {
    let record = countConnection(undefined, 'first', after(0));
    for (let n = 0; n < 3 * connectionLimits.counted; n++) record = countConnection(record, `${n}`, after(n));
    expect(reconnectsOf(record, after(1000))).toBe(connectionLimits.counted);
    expect(withLoss(record, 'x'.repeat(5000), after(0)).lost?.why).toHaveLength(connectionLimits.whyChars);
    expect(parseConnections({ value: JSON.stringify(record) })).toEqual(record);
  });

  it('has a refusal once, until the agent connects again', () => {
    const first = countConnection(undefined, 'a', after(0));
    const refused = withRefusal(first, 'Its key is unknown', after(1000));
    expect(refused.lost).toEqual({ at: after(1000).toISOString(), why: 'Its key is unknown', refused: 'UnknownKey' });
    expect(withRefusal(refused, 'Its key is unknown', after(2000))).toBe(refused);
    const { lost } = countConnection(refused, 'b', after(3000));
    expect(lost).toEqual({ at: after(1000).toISOString(), why: 'Its key is unknown' });
  });

  it('that cannot be read counts as none', () => {
    for (const value of ['', '{', '{"session":1}']) expect(parseConnections({ value })).toBeUndefined();
  });
});
