import { expect, it } from 'vitest';
import { keyOf, readDeclared } from '../../api/declared/read.ts';

const volume = (name: string, ...spec: string[]): string =>
  [`apiVersion: setpoint/v1`, `kind: Volume`, `metadata: {name: ${name}}`, ...spec].join('\n');

it('reads a text of nothing but lines between documents as nothing', () => {
  expect(() => readDeclared('---\n'.repeat(65_000))).toThrow('declares nothing');
  expect(readDeclared(`${'---\n'.repeat(60_000)}${volume('a')}`)).toHaveLength(1);
});

it('refuses more documents, and more objects of a list, than there may be', () => {
  const many = Array.from({ length: 201 }, (_, n) => volume(`v-${n}`));
  expect(() => readDeclared(many.join('\n---\n'))).toThrow('more than 200 objects');
  expect(readDeclared(many.slice(1).join('\n---\n'))).toHaveLength(200);
  const list = many.map((one) => `- ${one.replaceAll('\n', '\n  ')}`).join('\n');
  expect(() => readDeclared(list)).toThrow('more than 200 objects');
});

it('names the line of the whole text for a fault of a later document', () => {
  const text = `${volume('a')}\n---\n# a comment\n---\n${volume('b', 'spec: {server: []}')}`;
  expect(() => readDeclared(text)).toThrow(/^Line 10, column \d+: spec\.server/);
});

it('calls an object of the default environment the same with and without its name', () => {
  const [one, other] = readDeclared(
    `${volume('a', 'spec: {environment: Production}')}\n---\n${volume('a', 'spec: {environment: staging}')}`,
  );
  expect(keyOf(one!, 'production')).toBe('volumes.a');
  expect(keyOf(other!, 'production')).toBe('volumes.staging/a');
});
