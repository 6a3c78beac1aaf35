import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { docker } from '../harness/engine.ts';
import { ensurePackageImage, type PackageImage } from '../harness/package-image.ts';

const makeMs = 30 * 60_000;

test('an image of packages is made once, and has the files of its recipe', { timeout: makeMs }, async () => {
  await using things = new AsyncDisposableStack();
  const mark = randomUUID();
  const recipe = (content: string): PackageImage => ({
    suite: 'trixie',
    lines: ['COPY tell /usr/local/bin/', 'COPY folder/mark /mark'],
    files: { tell: '#!/bin/sh\ncat /mark\n', 'folder/mark': content },
  });
  const made = async (content: string): Promise<string> => {
    const reference = await ensurePackageImage('made-once', recipe(content));
    things.defer(async () => void (await docker('rmi', '--force', reference)));
    return reference;
  };
  const namedAt = (reference: string): Promise<string> =>
    docker('image', 'inspect', '--format', '{{.Metadata.LastTagTime}}', reference);

  const [first, same] = await Promise.all([made(mark), made(mark)]);
  expect(same).toBe(first);
  expect(await docker('run', '--rm', first, 'tell')).toBe(mark);
  const before = await namedAt(first);
  expect(await made(mark)).toBe(first);
  expect(await namedAt(first)).toBe(before);

  const other = await made(`${mark} other`);
  expect(other).not.toBe(first);
  expect(await docker('run', '--rm', other, 'tell')).toBe(`${mark} other`);
});
