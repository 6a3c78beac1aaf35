import { describe, expect, it } from 'vitest';
import { foldName } from '../../store/fold-name.ts';
import { afterUncompared, afterUnmirrored, keys, mayBeginBytes, parseKey } from '../../store/keys.ts';

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

  it('of the audit log are in the order in which it is read, and a list steps over all of them at once', () => {
    const newest = keys.auditChained('acme', 1_000_000);
    expect([keys.auditChained('acme', 9), newest, keys.auditChained('acme', 10)].toSorted()[0]).toBe(newest);
    expect(parseKey(newest)).toEqual({ area: 'audit', tenant: 'acme', part: 'chained' });
    expect(parseKey(keys.auditHead('acme'))).toMatchObject({ area: 'audit', part: 'head' });
    for (const key of [newest, keys.auditHead('acme'), keys.auditPending('acme', '1-x')]) {
      expect(afterUnmirrored(key) > keys.auditPending('acme', '\u{10ffff}')).toBe(true);
      expect(afterUnmirrored(key) < keys.desired('acme', 'application', 'x')).toBe(true);
    }
    const desired = keys.desired('acme', 'application', 'x');
    expect(afterUnmirrored(desired)).toBe(desired);
    expect(afterUnmirrored(keys.tenant('a'))).toBe(keys.tenant('a'));
  });

  it('of bytes come right after the audit log, so that a list that wants neither steps over both at once', () => {
    const [audit, bytes, desired] = [
      keys.auditHead('acme'),
      keys.bytes('acme', 'project', 'x'),
      keys.desired('acme', 'project', 'x'),
    ];
    for (const key of [audit, bytes]) {
      expect(afterUncompared(key) > keys.bytes('acme', 'user', '\u{10ffff}')).toBe(true);
      expect(afterUncompared(key) < keys.desired('acme', 'application', 'x')).toBe(true);
      expect(mayBeginBytes(afterUncompared(key))).toBe(false);
    }
    expect([afterUnmirrored(audit), bytes, audit, desired, keys.tenant('a')].map(mayBeginBytes)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  it('treat names as equal that differ in case or in their Unicode form only', () => {
    expect(foldName('Ｗeb')).toBe(foldName('web'));
    expect(keys.unique('t', 'project', 'all', 'WEB')).toBe(keys.unique('t', 'project', 'all', 'web'));
  });
});
