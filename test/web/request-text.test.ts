import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { describe, expect, test } from 'vitest';
import { asCurl, yamlDocument } from '../../web/parts/request-text.ts';

describe('a request as curl', () => {
  test('has its body as one quoted argument, and the token from the environment', () => {
    const text = asCurl('https://s.test', {
      method: 'POST',
      path: '/default/api/v1/servers',
      body: { name: "o'brien" },
    });
    expect(text).toContain('-X POST https://s.test/default/api/v1/servers');
    expect(text).toContain('"Authorization: Bearer $SETPOINT_TOKEN"');
    expect(text).toContain(String.raw`"name": "o'\''brien"`);
  });

  test('has the name of a variable in the place of a secret', () => {
    const body = { username: 'ci', password: 'hunter2' };
    const text = asCurl('https://s.test', { method: 'POST', path: '/x', body, secrets: ['password'] });
    expect(text).not.toContain('hunter2');
    expect(text).toContain('"$PASSWORD"');
  });
});

test('YAML is read as the value that was written', () => {
  const value = {
    kind: 'Application',
    metadata: { name: 'web', labels: {} },
    spec: {
      ports: [80, 443],
      env: { A: 'yes', B: '007', C: 'a: b', D: 'two\nlines', 'E-F': '' },
      items: [
        { name: 'x', on: true },
        { name: 'y', list: ['a', 'b'] },
      ],
      none: null,
      empty: [],
    },
  };
  expect(parse(yamlDocument(value))).toEqual(value);
});

test('a command that is there to be copied quotes the names that somebody chose', () => {
  const folder = join(import.meta.dirname, '../../web/pages');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tsx'));
  const commands = files.flatMap((name) => readFileSync(join(folder, name), 'utf8').match(/`setpoint [^`]*`/g) ?? []);
  expect(commands.length).toBeGreaterThan(10);
  expect(commands.filter((text) => /\$\{\w+\.(?:display_)?name\b/.test(text))).toEqual([]);
});
