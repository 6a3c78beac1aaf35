import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Ordered } from '../../store/ordered.ts';

interface Item {
  at: number;
  text: string;
}

const item = fc.record({ at: fc.nat(20), text: fc.string({ maxLength: 2 }) });

describe('ordered items', () => {
  it('equal a sorted model after any changes, and what was read stays as it was', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ item, remove: fc.boolean(), read: fc.boolean() })), (steps) => {
        const ordered = new Ordered<Item>((a, b) => a.at - b.at);
        const model = new Map<number, Item>();
        const readings: { items: readonly Item[]; copy: Item[] }[] = [];
        for (const step of steps) {
          const before = model.get(step.item.at);
          const after = step.remove ? undefined : step.item;
          ordered.replace(before, after);
          if (after) model.set(after.at, after);
          else model.delete(step.item.at);
          if (step.read) readings.push({ items: ordered.items, copy: [...ordered.items] });
        }
        expect(ordered.items).toEqual([...model.values()].sort((a, b) => a.at - b.at));
        expect(ordered.isEmpty).toBe(model.size === 0);
        for (const { items, copy } of readings) expect(items).toEqual(copy);
      }),
    );
  });

  it('move an item whose place changes', () => {
    const ordered = new Ordered<Item>((a, b) => a.at - b.at);
    for (const at of [1, 2, 3]) ordered.replace(undefined, { at, text: '' });
    ordered.replace({ at: 1, text: '' }, { at: 9, text: 'moved' });
    expect(ordered.items.map(({ at }) => at)).toEqual([2, 3, 9]);
  });

  it('give the same array while nothing changes', () => {
    const ordered = new Ordered<Item>((a, b) => a.at - b.at);
    ordered.replace(undefined, { at: 1, text: '' });
    expect(ordered.items).toBe(ordered.items);
  });

  it('give a run of them', () => {
    const ordered = new Ordered<Item>((a, b) => a.at - b.at);
    for (const at of [1, 3, 5, 7]) ordered.replace(undefined, { at, text: '' });
    const run = ordered.run(
      ({ at }) => at < 2,
      ({ at }) => at < 6,
    );
    expect(run.map(({ at }) => at)).toEqual([3, 5]);
  });
});
