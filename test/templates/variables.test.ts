import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { PatternTime } from '../../api/templates/pattern-time.ts';
import { valuesFrom } from '../../api/templates/values.ts';
import { generated, sampleOf, Variable, valueFault, variableFault } from '../../api/templates/variables.ts';

const random = { id: () => randomUUID(), bytes: (count: number) => randomBytes(count) };
const now = new Date('2030-01-01T00:00:00Z');
const judging = () => ({ now, patterns: new PatternTime() });
const variable = (fields: object = {}) => Variable.parse({ name: 'A', ...fields });
const isRight = (fields: object, value: string): boolean =>
  valueFault(variable(fields), value, judging()) === undefined;

it.each([
  [{ type: 'number', min: 1, max: 5 }, ['1', '4.5', '5'], ['0', '6', 'x', '', '1e3']],
  [{ type: 'boolean' }, ['true', 'false'], ['yes', '']],
  [{ type: 'enum', options: ['a', 'b'] }, ['a', 'b'], ['c', '']],
  [{ type: 'domain' }, ['www.example.org'], ['localhost', 'https://a.b', 'a b.c', '']],
  [{ type: 'email' }, ['a@example.org'], ['a', '']],
  [{ type: 'password' }, ['12345678'], ['short', 'with\nline', 'ümlaut-password']],
  [{ type: 'secret' }, ['x'], ['']],
  [{ type: 'port' }, ['1', '65535'], ['0', '65536', '-1', '']],
  [{ type: 'size' }, ['512m', '1.5g'], ['1m', '512', '']],
  [{ type: 'cron' }, ['30 3 * * *'], ['30 3', '']],
  [{ pattern: '[a-z]{2,4}' }, ['ab'], ['a', 'abcde', 'ab\nab']],
])('a value of %o', (fields, right, wrong) => {
  for (const value of right) expect([value, isRight(fields, value)]).toEqual([value, true]);
  for (const value of wrong) expect([value, isRight(fields, value)]).toEqual([value, false]);
});

it('matches a pattern that would take for ever with nothing, soon', () => {
  expect(isRight({ pattern: '(a+)+b' }, 'a'.repeat(4000))).toBe(false);
});

it('gives all patterns of a template one time together', () => {
  const patterns = new PatternTime();
  const slow = variable({ pattern: '(a+)+b' });
  const words = Array.from({ length: 50 }, () => valueFault(slow, 'a'.repeat(4000), { now, patterns }));
  expect(new Set(words)).toEqual(new Set([expect.stringContaining('take too long')]));
  expect(patterns.matches('a', 'a')).toBe('too slow');
});

it.each([
  [{ type: 'enum' }, 'has options'],
  [{ options: ['a'] }, 'has options'],
  [{ min: 1 }, 'min and max'],
  [{ default: 'a', generate: true }, 'a default or a generator'],
  [{ type: 'port', default: 'x' }, 'has a default that must be a port'],
])('a declaration with %o is refused', (fields, words) => {
  expect(variableFault(variable(fields), new PatternTime())).toContain(words);
});

it('has a sample of each type that is of it', () => {
  for (const type of Variable.shape.type.unwrap().options) {
    const it = variable({ type, ...(type === 'enum' && { options: ['a'] }) });
    expect([type, valueFault(it, sampleOf(it), judging())]).toEqual([type, undefined]);
  }
});

describe('a generator', () => {
  it.each([
    ['hex', /^[0-9a-f]{64}$/],
    ['alphanumeric', /^[A-Za-z0-9]{64}$/],
    ['url_safe', /^[A-Za-z0-9_-]{64}$/],
  ] as const)('draws as many characters of %s as asked for', (alphabet, form) => {
    const first = generated({ alphabet, length: 64 }, random);
    expect(first).toMatch(form);
    expect(generated({ alphabet, length: 64 }, random)).not.toBe(first);
  });

  it('encodes as many bytes in base64, and begins with its prefix', () => {
    const value = generated({ alphabet: 'base64', length: 32, prefix: 'base64:' }, random);
    expect(value.startsWith('base64:')).toBe(true);
    expect(Buffer.from(value.slice(7), 'base64')).toHaveLength(32);
  });

  it('is of letters that an address takes where nothing else is said', () => {
    const value = generated({}, random);
    expect(encodeURIComponent(value)).toBe(value);
    expect(value).toHaveLength(32);
  });
});

describe('the values of an instance', () => {
  const variables = [
    variable({ name: 'NEEDED' }),
    variable({ name: 'USUAL', default: 'x' }),
    variable({ name: 'MADE', type: 'secret', generate: true }),
    variable({ name: 'LEFT', required: false }),
  ];

  it('are those that were given, defaults and generated ones', () => {
    const values = valuesFrom(variables, { NEEDED: 'y' }, { random, now });
    expect([...values].map(([name, { text, isGenerated }]) => [name, isGenerated ? text.length : text])).toEqual([
      ['NEEDED', 'y'],
      ['USUAL', 'x'],
      ['MADE', 32],
    ]);
  });

  it('name each that is missing, unknown or wrong', () => {
    const wrong = () =>
      valuesFrom([...variables, variable({ name: 'PORT', type: 'port' })], { OTHER: 'x', PORT: 'y' }, { random, now });
    expect(wrong).toThrow(
      expect.objectContaining({
        status: 400,
        details: [
          expect.objectContaining({ field: 'variables.OTHER', reason: 'unknown' }),
          expect.objectContaining({ field: 'variables.NEEDED', reason: 'required' }),
          expect.objectContaining({ field: 'variables.PORT', reason: 'invalid' }),
        ],
      }),
    );
  });
});
