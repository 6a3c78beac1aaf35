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

it('refuses what is moved from a name that it has itself, or that something else of the text has', () => {
  const moved = (name: string, from: string, ...spec: string[]): string =>
    [`apiVersion: setpoint/v1`, `kind: Volume`, `metadata: {name: ${name}, moved_from: ${from}}`, ...spec].join('\n');
  expect(readDeclared(moved('b', 'a'))).toMatchObject([{ metadata: { name: 'b', moved_from: 'a' } }]);
  expect(() => readDeclared(moved('b', 'B'))).toThrow(/^Line 3, column \d+: metadata\.moved_from must be another name/);
  expect(() => readDeclared(`${moved('b', 'a')}\n---\n${volume('A')}`)).toThrow(
    /is the name of volumes\.a, which the text/,
  );
  expect(() => readDeclared(`${moved('b', 'a')}\n---\n${moved('c', 'a')}`)).toThrow(
    /^Line 7, .* another object of the text/,
  );
  // what has the name is of another kind or in another environment
  const others = [
    'kind: Environment\nmetadata: {name: a}',
    'kind: Volume\nmetadata: {name: a}\nspec: {environment: other}',
  ];
  for (const other of others)
    expect(readDeclared(`${moved('b', 'a')}\n---\napiVersion: setpoint/v1\n${other}`)).toHaveLength(2);
});
