import { expect, it } from 'vitest';
import { Texts } from '../../../controllers/sync/texts.ts';

const kept = (commit: string, chars: number) => ({
  commit,
  message: '',
  files: [{ path: '', content: 'x'.repeat(chars) }],
});
const million = 1024 * 1024;

it('keeps the files of the newest commit of each place, and lets those go that were used longest ago', () => {
  const texts = new Texts();
  texts.set('one', kept('a', million));
  expect(texts.get('one', 'b')).toBeUndefined();
  texts.set('one', kept('b', million));
  expect(texts.get('one', 'a')).toBeUndefined();
  texts.set('two', kept('c', million));
  expect(texts.get('one', 'b')?.commit).toBe('b');
  texts.set('three', kept('d', 15 * million));
  expect([texts.get('one', 'b')?.commit, texts.get('two', 'c'), texts.get('three', 'd')?.commit]).toEqual([
    'b',
    undefined,
    'd',
  ]);
  texts.delete('three');
  texts.set('four', kept('e', 16 * million));
  expect(texts.get('four', 'e')?.commit).toBe('e');
  texts.clear();
  expect(texts.get('four', 'e')).toBeUndefined();
});
