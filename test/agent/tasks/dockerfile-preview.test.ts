import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dockerfilePreview } from '../../../agent/tasks/generated-dockerfile.ts';
import type { Git } from '../../../agent/tasks/git.ts';
import { openWorkFolder, type WorkFolder } from '../../../agent/tasks/work-folder.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { until } from '../../harness/until.ts';

let root: string;
let folder: WorkFolder;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'setpoint-preview-'));
  folder = await openWorkFolder(join(root, 'work'));
});
afterAll(() => rm(root, { recursive: true }));

const full = new RuntimeFailure('no_space', 'full', { retryable: true });
const gone = new Error('The repository went away');
const over = new AbortController().signal;

/** Previews of repositories whose checkouts end when the test says so. */
function previews() {
  const clock = new FakeClock();
  const reading = new Map<string, () => void>();
  const disk = { isFull: false, check: () => (disk.isFull ? Promise.reject(full) : Promise.resolve()) };
  const git: Git = {
    head: () => Promise.reject(gone),
    tag: () => Promise.reject(gone),
    changes: () => Promise.reject(gone),
    follows: () => Promise.reject(gone),
    async checkout({ url }, _folder, signal) {
      const end = Promise.withResolvers<never>();
      reading.set(url, () => end.reject(gone));
      signal.addEventListener('abort', () => end.reject(signal.reason as Error), { once: true });
      return end.promise.finally(() => reading.delete(url));
    },
  };
  const runtime = { builder: () => Promise.resolve({ type: 'classic' as const }) };
  const preview = dockerfilePreview({ git, folder, runtime, disk, clock });
  const ask = (project_id: string, repository_url: string): Promise<unknown> => {
    const generate = { has_command: false, app_type: 'web' };
    return preview({ project_id, repository_url, branch: 'main', build_context: '.', build_args: [], generate }, over);
  };
  return { clock, reading, disk, ask };
}

test('two previews at a time read their repositories, one of a project', async () => {
  const { reading, ask } = previews();
  const all = ['one', 'two', 'three'].map((name) => expect(ask(name, name)).rejects.toBe(gone));
  all.push(expect(ask('one', 'one more')).rejects.toBe(gone));
  await until('two read', async () => reading.size === 2);
  expect([...reading.keys()].toSorted()).toEqual(['one', 'two']);
  reading.get('two')?.();
  await until('the third one reads', async () => reading.has('three'));
  expect([...reading.keys()].toSorted()).toEqual(['one', 'three']);
  reading.get('one')?.();
  await until('the project has its turn again', async () => reading.has('one more'));
  for (const end of reading.values()) end();
  await Promise.all(all);
});

test('a preview reads nothing while the disk is full, and ends once it fills up', async () => {
  const { clock, reading, disk, ask } = previews();
  disk.isFull = true;
  await expect(ask('one', 'one')).rejects.toBe(full);
  expect(reading.size).toBe(0);
  disk.isFull = false;
  const asked = expect(ask('one', 'one')).rejects.toBe(full);
  await until('it reads', async () => reading.size === 1);
  disk.isFull = true;
  await clock.advance(2_000);
  await asked;
  expect(reading.size).toBe(0);
});
