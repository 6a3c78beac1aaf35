import fc from 'fast-check';
import { expect, test } from 'vitest';
import { maxPartBytes, maxParts, minPartBytes, partBytesFor } from '../../network/multipart.ts';

const gibibyte = 1024 ** 3;

test('an upload may become four times as large as expected, until the largest parts are reached', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10_000 * gibibyte }), (expected) => {
      const part = partBytesFor(expected);
      expect(part % (1024 * 1024)).toBe(0);
      expect(part).toBeGreaterThanOrEqual(minPartBytes);
      expect(part).toBeLessThanOrEqual(maxPartBytes);
      if (part < maxPartBytes) expect(part * maxParts).toBeGreaterThanOrEqual(4 * expected);
      // no larger than it needs
      if (part > minPartBytes) expect((part - 1024 * 1024) * maxParts).toBeLessThan(4 * expected);
    }),
  );
});

test('what is below 12 GiB goes in the smallest parts, and 625 GiB fit into the largest', () => {
  expect(partBytesFor(12 * gibibyte)).toBe(minPartBytes);
  expect(partBytesFor(625 * gibibyte)).toBe(maxPartBytes);
  expect(maxPartBytes * maxParts).toBe(625 * gibibyte);
  expect(partBytesFor(undefined) * maxParts).toBeGreaterThan(300 * gibibyte);
});
