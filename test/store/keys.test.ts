import { describe, expect, it } from 'vitest';
import { keys, normalizeName, parseKey } from '../../store/keys.ts';

describe('keys', () => {
  it('are understood by the parser that the mirror uses', () => {
    expect(parseKey(keys.desired('acme', 'project', 'a1'))).toEqual({
      area: 'desired',
      tenant: 'acme',
      kind: 'project',
      id: 'a1',
    });
    expect(parseKey(keys.observed('acme', 'project', 'a1'))).toMatchObject({ area: 'observed' });
    expect(parseKey(keys.agent('acme', 's1'))).toEqual({ area: 'agent', tenant: 'acme', server: 's1' });
    expect(parseKey(keys.leader('controllers'))).toEqual({ area: 'leader', name: 'controllers' });
    expect(parseKey('/elsewhere/x')).toBeUndefined();
  });

  it('keep a name with slashes, percent signs and spaces in one segment', () => {
    const key = keys.unique('acme', 'application', 'env/1', 'a b/%c');
    expect(parseKey(key)).toEqual({
      area: 'unique',
      tenant: 'acme',
      kind: 'application',
      scope: 'env/1',
      name: 'a b/%c',
    });
  });

  it('treat names as equal that differ in case or in their Unicode form only', () => {
    expect(normalizeName('Ｗeb')).toBe(normalizeName('web'));
    expect(keys.unique('t', 'project', 'all', 'WEB')).toBe(keys.unique('t', 'project', 'all', 'web'));
  });
});
