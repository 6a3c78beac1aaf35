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
