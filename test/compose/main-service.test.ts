import { expect, it } from 'vitest';
import { mainServiceOf } from '../../compose/main-service.ts';

const services = [
  { name: 'db', ports: [] },
  { name: 'cache', ports: [{ port: 6379 }] },
  { name: 'web', ports: [{ port: 80, publish: 8080 }] },
];

it.each([
  [{ name: 'db' }, 'db'],
  [{ name: 'none' }, undefined],
  [{ port: 6379 }, 'cache'],
  [{ port: 1 }, 'web'],
  [{}, 'web'],
])('of %j requests are for %s', (wanted, name) => {
  expect(mainServiceOf(services, wanted)?.name).toBe(name);
});

it('is the first with a port where none is published, and the first of all without one', () => {
  expect(mainServiceOf(services.slice(0, 2), {})?.name).toBe('cache');
  expect(mainServiceOf(services.slice(0, 1), {})?.name).toBe('db');
  expect(mainServiceOf([], {})).toBeUndefined();
});
