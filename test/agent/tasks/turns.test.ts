import { expect, test } from 'vitest';
import { Turns } from '../../../agent/tasks/turns.ts';
import { idle } from '../../harness/idle.ts';

/** Builds that begin and end when the test asks. */
function builds(most: number) {
  const turns = new Turns(most);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, project: string, signal = new AbortController().signal): Promise<void> =>
    turns.take(
      project,
      () => {
        begun.push(name);
        return new Promise((resolve) => ends.set(name, resolve));
      },
      signal,
    );
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await idle();
  };
  return { start, end, begun };
}

test('a project with many builds does not keep another one waiting', async () => {
  const { start, end, begun } = builds(2);
  const all = [start('a1', 'a'), start('a2', 'a'), start('b1', 'b')];
  await idle();
  expect(begun).toEqual(['a1', 'b1']);
  await end('a1');
  expect(begun).toEqual(['a1', 'b1', 'a2']);
  await end('b1');
  await end('a2');
  await Promise.all(all);
});

test('of the projects that wait, the one that built last is last', async () => {
  const { start, end, begun } = builds(1);
  const all = [
    start('a1', 'a'),
    start('a2', 'a'),
    start('a3', 'a'),
    start('b1', 'b'),
    start('c1', 'c'),
    start('b2', 'b'),
  ];
  for (const name of ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']) {
    await idle();
    expect(begun.at(-1)).toBe(name);
    await end(name);
  }
  await Promise.all(all);
});

test('a build that is given up while it waits leaves its turn to others, and one that fails too', async () => {
  const { start, end, begun } = builds(1);
  const stop = new AbortController();
  const first = start('a1', 'a');
  const given = start('b1', 'b', stop.signal);
  const last = start('c1', 'c');
  stop.abort(new Error('Not wanted'));
  await expect(given).rejects.toThrow('Not wanted');
  await end('a1');
  expect(begun).toEqual(['a1', 'c1']);
  await end('c1');
  await Promise.all([first, last]);
  const turns = new Turns(1);
  const { signal } = new AbortController();
  await expect(turns.take('a', () => Promise.reject(new Error('Failed')), signal)).rejects.toThrow('Failed');
  expect(await turns.take('b', () => Promise.resolve(1), signal)).toBe(1);
});
