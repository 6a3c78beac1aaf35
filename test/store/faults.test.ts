import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fieldPath, parseWritten, pathBelow } from '../../store/faults.ts';

const messages = (schema: z.ZodType, value: unknown): string[] => {
  const parsed = parseWritten(schema, value, 'The body');
  return 'data' in parsed ? [] : parsed.faults.map(({ message }) => message);
};

describe('a path as text', () => {
  it.each<[readonly (string | number)[], string]>([
    [['env', 'LOG_LEVEL'], 'env.LOG_LEVEL'],
    [['env', 'MY-KEY'], 'env.MY-KEY'],
    [['env', 'spring.datasource.url'], 'env["spring.datasource.url"]'],
    [['mounts', 0, 'path'], 'mounts.0.path'],
    [['labels', 'a.b/c', 'd'], 'labels["a.b/c"].d'],
    [['a.b'], '["a.b"]'],
    [['env', ''], 'env[""]'],
    [['env', 'a"b'], 'env["a\\"b"]'],
    [[], ''],
  ])('%j', (path, text) => {
    expect(fieldPath(path)).toBe(text);
    const name = String(path.at(-1) ?? '');
    if (path.length > 0) expect(pathBelow(fieldPath(path.slice(0, -1)), name)).toBe(text);
  });
});

describe('a key that is not allowed', () => {
  it.each<[string, z.ZodType, unknown, string]>([
    [
      'by a rule with words',
      z.record(z.string().regex(/^a/, 'must begin with a'), z.string()),
      { b: '' },
      'args.b must begin with a',
    ],
    ['by a pattern', z.record(z.string().regex(/^a/), z.string()), { b: '' }, 'args.b has a name that is not allowed'],
    [
      'by its length',
      z.record(z.string().max(2), z.string()),
      { abc: '' },
      'args.abc has a name that is not allowed: it must be text of at most 2 characters',
    ],
  ])('%s', (_, args, value, message) => {
    expect(messages(z.object({ args }), { args: value })).toEqual([message]);
  });
});

it('describes the alternative and not the whole', () => {
  const schema = z.object({ size: z.union([z.string().max(2), z.number()]) });
  expect(messages(schema, { size: 'abc' })).toEqual(['size must be text of at most 2 characters or a number']);
});
