import { describe, expect, it } from 'vitest';
import { fire, nextAfter } from '../../../controllers/function/schedule.ts';
import type { CallState, Fired } from '../../../controllers/function/schedule.ts';

const rule = { expression: '*/10 * * * *', timezone: 'UTC' };
const at = (minutes: number): string => new Date(Date.UTC(2030, 0, 1, 12, minutes)).toISOString();
const rest: Fired = { handledUntil: at(0), missed: [], isIdle: false, rule: 'UTC */10 * * * *' };

function step(before: Fired, call: CallState, minutes: number, isIdle = false): Fired {
  return fire(rule, before, call, { isIdle, now: new Date(at(minutes)) });
}

describe('a schedule', () => {
  it('asks for nothing before its time, and once for the instant that has come', () => {
    expect(step(rest, 'absent', 9)).toEqual({ ...rest, firing: undefined });
    const fired = step(rest, 'absent', 10);
    expect(fired).toMatchObject({ handledUntil: at(10), lastRunAt: at(10), firing: { at: at(10), missed: [] } });
    // the same clock again, as after a crash or by another leader
    expect(step(fired, 'absent', 10)).toEqual(fired);
    expect(nextAfter(rule, fired)).toBe(at(20));
  });

  it('records the end of a call before that is removed, and rests once it is', () => {
    const fired = step(rest, 'absent', 10);
    const ended = step(fired, 'ended', 11);
    expect(ended.firing).toEqual({ at: at(10), missed: [], ended: true });
    expect(step(ended, 'ended', 11)).toEqual(ended);
    expect(step(ended, 'absent', 11).firing).toBeUndefined();
  });

  it('begins no call while one goes on, and has the next one record what was missed', () => {
    const fired = step(rest, 'absent', 10);
    const busy = step(fired, 'under_way', 35);
    expect(busy).toMatchObject({ handledUntil: at(30), missed: [at(20), at(30)], firing: { at: at(10) } });
    const next = step(step(busy, 'ended', 39), 'absent', 40);
    expect(next).toMatchObject({ firing: { at: at(40), missed: [at(20), at(30)] }, missed: [] });
  });

  it('catches up once after the control plane was away', () => {
    expect(step(rest, 'absent', 45).firing).toEqual({ at: at(40), missed: [at(10), at(20), at(30)] });
    const long = step(rest, 'absent', 60 * 24 * 3);
    expect(long.firing?.missed).toHaveLength(20);
  });

  it('catches up nothing of the time in which its function was stopped', () => {
    const idle = step(rest, 'absent', 15, true);
    expect(idle).toMatchObject({ isIdle: true, handledUntil: at(0) });
    const again = step(idle, 'absent', 45);
    expect(again).toMatchObject({ isIdle: false, handledUntil: at(45), firing: undefined });
    expect(step(again, 'absent', 50).firing?.at).toBe(at(50));
  });

  it('begins anew with another expression or time zone', () => {
    const before = { ...rest, rule: 'UTC 0 3 * * *', missed: [at(-10)] };
    const changed = step(before, 'absent', 45);
    expect(changed).toMatchObject({ rule: rest.rule, handledUntil: at(45), missed: [], firing: undefined });
    expect(step(changed, 'absent', 50).firing).toEqual({ at: at(50), missed: [] });
    // what an earlier release recorded
    expect(step({ ...rest, rule: undefined }, 'absent', 10).firing?.at).toBe(at(10));
  });

  it('has the next call record the instants of one that no agent took', () => {
    const fired = step(rest, 'absent', 25);
    const expired = step(fired, 'expired', 26);
    expect(expired).toMatchObject({ firing: { at: at(20), ended: true }, missed: [at(10), at(20)] });
    expect(step(expired, 'expired', 26)).toEqual(expired);
    expect(step(expired, 'absent', 30).firing).toEqual({ at: at(30), missed: [at(10), at(20)] });
  });

  it('goes on by a clock that was set back', () => {
    const ahead = step({ ...rest, handledUntil: at(60 * 26) }, 'absent', 5);
    expect(ahead.handledUntil).toBe(at(5));
    expect(step(ahead, 'absent', 10).firing?.at).toBe(at(10));
    expect(step({ ...rest, handledUntil: at(60) }, 'absent', 5).handledUntil).toBe(at(60));
  });

  it('catches up for the last instant of an absence with more instants than one list has', () => {
    expect(step(rest, 'absent', 10 * 1200).firing?.at).toBe(at(10 * 1200));
  });

  it('keeps local time over both changes of clocks', () => {
    const after = (expression: string, handledUntil: string): string | undefined =>
      nextAfter({ expression, timezone: 'Europe/Berlin' }, { ...rest, handledUntil });
    expect(after('30 3 * * *', '2030-03-30T02:30:00.000Z')).toBe('2030-03-31T01:30:00.000Z');
    // the hour that comes twice counts once
    expect(after('30 2 * * *', '2030-10-26T12:00:00.000Z')).toBe('2030-10-27T00:30:00.000Z');
    expect(after('30 2 * * *', '2030-10-27T00:30:00.000Z')).toBe('2030-10-28T01:30:00.000Z');
  });
});
