import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withReferences } from '../../store/referable.ts';
import { escapeReferences, hasReferences, parseReferences, referenceText } from '../../store/references.ts';

const web = { kind: 'applications', name: 'web', attribute: 'url' } as const;

test('a value is split into its text and its references', () => {
  expect(parseReferences('a ${applications.web.url}/b?${applications."My \\"shop\\".v2".host}')).toEqual({
    parts: ['a ', web, '/b?', { kind: 'applications', name: 'My "shop".v2', attribute: 'host' }],
  });
});

test('text that only resembles a reference stays as it is', () => {
  for (const value of [
    '${HOME}',
    '$${HOME}',
    '$applications.web.url',
    '${ applications.web.url}',
    '{applications.',
    '$',
  ])
    expect(hasReferences(value)).toBe(false);
});

test('an escaped reference is text, with one dollar less', () => {
  expect(withReferences('$${applications.web.url} $$${applications.web.url}', {})).toBe(
    '${applications.web.url} $${applications.web.url}',
  );
});

test.each([
  '${applications.}',
  '${applications.web}',
  '${applications.my shop.url}',
  '${applications."web.url}',
  '${applications.web.url',
  '${applications.${applications.web.url}.url}',
])('what begins as a reference and is none is a fault: %s', (value) => {
  expect(parseReferences(value)).toMatchObject({ fault: expect.stringContaining('is no reference') });
});

test('a value is read once: what stands for a reference is not looked at again', () => {
  const values = { '${applications.web.url}': '${applications.web.url}$${applications.' };
  expect(withReferences('<${applications.web.url}>', values)).toBe('<${applications.web.url}$${applications.>');
});

test('a reference that was not resolved is never an empty text', () => {
  expect(() => withReferences('${applications.__proto__.url}', {})).toThrow('was not resolved');
});

const words = fc.array(
  fc.oneof(
    fc.string({ unit: 'binary', maxLength: 4 }),
    fc.constantFrom('$', '{', '${applications.', '$${databases.', '}'),
  ),
);

test('every text is a value of itself once it is escaped', () => {
  fc.assert(
    fc.property(words, (some) => {
      const text = some.join('');
      expect(withReferences(escapeReferences(text), {})).toBe(text);
    }),
  );
});

test('every name can be referred to', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), (name) => {
      const reference = { ...web, name };
      expect(parseReferences(`<${referenceText(reference)}>`)).toEqual({ parts: ['<', reference, '>'] });
    }),
  );
});
