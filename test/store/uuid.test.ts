import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { uuidv5 } from '../../store/uuid.ts';

const dns = '6ba7b810-9dad-11d1-80b4-00c04fd430c8';

describe('uuidv5', () => {
  it('gives the example of RFC 9562', () => {
    expect(uuidv5(dns, 'www.example.com')).toBe('2ed6657d-e927-568b-95e1-2665a8aea6a2');
  });

  it('takes a namespace in capitals as the same one', () => {
    expect(uuidv5(dns.toUpperCase(), 'a')).toBe(uuidv5(dns, 'a'));
  });

  it('gives ids that the schemas accept, different for different names', () => {
    const ids = Array.from({ length: 1000 }, (_, n) => uuidv5(dns, `slot/${n}`));
    expect(new Set(ids).size).toBe(1000);
    for (const id of ids) expect(z.uuid().safeParse(id).success).toBe(true);
  });

  it('hashes a name as UTF-8', () => {
    expect(uuidv5(dns, 'ü')).not.toBe(uuidv5(dns, 'u'));
    expect(uuidv5(dns, 'ü')).toBe(uuidv5(dns, '\u00fc'));
  });

  it('refuses a namespace that is no UUID', () => {
    expect(() => uuidv5('deployment', 'build')).toThrow('Namespace of a UUID must be a UUID: got deployment');
  });
});
