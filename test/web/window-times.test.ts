import { describe, expect, it } from 'vitest';
import { holesBetween, isWithin, localText, movedWithin, nearestWithin } from '../../web/parts/window-times.ts';

const spans = [
  { from: 100, to: 200 },
  { from: 300, to: 400 },
];

describe('an instant on a window with a hole', () => {
  it('is in a span or not', () => {
    expect([100, 200, 250, 300, 401].map((at) => isWithin(spans, at))).toEqual([true, true, false, true, false]);
  });

  it('that is picked in the hole or beyond the ends is the nearest that can be had', () => {
    expect([0, 150, 210, 290, 999].map((at) => nearestWithin(spans, at))).toEqual([100, 150, 200, 300, 400]);
    expect(nearestWithin([], 5)).toBeUndefined();
  });

  it('that is moved into the hole goes on to its other side, and beyond the ends stays at the end', () => {
    expect(movedWithin(spans, 190, 5)).toBe(195);
    expect(movedWithin(spans, 190, 20)).toBe(300);
    expect(movedWithin(spans, 310, -20)).toBe(200);
    expect(movedWithin(spans, 390, 50)).toBe(400);
    expect(movedWithin(spans, 110, -50)).toBe(100);
  });

  it('has the hole named', () => {
    expect(holesBetween(spans)).toEqual([{ from: 200, to: 300 }]);
    expect(
      holesBetween([
        { from: 1, to: 5 },
        { from: 5, to: 9 },
      ]),
    ).toEqual([]);
  });

  it('is written to the second, so that it is read back as the same', () => {
    const at = Date.parse('2026-11-21T14:03:10');
    expect(localText(at)).toBe('2026-11-21T14:03:10');
    expect(Date.parse(localText(at))).toBe(at);
  });
});
