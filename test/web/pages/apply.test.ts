import { expect, it } from 'vitest';
import { joinedText, mostBytes } from '../../../web/pages/apply/declared-files.ts';

const file = (name: string, content: string, size = content.length) => ({ name, size, text: async () => content });

it('joins files by their names to one text, and refuses more than is applied at once', async () => {
  expect(await joinedText([file('b.yaml', 'kind: B\n'), file('a.yaml', 'kind: A\n\n')])).toBe('kind: A\n---\nkind: B');
  await expect(joinedText([file('a', '', mostBytes), file('b', '', 1)])).rejects.toThrow('The files have');
  await expect(joinedText([file('a', '', 2 * mostBytes)])).rejects.toThrow('512 KiB: at most 256 KiB');
});
