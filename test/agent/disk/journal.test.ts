import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Journal } from '../../../agent/disk/journal.ts';
import { Ledger } from '../../../agent/engine/ledger.ts';
import { labels } from '../../../agent/runtime/runtime.ts';
import type { Container } from '../../../agent/runtime/runtime.ts';
import { failNextOf } from '../../harness/failing-files.ts';

const key = Buffer.alloc(32, 7);
let dir: string;
let path: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'setpoint-journal-'));
  path = join(dir, 'file');
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test('a record that did not get to the disk leaves nothing behind, however short the next one is', async () => {
  const { journal } = await Journal.open(path, key);
  await journal.rewrite([Buffer.from('first')]);
  await failNextOf('datasync');
  await expect(journal.append(Buffer.alloc(1_000, 'x'))).rejects.toThrow(`Cannot append to ${path}`);
  expect((await stat(path)).size).toBe(journal.bytes);
  await journal.append(Buffer.from('second'));
  await journal[Symbol.asyncDispose]();
  const again = await Journal.open(path, key);
  expect(again.records?.map(String)).toEqual(['first', 'second']);
  await again.journal[Symbol.asyncDispose]();
});

test('a rewrite that fails before it replaced the file leaves a file to which records are appended', async () => {
  const { journal } = await Journal.open(path, key);
  await journal.rewrite([Buffer.from('first')]);
  await failNextOf('sync');
  await expect(journal.rewrite([Buffer.from('new')])).rejects.toThrow(`Cannot write file ${path}`);
  expect(journal.needsRewrite).toBe(false);
  await journal.append(Buffer.from('second'));
  await journal[Symbol.asyncDispose]();
  const again = await Journal.open(path, key);
  expect(again.records?.map(String)).toEqual(['first', 'second']);
  await again.journal[Symbol.asyncDispose]();
});

test('a rewrite that fails after it replaced the file takes no record before another rewrite', async () => {
  const { journal } = await Journal.open(path, key);
  await journal.rewrite([Buffer.from('first')]);
  await failNextOf('sync', 1);
  await expect(journal.rewrite([Buffer.from('new')])).rejects.toThrow('ENOSPC');
  expect(journal.needsRewrite).toBe(true);
  await expect(journal.append(Buffer.from('second'))).rejects.toThrow('before it was written as a whole');
  await journal.rewrite([Buffer.from('third')]);
  await journal.append(Buffer.from('fourth'));
  await journal[Symbol.asyncDispose]();
  const again = await Journal.open(path, key);
  expect(again.records?.map(String)).toEqual(['third', 'fourth']);
  await again.journal[Symbol.asyncDispose]();
});

const assignment = '10000000-0000-4000-8000-000000000001';
const container: Container = {
  id: 'c1',
  name: `sp-web-${assignment.slice(0, 8)}`,
  labels: { [labels.assignment]: assignment },
  state: 'created',
  imageId: 'sha256:1',
};

test('an intent that did not get to the disk is written when it is repeated', async () => {
  {
    await using ledger = await Ledger.open(path, key);
    await ledger.complete(new Set());
    await failNextOf('datasync');
    await expect(ledger.intend(container.name, assignment)).rejects.toThrow(`Cannot append to ${path}`);
    expect(ledger.origin(container)).toBe('named');
    await ledger.intend(container.name, assignment);
    expect(ledger.origin(container)).toBe('intended');
  }
  await using again = await Ledger.open(path, key);
  expect(again.origin(container)).toBe('intended');
});

test('a container that did not get to the disk is written when it is repeated', async () => {
  {
    await using ledger = await Ledger.open(path, key);
    await ledger.complete(new Set());
    await ledger.intend(container.name, assignment);
    await failNextOf('datasync');
    await expect(ledger.made(container.id, container.name)).rejects.toThrow();
    await ledger.made(container.id, container.name);
  }
  await using again = await Ledger.open(path, key);
  expect(again.origin({ ...container, name: 'renamed' })).toBe('made');
});
