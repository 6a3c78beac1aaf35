import { expect, test } from 'vitest';
import { compose, service } from './compose-text.ts';

const read = (...lines: string[]) => {
  const { services, errors } = compose(service('ulimits:', ...lines.map((line) => `  ${line}`)));
  const ulimits = services.find(({ name }) => name === 'web')?.limits.ulimits;
  return { ulimits, errors: errors.map(({ message }) => message) };
};

test('are one number for both limits, or two, and -1 for none', () => {
  expect(read('nofile: 20000', 'memlock: {soft: -1, hard: -1}', 'nproc: {soft: 10, hard: -1}')).toEqual({
    ulimits: {
      nofile: { soft: 20_000, hard: 20_000 },
      memlock: { soft: -1, hard: -1 },
      nproc: { soft: 10, hard: -1 },
    },
    errors: [],
  });
});

test.each([
  ['rtprio: 10', 'is refused: it must be a limit of'],
  ['nofile: {soft: 2, hard: 1}', 'soft limit that is at most the hard one'],
  ['nofile: {soft: -1, hard: 1}', 'soft limit that is at most the hard one'],
  ['nofile: {soft: 2}', 'has no hard'],
  ['nofile: -2', 'or -1 for none'],
  ['nofile: many', 'or -1 for none'],
])('%s is refused', (line, words) => {
  const { errors } = read(line);
  expect(errors).toHaveLength(1);
  expect(errors[0]).toContain(words);
});
