import { expect, it } from 'vitest';
import { readDockerfile } from '../../../agent/tasks/dockerfile.ts';

const text = Buffer.from(
  ['FROM a:1 AS base', 'RUN one', 'FROM base AS Served', 'COPY --from=base /x /x', 'FROM b:1', 'RUN two', ''].join(
    '\n',
  ),
);
const read = (target?: string) => readDockerfile(text, {}, { target });

it('reads a Dockerfile up to the stage that becomes the image, by its name or number', () => {
  expect(read().text).toContain('RUN two');
  for (const target of ['served', 'SERVED', '1']) {
    const { text: upTo, images } = read(target);
    expect(upTo).toMatch(/COPY --from=base \/x \/x\n$/);
    expect(images.map(({ reference }) => reference)).toEqual(['a:1']);
  }
  expect(read('base').text).toMatch(/RUN one\n$/);
});

it('names a stage that is not there', () => {
  for (const target of ['none', '7']) expect(() => read(target)).toThrow(`no stage ${target}`);
});
