import { describe, expect, it } from 'vitest';
import { keys, parseKey } from '../../store/keys.ts';
import { objectBytes, Usage } from '../../store/usage.ts';

function put(usage: Usage, key: string, value: string | undefined): void {
  const meaning = parseKey(key);
  if (meaning === undefined) throw new Error(`Test must use a key of the layout: ${key}`);
  usage.set(key, value, meaning);
}

const application = { project_id: 'p', environment_id: 'e' };

describe('what everything takes', () => {
  it('is shown for tenant, project and account, and is nothing once all is gone', () => {
    const usage = new Usage();
    const [desired, observed] = [keys.desired('t', 'application', 'a'), keys.observed('t', 'application', 'a')];
    put(usage, observed, 'o'.repeat(100));
    put(usage, desired, 'd'.repeat(1000));
    usage.place('t', 'application', 'a', application);
    const bytes = 1100 + desired.length + observed.length + objectBytes;
    expect(usage.ofProject('t', 'p')).toEqual({ bytes, objects: 1 });
    expect(usage.ofTenant('t')).toEqual({ bytes, objects: 1 });
    expect(usage.ofObject('t', 'application', 'a')).toMatchObject({ bytes, objects: 1 });
    expect(usage.total).toEqual({ bytes, objects: 1 });
    expect(usage.ofTenant('other')).toEqual({ bytes: 0, objects: 0 });

    put(usage, desired, 'd'.repeat(10));
    usage.place('t', 'application', 'a', application);
    expect(usage.ofProject('t', 'p')).toEqual({ bytes: bytes - 990, objects: 1 });
    put(usage, desired, undefined);
    expect(usage.ofProject('t', 'p')).toEqual({ bytes: 100 + observed.length, objects: 0 });
    put(usage, observed, undefined);
    for (const sum of [usage.total, usage.ofTenant('t'), usage.ofProject('t', 'p')])
      expect(sum).toEqual({ bytes: 0, objects: 0 });
  });

  it('counts icons in their project, keys and sessions in their account, kept answers with whom they answered', () => {
    const usage = new Usage();
    put(usage, keys.bytes('t', 'project', 'p'), 'i'.repeat(500));
    expect(usage.ofProject('t', 'p').bytes).toBeGreaterThan(500);
    put(usage, keys.desired('t', 'service_key', 'k'), 'k'.repeat(300));
    usage.place('t', 'service_key', 'k', { user_id: 'u', project_id: 'p' });
    expect(usage.ofAccount('t', 'u')).toMatchObject({ objects: 1 });
    const before = usage.ofAccount('t', 'u').bytes;
    put(usage, keys.idempotency('t', 'hash'), JSON.stringify({ user: 'u', answer: 'a'.repeat(200) }));
    expect(usage.ofAccount('t', 'u').bytes).toBeGreaterThan(before + 200);
    put(usage, keys.idempotency('t', 'older'), JSON.stringify({ answer: 'a' }));
    put(usage, keys.idempotency('t', 'torn'), '{');
    expect(usage.ofProject('t', 'p').objects).toBe(0);
    put(usage, keys.idempotency('t', 'hash'), undefined);
    expect(usage.ofAccount('t', 'u').bytes).toBe(before);
  });

  it('counts bytes, not characters', () => {
    const usage = new Usage();
    const key = keys.observed('t', 'application', 'a');
    put(usage, key, '€'.repeat(10));
    expect(usage.total.bytes).toBe(30 + key.length);
  });

  it('leaves out the audit log, and forgets what a full list does not have', () => {
    const usage = new Usage();
    put(usage, keys.auditPending('t', '1'), 'record');
    expect(usage.total).toEqual({ bytes: 0, objects: 0 });
    const [icon, name] = [keys.bytes('t', 'project', 'p'), keys.unique('t', 'project', 'all', 'n')];
    put(usage, icon, 'i');
    put(usage, name, 'n');
    usage.retain(new Set([name]), parseKey);
    expect(usage.total.bytes).toBe(name.length + 1);
    expect(usage.ofProject('t', 'p').bytes).toBe(0);
  });
});
