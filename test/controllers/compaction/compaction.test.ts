import { expect, test } from 'vitest';
import { compaction, compactionPoint } from '../../../controllers/compaction/compaction.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { isCompacted } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import { revision } from '../../../store/revision.ts';
import { openRig, type Rig } from '../runtime/rig.ts';

const { keepMs, keepRevisions, everyMs, keepBytes } = limits.compaction;

const at = (ms: number, revisions: number, received = 0) => ({ revision: revisions, at: ms, received });

test.for([
  { seen: [], expected: 0 },
  { seen: [at(0, 50_000)], expected: 0 },
  { seen: [at(0, 50_000), at(keepMs - 1, 70_000)], expected: 0 },
  { seen: [at(0, 50_000), at(keepMs, 70_000)], expected: 50_000 },
  { seen: [at(0, 50_000), at(keepMs, 55_000)], expected: 45_000 },
  { seen: [at(0, 500), at(keepMs, 600)], expected: 0 },
  { seen: [at(0, 10_000), at(keepMs / 2, 20_000), at(keepMs * 1.5, 90_000)], expected: 20_000 },
  { seen: [at(0, 500), at(1, 600, keepBytes)], expected: 0 },
  { seen: [at(0, 500), at(1, 550, 9), at(2, 600, 10), at(3, 650, keepBytes + 10)], expected: 550 },
  { seen: [at(0, 50_000), at(1, 60_000, 5), at(keepMs, 61_000, keepBytes + 6)], expected: 60_000 },
])('of a history seen as $seen everything below $expected may go', ({ seen, expected }) => {
  expect(compactionPoint(seen, keepBytes)).toBe(expected);
});

test('history that is young and heavy goes before it fills a small store', async () => {
  await using rig = await openRig({ background: [compaction] });
  rig.store.size = async () => ({ bytes: 4_000_000, room: 1_000_000 });
  const before = await rig.store.revision();
  await rig.store.txn({ if: [], then: [{ put: keys.meta('x'), value: '' }] });
  await rig.clock.advance(everyMs);
  for (let n = 0; n < 3; n++)
    await rig.store.txn({ if: [], then: [{ put: keys.meta('x'), value: 'x'.repeat(500_000) }] });
  expect(await isListable(rig, before)).toBe(true);
  await rig.clock.advance(2 * everyMs);
  expect(await isListable(rig, before)).toBe(false);
  expect((await rig.store.get(keys.meta('x')))?.value).toHaveLength(500_000);
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
