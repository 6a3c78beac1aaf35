import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Ledger } from '../../../agent/engine/ledger.ts';
import type { Container } from '../../../agent/runtime/runtime.ts';

const key = Buffer.alloc(32, 7);
let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-ledger-'));
  path = join(dir, 'ledger');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const container = (id: string): Container => ({ id, name: 'any', labels: {}, state: 'created', imageId: 'sha256:1' });

/** Of these containers, the ids that the ledger on disk does not know. */
async function unknownOnDisk(ids: readonly string[]): Promise<string[]> {
  await using ledger = await Ledger.open(path, key);
  return ids.filter((id) => ledger.origin(container(id)) !== 'made');
}

test('a container that is recorded while the ledger is completed is known after a restart', async () => {
  {
    await using ledger = await Ledger.open(path, key);
    await ledger.complete(new Set());
    await Promise.all([ledger.made('a', 'sp-a'), ledger.complete(new Set(['a'])), ledger.made('b', 'sp-b')]);
    expect(['a', 'b'].map((id) => ledger.origin(container(id)))).toEqual(['made', 'made']);
  }
  expect(await unknownOnDisk(['a', 'b'])).toEqual([]);
});

test('a completed ledger knows only the containers that exist', async () => {
  {
    await using ledger = await Ledger.open(path, key);
    await ledger.made('a', 'sp-a');
    await ledger.made('b', 'sp-b');
    await ledger.complete(new Set(['b']));
    expect(['a', 'b'].map((id) => ledger.origin(container(id)))).toEqual(['foreign', 'made']);
  }
  expect(await unknownOnDisk(['a', 'b'])).toEqual(['a']);
});

test('containers that are recorded at once while the ledger is compacted are known after a restart', async () => {
  const old = Array.from({ length: 30 }, (_, n) => `${n}`.padEnd(4_000, 'x'));
  const ids = Array.from({ length: 30 }, (_, n) => `new ${n}`.padEnd(4_000, 'x'));
  {
    await using ledger = await Ledger.open(path, key);
    await Promise.all(old.map((id) => ledger.made(id, 'sp-old')));
    await Promise.all([...old.map((id) => ledger.gone(id)), ...ids.map((id) => ledger.made(id, 'sp-new'))]);
  }
  expect((await stat(path)).size).toBeLessThan(60 * 4_000);
  expect(await unknownOnDisk(ids)).toEqual([]);
  expect(await unknownOnDisk(old)).toEqual(old);
});
