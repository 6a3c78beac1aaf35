import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { WireReport } from '../../../agent-protocol/assignment.ts';
import { Results } from '../../../agent/tasks/results.ts';
import type { Result } from '../../../agent/tasks/results.ts';

const key = Buffer.alloc(32, 7);
let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-results-'));
  path = join(dir, 'results');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

function result(id: string, attempt = 1): Result {
  const report = { generation: 1, phase: 'succeeded', ready: false, stable: false, restarts: 0, crash_loop: false };
  return { id, attempt, report: WireReport.parse({ id, ...report }) };
}

/** Larger than what a file grows by before it is compacted. */
const large = (name: string): string => name.padEnd(300_000, 'x');

test('results and beginnings that are written at once while the file is compacted are known after a restart', async () => {
  const ids = [large('a'), large('b'), large('c'), 'd'];
  {
    await using results = await Results.open(path, key);
    await results.put(result(large('old')));
    await Promise.all([results.begin('begun', 1), ...ids.map((id) => results.put(result(id)))]);
  }
  await using results = await Results.open(path, key);
  const missing = ids.filter((id) => results.get(id, 1) === undefined).map((id) => id.slice(0, 1));
  expect({ missing, begun: results.hasBegun('begun', 1) }).toEqual({ missing: [], begun: true });
});

test('an attempt that began is known after a compaction beside the result of the attempt before it', async () => {
  {
    await using results = await Results.open(path, key);
    await results.put(result('restore', 1));
    await results.begin('restore', 2);
    await results.put(result(large('a')));
    await results.put(result(large('b')));
  }
  await using results = await Results.open(path, key);
  expect(results.get('restore', 1)).toEqual(result('restore', 1));
  expect(results.hasBegun('restore', 2)).toBe(true);
  await results.put(result('restore', 2));
  expect(results.hasBegun('restore', 2)).toBe(false);
});

test('a result that is forgotten leaves nothing behind', async () => {
  {
    await using results = await Results.open(path, key);
    await results.put(result(large('a')));
    await results.forget(large('a'));
    await results.begin(large('b'), 1);
    await results.forget(large('b'));
    await results.put(result('c'));
  }
  expect((await stat(path)).size).toBeLessThan(900_000);
  await using results = await Results.open(path, key);
  expect(results.get(large('a'), 1)).toBeUndefined();
  expect(results.hasBegun(large('b'), 1)).toBe(false);
  expect(results.get('c', 1)).toEqual(result('c'));
});
