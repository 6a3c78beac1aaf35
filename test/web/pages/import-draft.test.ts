import { expect, test } from 'vitest';
import { whyNoImport } from '../../../web/pages/database/import-draft.ts';
import type { ImportDraft } from '../../../web/pages/database/import-draft.ts';

const draft: ImportDraft = { source: 'file', file: undefined, address: '', path: '' };

test('a dump is imported once it is known where it is', () => {
  expect(whyNoImport(draft)).toBe('Choose a file first');
  expect(whyNoImport({ ...draft, file: new File([], 'orders.sql') })).toBe('The file is empty');
  expect(whyNoImport({ ...draft, file: new File(['x'], 'orders.sql') })).toBeUndefined();
  expect(whyNoImport({ ...draft, source: 'server' })).toContain('path');
  expect(whyNoImport({ ...draft, source: 'server', path: 'orders.sql' })).toBeUndefined();
});

test('an address of a dump is one that its server can fetch, without a password that answers would show', () => {
  const of = (address: string) => whyNoImport({ ...draft, source: 'address', address });
  expect(of(' https://dumps.example.com/orders.dump?sign=1 ')).toBeUndefined();
  expect(of('http://10.0.0.7/orders.dump')).toBeUndefined();
  expect(of('')).toBe('Enter the address first');
  expect(of('orders.dump')).toContain('such as https://');
  expect(of('file:///orders.dump')).toContain('begins with https://');
  expect(of('https://ada:sesame@dumps.example.com/orders.dump')).toContain('no password');
});
