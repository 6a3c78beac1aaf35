import { expect, test } from 'vitest';
import { compaction, compactionPoint } from '../../../controllers/compaction/compaction.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { isCompacted } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { revision } from '../../../store/revision.ts';
import { openRig, type Rig } from '../runtime/rig.ts';

const { keepMs, keepRevisions, everyMs } = limits.compaction;

test.for([
  { seen: [{ revision: 50_000, at: 0 }], current: 50_000, now: 0, expected: 0 },
  { seen: [{ revision: 50_000, at: 0 }], current: 70_000, now: keepMs - 1, expected: 0 },
  { seen: [{ revision: 50_000, at: 0 }], current: 70_000, now: keepMs, expected: 50_000 },
  { seen: [{ revision: 50_000, at: 0 }], current: 55_000, now: keepMs, expected: 45_000 },
  { seen: [{ revision: 500, at: 0 }], current: 600, now: keepMs, expected: 0 },
  {
    seen: [
      { revision: 10_000, at: 0 },
      { revision: 20_000, at: keepMs / 2 },
    ],
    current: 90_000,
    now: keepMs * 1.5,
    expected: 20_000,
  },
])('of $current revisions, seen as $seen, at $now everything below $expected may go', (given) => {
  expect(compactionPoint(given.seen, given.current, given.now)).toBe(given.expected);
});

async function write(rig: Rig, times: number): Promise<void> {
  for (let n = 0; n < times; n += 250)
    await Promise.all(
      Array.from({ length: 250 }, () => rig.store.txn({ if: [], then: [{ put: keys.meta('x'), value: String(n) }] })),
    );
}

async function isListable(rig: Rig, at: number): Promise<boolean> {
  try {
    await rig.store.list(keys.all, { at: revision(at) });
    return true;
  } catch (error) {
    if (isCompacted(error)) return false;
    throw error;
  }
}

test('history goes when it is both old and long, and the present stays', async () => {
  await using rig = await openRig({ background: [compaction] });
  await write(rig, keepRevisions + 1000);
  const written = await rig.store.revision();
  await rig.clock.advance(everyMs);
  await write(rig, 500);
  expect(await isListable(rig, 1)).toBe(true);
  await rig.clock.advance(keepMs + everyMs);
  const current = await rig.store.revision();
  expect(await isListable(rig, current - keepRevisions - 1)).toBe(false);
  expect(await isListable(rig, current - keepRevisions)).toBe(true);
  expect(current - keepRevisions).toBeLessThan(written);
  expect((await rig.store.get(keys.meta('x')))?.value).toBeDefined();
  expect(await rig.metric('setpoint_compacted_revision')).toBe(current - keepRevisions);
});

test('a pass that fails is made up for by the next', async () => {
  await using rig = await openRig({ background: [compaction] });
  const compact = rig.store.compact.bind(rig.store);
  let isFull = true;
  rig.store.compact = (before) => (isFull ? Promise.reject(new Error('disk is full')) : compact(before));
  await write(rig, keepRevisions + 1000);
  await rig.clock.advance(2 * everyMs + keepMs);
  expect(await isListable(rig, 1)).toBe(true);
  isFull = false;
  await rig.clock.advance(everyMs);
  expect(await isListable(rig, 1)).toBe(false);
});
