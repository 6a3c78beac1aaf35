import { describe, expect, it } from 'vitest';
import { appendEvent, readEvents, writeEvents } from '../../store/event-ring.ts';
import type { ObjectEvent } from '../../store/event-ring.ts';

const pulled = { type: 'normal', reason: 'Pulled', message: 'Pulled image' } as const;
const restarted = { type: 'warning', reason: 'Restarted', message: 'Restarted, exit 137' } as const;
const at = (second: number): Date => new Date(Date.UTC(2030, 0, 1, 0, 0, second));

describe('the events of an object', () => {
  it('count a repeated reason, keep its first time and show its last message at the end', () => {
    let events: readonly ObjectEvent[] = [];
    events = appendEvent(events, restarted, at(1));
    events = appendEvent(events, pulled, at(2));
    events = appendEvent(events, { ...restarted, message: 'Restarted, exit 1' }, at(3));
    expect(events).toEqual([
      { ...pulled, count: 1, first_at: at(2).toISOString(), last_at: at(2).toISOString() },
      {
        ...restarted,
        message: 'Restarted, exit 1',
        count: 2,
        first_at: at(1).toISOString(),
        last_at: at(3).toISOString(),
      },
    ]);
  });

  it('distinguish a warning from a normal event of the same reason', () => {
    const events = appendEvent(appendEvent([], pulled, at(1)), { ...pulled, type: 'warning' }, at(2));
    expect(events.map((event) => event.count)).toEqual([1, 1]);
  });

  it('distinguish what happened to one part from what happened to another', () => {
    const started = { type: 'normal', reason: 'Started', message: 'It started' } as const;
    let events: readonly ObjectEvent[] = [];
    for (const about of ['one', 'two', 'one']) events = appendEvent(events, { ...started, about }, at(events.length));
    expect(events.map(({ about, count }) => [about, count])).toEqual([
      ['two', 1],
      ['one', 2],
    ]);
  });

  it('are at most 50, the oldest fall out', () => {
    let events: readonly ObjectEvent[] = [];
    for (let n = 0; n < 60; n++) events = appendEvent(events, { ...pulled, reason: `Reason${n}` }, at(n));
    expect(events).toHaveLength(50);
    expect(events[0]?.reason).toBe('Reason10');
  });

  it('fit their record however long a message is', () => {
    let events: readonly ObjectEvent[] = [];
    for (let n = 0; n < 50; n++)
      events = appendEvent(events, { ...pulled, reason: `R${n}`, message: 'x'.repeat(1e6) }, at(n));
    expect(writeEvents(events).length).toBeLessThan(64 * 1024);
  });

  it('survive their record', () => {
    const events = appendEvent([], pulled, at(1));
    expect(readEvents(writeEvents(events))).toEqual(events);
  });

  it.each([undefined, '', 'no json', '{"v":2,"events":[]}', '[]'])('are none if the record says %j', (value) => {
    expect(readEvents(value)).toEqual([]);
  });
});
